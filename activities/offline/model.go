package offline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"conclave/engine/llm"
)

// Model plays one agent. A team of them comes to a decision like this:
//
//   - Shown no answers, each answers, with a text that its seed makes its own.
//   - Shown three or more first answers, the agent with the highest number
//     answers a second time, and the others vote: so their votes go stale.
//   - In every other case it votes for the answer revised most often, of several
//     for the lowest number. That depends only on what is shown, so that agents
//     who are shown the same choose the same.
//
// Where the work is divided it answers once and then stops. Where it can only
// answer, as a presenter can, it answers, and where a final answer is to be
// judged it submits it: there is nobody here who could find it wanting.
//
// What is told while it works counts like what it was told at first. An action
// that was turned down for the sake of news is taken again, in the light of it.
//
// In a scenario it reports pass, and that nothing was tested.
//
// With other tools, or none, it plays the step of a pipeline: it goes where lines
// such as "offline: call lint" of its prompt send it, and ends with a text.
type Model struct {
	mark  string // tells its answers from others'
	first int    // where it begins among the angles
}

// New returns the model of one agent. Agents of a team need different seeds,
// such as their IDs, for their answers to differ. The seed appears in no reply.
func New(seed string) *Model {
	sum := sha256.Sum256([]byte(seed))
	return &Model{mark: hex.EncodeToString(sum[:4]), first: int(sum[4])}
}

// Generate returns the next reply. Its only error is that ctx has ended.
func (m *Model) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	if ctx.Err() != nil {
		return llm.Reply{}, fmt.Errorf("asking the offline model: %w", context.Cause(ctx))
	}
	v := look(req, m.mark)
	message := llm.Message{Role: llm.Assistant}
	switch {
	case v.offers("submit"):
		message.ToolCalls = []llm.ToolCall{call("submit", map[string]string{})}
	case v.offers("report_result"):
		message.ToolCalls = m.inspect(req, v)
	case m.answers(v):
		message.ToolCalls = m.answer(v)
	case v.offers("stop"):
		message.ToolCalls = []llm.ToolCall{stop()}
	case len(v.candidates) > 0:
		message.ToolCalls = m.vote(v)
	default:
		message = m.step(req)
	}
	for i := range message.ToolCalls {
		message.ToolCalls[i].ID = fmt.Sprintf("offline_%d_%d", len(req.Messages), i)
	}
	return llm.Reply{Message: message, Usage: usage(req, message)}, nil
}

// answers reports whether it is time for an answer: there is nothing else to do,
// or there is none of its own, or it is its turn to give a second one.
func (m *Model) answers(v view) bool {
	switch {
	case !v.offers("new_answer"):
		return false
	case v.offers("stop"):
		return v.own.number == 0
	default:
		return len(v.candidates) == 0 || v.improves()
	}
}

// answer first leaves the answer in a file, where there are files, and then
// submits it.
func (m *Model) answer(v view) []llm.ToolCall {
	const file = "answer.md"
	text := m.text(v)
	if v.offers("write_file") {
		text += "\n\nThe file " + file + " has the same text."
		if v.made["write_file"] == 0 {
			return []llm.ToolCall{call("write_file", map[string]string{"path": file, "content": text + "\n"})}
		}
	}
	return []llm.ToolCall{call("new_answer", map[string]string{"content": text})}
}

// vote first looks at the files of the answers, where there are any.
func (m *Model) vote(v view) []llm.ToolCall {
	choice := v.choice()
	if v.made["list_files"]+v.made["read_file"]+v.made["vote"] == 0 {
		var looking []llm.ToolCall
		if v.offers("list_files") {
			looking = append(looking, call("list_files", map[string]string{"path": "peers"}))
		}
		if v.offers("read_file") {
			looking = append(looking, call("read_file", map[string]string{"path": "peers/" + choice.agent + "/answer.md"}))
		}
		if len(looking) > 0 {
			return looking
		}
	}
	reason := fmt.Sprintf("The offline model votes by rule, not by merit: %s is the answer revised most often, the first of equals.", choice.label())
	return []llm.ToolCall{call("vote", map[string]string{"agent_id": choice.agent, "reason": reason})}
}

func stop() llm.ToolCall {
	return call("stop", map[string]string{
		"status":  "complete",
		"summary": "The offline model stops by rule: it has answered once, and no language model has done its part.",
	})
}

func call(name string, arguments map[string]string) llm.ToolCall {
	text, _ := json.Marshal(arguments) // a map of strings always has a JSON form
	return llm.ToolCall{Name: name, Arguments: string(text)}
}

// usage is a rough count, four bytes to a token. It costs nothing.
func usage(req llm.Request, reply llm.Message) llm.Usage {
	in := 0
	for _, m := range req.Messages {
		in += length(m)
	}
	for _, t := range req.Tools {
		in += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return llm.Usage{
		InputTokens:  int64(in+3) / 4,
		OutputTokens: int64(length(reply)+3) / 4,
		TotalUSD:     new(float64),
		ModelCalls:   1,
	}
}

func length(m llm.Message) int {
	n := len(m.Content)
	for _, c := range m.ToolCalls {
		n += len(c.Name) + len(c.Arguments)
	}
	return n
}
