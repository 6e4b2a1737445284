package offline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// model plays one agent. A team of them decides as follows:
//
//   - Without answers, each agent answers with a text that depends on its seed.
//   - Once three or more agents have answered for the first time, the agent with the
//     highest number answers again. The others vote, and their votes become stale.
//   - Otherwise an agent votes for the answer with the most revisions; among equals, for
//     the lowest agent number. Agents that see the same answers vote the same.
//
// If the work is divided, an agent answers once and then stops. A presenter answers. In a review it
// always submits the final answer, and in an evaluation it rates the answer as converged. An update
// during a step is read like the prompt.
//
// In a scenario it reports pass and that nothing was tested. With other tools, or with none, it
// plays a pipeline step: it follows lines of its prompt such as "offline: call lint" and ends with
// a text.
type model struct {
	mark  string // identifies the model's answers
	first int    // index of its first angle
}

// New returns the model of one agent. Models with different seeds give different answers.
func New(seed string) loop.Model {
	sum := sha256.Sum256([]byte(seed))
	return &model{mark: hex.EncodeToString(sum[:4]), first: int(sum[4])}
}

// Generate returns the next reply. It fails only when ctx ends.
func (m *model) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	if ctx.Err() != nil {
		return llm.Reply{}, fmt.Errorf("ask the offline model: %w", context.Cause(ctx))
	}
	v := newView(req, m.mark)
	message := llm.Message{Role: llm.Assistant}
	switch {
	case v.offers("submit"):
		message.ToolCalls = []llm.ToolCall{call("submit", map[string]string{})}
	case v.offers("submit_evaluation"):
		message.ToolCalls = []llm.ToolCall{evaluation(req)}
	case v.offers("report_result"):
		message.ToolCalls = m.reportResult(req, v)
	case v.wantsAnswer():
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

// answer first writes the answer to a file if it has the tool, and then submits it.
func (m *model) answer(v view) []llm.ToolCall {
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

func (m *model) vote(v view) []llm.ToolCall {
	choice := v.choice()
	if v.made["list_files"]+v.made["read_file"]+v.made["vote"] == 0 {
		var reads []llm.ToolCall
		if v.offers("list_files") {
			reads = append(reads, call("list_files", map[string]string{"path": "peers"}))
		}
		if v.offers("read_file") {
			reads = append(reads, call("read_file", map[string]string{"path": "peers/" + choice.agent + "/answer.md"}))
		}
		if len(reads) > 0 {
			return reads
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

// usage estimates the tokens at four bytes each. The cost is zero.
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

// markForm formats a model's mark, which begins each of its answers.
func markForm(mark string) string { return "Offline model " + mark }

// angles returns the sentences in which the answers of a team differ.
func angles() []string {
	return []string{
		"A real answer would begin by asking what has to be true for the question to make sense.",
		"Somebody with a model behind them might list the options first and weigh them after.",
		"One would look here for numbers, and for who measured them.",
		"The careful way is to say what is known, what is guessed, and what nobody can know yet.",
		"Perhaps a counterexample settles it faster than any argument does.",
		"Start small, check the result by hand, then generalise: that is the usual advice.",
		"History often has a precedent; an answer could compare and say where the comparison limps.",
		"Whoever asks this probably needs a recommendation rather than an essay.",
	}
}

// text returns an answer, which differs from all others of the model.
func (m *model) text(v view) string {
	attempt := v.made["new_answer"]
	revision := v.own.revision + 1
	var b strings.Builder
	fmt.Fprintf(&b, "%s, no language model was asked: this text comes from a fixed rule and shows how a team decides.\n", markForm(m.mark))
	if attempt == 0 && v.question != "" {
		fmt.Fprintf(&b, "\nThe question was: %s\n", v.question)
	}
	fmt.Fprintf(&b, "\n%s", angles()[(m.first+revision+attempt)%len(angles())])
	if v.own.number > 0 {
		fmt.Fprintf(&b, "\n\nRevision %d, written after a look at %d answers.", revision, len(v.shown()))
	}
	if attempt > 0 {
		fmt.Fprintf(&b, "\n\nAttempt %d, because the one before did not stand.", attempt+1)
	}
	return b.String()
}
