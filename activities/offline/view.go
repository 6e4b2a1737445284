package offline

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/llm"
)

// view is the state of the team as described by a request.
type view struct {
	tools      []string
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

func (c candidate) label() string { return fmt.Sprintf("%s.%d", c.agent, c.revision) }

var label = regexp.MustCompile(`\bagent([1-9][0-9]{0,3})\.([1-9][0-9]{0,3})\b`)

// newView reads all messages of the conversation, so that an update counts like the prompt.
func newView(req llm.Request, mark string) view {
	v := view{made: make(map[string]int), since: make(map[string]int)}
	for _, t := range req.Tools {
		v.tools = append(v.tools, t.Name)
		if t.Name == "vote" {
			v.candidates = candidates(t)
		}
	}
	for _, m := range req.Messages {
		for _, c := range m.ToolCalls {
			v.made[c.Name]++
			v.since[c.Name]++
		}
		if m.Role == llm.User {
			clear(v.since)
			v.read(m.Content, mark)
		}
	}
	for i, c := range v.candidates {
		if at := slices.IndexFunc(v.answers, func(a candidate) bool { return a.number == c.number }); at >= 0 {
			v.candidates[i].revision = v.answers[at].revision
		}
	}
	return v
}

// candidates returns the values that the vote tool accepts for agent_id.
func candidates(vote llm.Tool) []candidate {
	var out []candidate
	for _, agent := range enum(vote, "agent_id") {
		number, _ := strconv.Atoi(strings.TrimPrefix(agent, "agent"))
		out = append(out, candidate{agent: agent, number: number, revision: 1})
	}
	return out
}

// enum returns the values that a tool's schema allows for an argument.
func enum(tool llm.Tool, argument string) []string {
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

// read adds a user message to the view: the question, if it is the first message, the labels of
// answers, and the model's own answer, which is recognized by its mark.
func (v *view) read(text, mark string) {
	if v.question == "" {
		v.question = question(text)
	}
	if turn := strings.LastIndex(text, "\n# Your turn\n"); turn >= 0 {
		section, _, _ := strings.Cut(text[turn+1:], "\n# ")
		v.close(section)
	}
	at := strings.LastIndex(text, markForm(mark)) // earlier turns may have one, too
	for _, found := range label.FindAllStringSubmatchIndex(text, -1) {
		number, _ := strconv.Atoi(text[found[2]:found[3]])
		revision, _ := strconv.Atoi(text[found[4]:found[5]])
		named := candidate{agent: fmt.Sprintf("agent%d", number), number: number, revision: revision}
		v.mention(named)
		if found[0] < at {
			v.own = named // the last label before the mark is its heading
		}
	}
}

// close removes the tools that are not available in this turn, according to the section "Your turn"
// of the prompt.
func (v *view) close(turn string) {
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

func (v *view) mention(named candidate) {
	at, there := slices.BinarySearchFunc(v.answers, named, func(a, b candidate) int { return a.number - b.number })
	if !there {
		v.answers = slices.Insert(v.answers, at, named)
	}
	v.answers[at].revision = max(v.answers[at].revision, named.revision)
}

// question returns the first section of a prompt, without its heading.
func question(prompt string) string {
	lines := strings.Split(strings.TrimSpace(prompt), "\n")
	if strings.HasPrefix(lines[0], "#") {
		lines = lines[1:]
	}
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "# ") }); i >= 0 {
		lines = lines[:i]
	}
	return quoted(strings.Join(lines, " "))
}

func (v view) offers(tool string) bool { return slices.Contains(v.tools, tool) }

// shown returns the answers that can be voted for or, without a vote, all answers mentioned in the
// prompt.
func (v view) shown() []candidate {
	if len(v.candidates) > 0 {
		return v.candidates
	}
	return v.answers
}

// wantsAnswer reports whether the agent answers now: if it has no other action, if it may stop but
// has no answer yet, or if it has to answer a second time.
func (v view) wantsAnswer() bool {
	switch {
	case !v.offers("new_answer"):
		return false
	case v.offers("stop"):
		return v.own.number == 0
	default:
		return len(v.candidates) == 0 || v.ownTurn()
	}
}

// ownTurn reports whether this agent has to answer a second time.
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

// choice returns the candidate to vote for, a different one after each refused vote.
func (v view) choice() candidate {
	ranked := slices.Clone(v.candidates)
	slices.SortStableFunc(ranked, func(a, b candidate) int {
		if a.revision != b.revision {
			return b.revision - a.revision
		}
		return a.number - b.number
	})
	return ranked[v.since["vote"]%len(ranked)]
}
