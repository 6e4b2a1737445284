package offline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// view is the state of the team as described by a request.
type view struct {
	tools      []string
	form       *llm.DataSchema // of the arguments of new_answer, if an answer is data
	question   string
	candidates []candidate // possible votes, in the order of the tool's enum
	answers    []candidate // mentioned answers, by number
	own        candidate   // the answer with the mark of this model; zero if it is not shown

	made  map[string]int // calls in the conversation, by tool
	since map[string]int // calls since the last user message, by tool
}

type candidate struct {
	agent    string // agent<N> of the answer
	number   int
	revision int // highest revision shown
}

func (c candidate) versionLabel() string { return fmt.Sprintf("%s.%d", c.agent, c.revision) }

var label = regexp.MustCompile(`\bagent([1-9][0-9]{0,3})\.([1-9][0-9]{0,3})\b`)

// newView reads all messages of the conversation, so that an update counts like the prompt.
func newView(req llm.Request, mark string) view {
	v := view{made: make(map[string]int), since: make(map[string]int)}
	for _, t := range req.Tools {
		v.tools = append(v.tools, t.Name)
		if t.Instead != "" {
			v.form, _ = llm.ReadDataSchema(t.Parameters) // without it the answer is refused
		}
		if t.Name == "vote" {
			v.candidates = voteCandidates(t)
		}
	}
	for _, m := range req.Messages {
		for _, c := range m.ToolCalls {
			v.made[c.Name]++
			v.since[c.Name]++
		}
		if m.Role == llm.User {
			clear(v.since)
			v.readMessage(m.Content, mark)
		}
	}
	for i, c := range v.candidates {
		if at := slices.IndexFunc(v.answers, func(a candidate) bool { return a.number == c.number }); at >= 0 {
			v.candidates[i].revision = v.answers[at].revision
		}
	}
	return v
}

func voteCandidates(vote llm.Tool) []candidate {
	var out []candidate
	for _, agent := range enumValues(vote, "agent_id") {
		number, _ := strconv.Atoi(strings.TrimPrefix(agent, "agent"))
		out = append(out, candidate{agent: agent, number: number, revision: 1})
	}
	return out
}

func enumValues(tool llm.Tool, argument string) []string {
	var schema struct {
		Properties map[string]struct {
			Enum []string `json:"enum"`
		} `json:"properties"`
	}
	if json.Unmarshal(tool.Parameters, &schema) != nil {
		return nil
	}
	return schema.Properties[argument].Enum
}

// readMessage adds a user message to the view: the question, if it is the first message, the labels of
// answers, and the model's own answer, which is recognized by its mark.
func (v *view) readMessage(text, mark string) {
	if v.question == "" {
		v.question = promptQuestion(text)
	}
	if turn := strings.LastIndex(text, "\n# Your turn\n"); turn >= 0 {
		section, _, _ := strings.Cut(text[turn+1:], "\n# ")
		v.closeTools(section)
	}
	at := strings.LastIndex(text, markForm(mark)) // earlier turns may have one, too
	for _, found := range label.FindAllStringSubmatchIndex(text, -1) {
		number, _ := strconv.Atoi(text[found[2]:found[3]])
		revision, _ := strconv.Atoi(text[found[4]:found[5]])
		named := candidate{agent: fmt.Sprintf("agent%d", number), number: number, revision: revision}
		v.addMention(named)
		if found[0] < at {
			v.own = named // the last label before the mark is its heading
		}
	}
}

func (v *view) closeTools(turn string) {
	for sentence, tool := range map[string]string{
		"New answers are not open to you": "new_answer", "Voting is not open to you": "vote", "Stopping is not open to you": "stop",
	} {
		if strings.Contains(turn, sentence) {
			v.tools = slices.DeleteFunc(v.tools, func(t string) bool { return t == tool })
			if tool == "vote" {
				v.candidates = nil
			}
		}
	}
}

func (v *view) addMention(named candidate) {
	at, there := slices.BinarySearchFunc(v.answers, named, func(a, b candidate) int { return a.number - b.number })
	if !there {
		v.answers = slices.Insert(v.answers, at, named)
	}
	v.answers[at].revision = max(v.answers[at].revision, named.revision)
}

// promptQuestion returns the first section of a prompt, without its heading.
func promptQuestion(prompt string) string {
	lines := strings.Split(strings.TrimSpace(prompt), "\n")
	if strings.HasPrefix(lines[0], "#") {
		lines = lines[1:]
	}
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "# ") }); i >= 0 {
		lines = lines[:i]
	}
	return quoteText(strings.Join(lines, " "))
}

func (v view) offersTool(tool string) bool { return slices.Contains(v.tools, tool) }

// shownAnswers returns the answers that can be voted for or, without a vote, all answers mentioned in the
// prompt.
func (v view) shownAnswers() []candidate {
	if len(v.candidates) > 0 {
		return v.candidates
	}
	return v.answers
}

// wantsAnswer reports whether the agent answers now: if it has no other action, if it may stop but
// has no answer yet, or if it has to answer a second time.
func (v view) wantsAnswer() bool {
	switch {
	case !v.offersTool("new_answer"):
		return false
	case v.offersTool("stop"):
		return v.own.number == 0
	default:
		return len(v.candidates) == 0 || v.ownTurn()
	}
}

func (v view) ownTurn() bool {
	if len(v.candidates) < 3 || v.own.number == 0 || v.since["new_answer"] > 0 {
		return false
	}
	last := v.candidates[0]
	for _, c := range v.candidates {
		if c.revision > 1 {
			return false
		}
		if c.number > last.number {
			last = c
		}
	}
	return v.own.number == last.number
}

// chooseCandidate returns the candidate to vote for, a different one after each refused vote.
func (v view) chooseCandidate() candidate {
	ranked := slices.Clone(v.candidates)
	slices.SortStableFunc(ranked, func(a, b candidate) int {
		if a.revision != b.revision {
			return b.revision - a.revision
		}
		return a.number - b.number
	})
	return ranked[v.since["vote"]%len(ranked)]
}

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
// In a scenario it reports pass and that nothing was tested. With other tools, or with none, it plays a
// pipeline step: it follows lines of its prompt such as "offline: call lint" and ends with a text.
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
	case v.offersTool("submit"):
		message.ToolCalls = []llm.ToolCall{newCall("submit", map[string]string{})}
	case v.offersTool("submit_evaluation"):
		message.ToolCalls = []llm.ToolCall{submitEvaluation(req)}
	case v.offersTool("report_result"):
		message.ToolCalls = m.reportResult(req, v)
	case v.wantsAnswer():
		message.ToolCalls = m.submitAnswer(v)
	case v.offersTool("stop"):
		message.ToolCalls = []llm.ToolCall{stopCall()}
	case len(v.candidates) > 0:
		message.ToolCalls = m.castVote(v)
	default:
		message = m.playStep(req)
	}
	for i := range message.ToolCalls {
		message.ToolCalls[i].ID = fmt.Sprintf("offline_%d_%d", len(req.Messages), i)
	}
	return llm.Reply{Message: message, Usage: estimateUsage(req, message)}, nil
}

// submitAnswer first writes the answer to a file if it has the tool, and then submits it.
func (m *model) submitAnswer(v view) []llm.ToolCall {
	const file = "answer.md"
	text := m.answerText(v)
	if v.offersTool("write_file") {
		text += "\n\nThe file " + file + " has the same text."
		if v.made["write_file"] == 0 {
			return []llm.ToolCall{newCall("write_file", map[string]string{"path": file, "content": text + "\n"})}
		}
	}
	call := newCall("new_answer", map[string]string{"content": text})
	if v.form != nil {
		if example := string(v.form.Example(m.first + v.made["new_answer"])); example != "" {
			call.Arguments = strings.TrimSuffix(example, "}") + "," + call.Arguments[1:]
		}
	}
	return []llm.ToolCall{call}
}

func (m *model) castVote(v view) []llm.ToolCall {
	choice := v.chooseCandidate()
	if v.made["list_files"]+v.made["read_file"]+v.made["vote"] == 0 {
		var reads []llm.ToolCall
		if v.offersTool("list_files") {
			reads = append(reads, newCall("list_files", map[string]string{"path": "peers"}))
		}
		if v.offersTool("read_file") {
			reads = append(reads, newCall("read_file", map[string]string{"path": "peers/" + choice.agent + "/answer.md"}))
		}
		if len(reads) > 0 {
			return reads
		}
	}
	reason := fmt.Sprintf("The offline model votes by rule, not by merit: %s is the answer revised most often, the first of equals.", choice.versionLabel())
	return []llm.ToolCall{newCall("vote", map[string]string{"agent_id": choice.agent, "reason": reason})}
}

func stopCall() llm.ToolCall {
	return newCall("stop", map[string]string{
		"status":  "complete",
		"summary": "The offline model stops by rule: it has answered once, and no language model has done its part.",
	})
}

func newCall(name string, arguments map[string]string) llm.ToolCall {
	text, _ := json.Marshal(arguments) // a map of strings always has a JSON form
	return llm.ToolCall{Name: name, Arguments: string(text)}
}

// estimateUsage estimates the tokens at four bytes each. The cost is zero.
func estimateUsage(req llm.Request, reply llm.Message) llm.Usage {
	in := 0
	for _, m := range req.Messages {
		in += messageLength(m)
	}
	for _, t := range req.Tools {
		in += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return llm.Usage{
		InputTokens:  int64(in+3) / 4,
		OutputTokens: int64(messageLength(reply)+3) / 4,
		TotalUSD:     new(float64),
		ModelCalls:   1,
	}
}

func messageLength(m llm.Message) int {
	n := len(m.Content)
	for _, c := range m.ToolCalls {
		n += len(c.Name) + len(c.Arguments)
	}
	return n
}

func markForm(mark string) string { return "Offline model " + mark }

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

// answerText returns an answer, which differs from all others of the model.
func (m *model) answerText(v view) string {
	attempt := v.made["new_answer"]
	revision := v.own.revision + 1
	var b strings.Builder
	fmt.Fprintf(&b, "%s, no language model was asked: this text comes from a fixed rule and shows how a team decides.\n", markForm(m.mark))
	if attempt == 0 && v.question != "" {
		fmt.Fprintf(&b, "\nThe question was: %s\n", v.question)
	}
	fmt.Fprintf(&b, "\n%s", angles()[(m.first+revision+attempt)%len(angles())])
	if v.own.number > 0 {
		fmt.Fprintf(&b, "\n\nRevision %d, written after a look at %d answers.", revision, len(v.shownAnswers()))
	}
	if attempt > 0 {
		fmt.Fprintf(&b, "\n\nAttempt %d, because the one before did not stand.", attempt+1)
	}
	return b.String()
}
