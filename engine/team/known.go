package team

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/team/checklist"
)

// known is the fold of a step's journal: everything that judging depends on
// besides the task. Only opened and Learn change it.
type known struct {
	frame   string       // the delimiter that the agent was told of
	answers []Answer     // the newest shown of each agent
	texts   []Answer     // all that were ever shown
	heard   map[int]bool // messages, by number

	injected int // answers told of by updates
	bytes    int // of their texts

	worked    time.Duration
	usage     llm.Usage
	guided    bool          // told to come to an end
	guidedAt  time.Duration // worked until then
	warned    bool          // told that the budget is nearly used
	confirmed bool          // an action was turned down
	denied    int

	scored []scored // what the step's checklist is folded from
}

// note is the rules' memory of an entry.
type note struct {
	Answers   []answerNote       `json:"answers,omitempty"`
	Messages  []int              `json:"messages,omitempty"`
	WrapUp    bool               `json:"wrap_up,omitempty"`
	Spending  bool               `json:"spending,omitempty"`
	Confirmed bool               `json:"confirmed,omitempty"`
	Denied    int                `json:"denied,omitempty"`
	Checklist []checklist.Result `json:"checklist,omitempty"`
}

// answerNote is one answer that was shown.
type answerNote struct {
	Number int    `json:"number"`
	Label  string `json:"label"`
	Step   int    `json:"step"`
	Bytes  int    `json:"bytes,omitempty"` // of its text, as far as shown by an update
}

// opened is what is known when the task's opening was all.
func opened(t Task) known {
	k := known{frame: t.Frame, heard: make(map[int]bool)}
	if t.Purpose != Evaluate {
		k.answers = slices.Clone(t.Answers)
	}
	k.texts = slices.Clone(k.answers)
	for _, m := range t.Messages {
		k.heard[m.Number] = true
	}
	return k
}

// Learn adds a journal entry to what is known. Answers of restored entries
// whose texts are not known are fetched, which mounts their files, too.
func (r *Rules) Learn(ctx context.Context, e loop.Entry) error {
	k := &r.known
	k.worked += time.Duration(math.Round(max(0, e.Seconds) * float64(time.Second)))
	if e.Usage != nil {
		k.usage = k.usage.Add(*e.Usage)
	}
	switch e.Kind {
	case loop.Opening:
		k.frame = markOf(e.Messages, k.frame)
	case loop.Resumed:
		k.resumed()
	}
	if len(e.Note) == 0 {
		return nil
	}
	var n note
	if err := json.Unmarshal(e.Note, &n); err != nil {
		return fmt.Errorf("reading the rules' note of a %s: %w", e.Kind, err)
	}
	answers, err := r.recall(ctx, n.Answers)
	if err != nil {
		return fmt.Errorf("recalling the answers of a %s: %w", e.Kind, err)
	}
	k.show(answers, n.Answers)
	for _, number := range n.Messages {
		k.heard[number] = true
	}
	if n.WrapUp && !k.guided {
		k.guided, k.guidedAt = true, k.worked
	}
	k.warned = k.warned || n.Spending
	k.confirmed = k.confirmed || n.Confirmed
	k.denied += n.Denied
	for _, result := range n.Checklist {
		k.scored = append(k.scored, scored{result: &result})
	}
	return nil
}

// resumed is where a later launch goes on: with an allowance of its own, and
// with time again only if the step had failed for want of it. Otherwise the time
// worked is summed over all attempts.
func (k *known) resumed() {
	k.usage, k.warned = llm.Usage{}, false
	if k.denied >= MaxDenials {
		k.worked, k.guided, k.guidedAt, k.denied = 0, false, 0, 0
	}
}

// markForm finds the delimiter in our own words about it. A system message that
// an operator wrote comes before them.
var markForm = regexp.MustCompile(`with the mark ([A-Za-z0-9_-]+)`)

// markOf is the delimiter that an opening tells of. A step that a later launch
// goes on with has that of its first launch, not that of its task.
func markOf(opening []llm.Message, otherwise string) string {
	for _, m := range opening {
		if found := markForm.FindAllStringSubmatch(m.Content, -1); m.Role == llm.System && len(found) > 0 {
			return found[len(found)-1][1]
		}
	}
	return otherwise
}

// show puts answers told of by an update in the place of their agents' older ones.
func (k *known) show(answers []Answer, notes []answerNote) {
	labels := make([]string, 0, len(answers))
	for i, a := range answers {
		labels = append(labels, a.Label)
		k.injected++
		k.bytes += notes[i].Bytes
		k.texts = append(k.texts, a)
		if at := slices.IndexFunc(k.answers, func(b Answer) bool { return b.Number == a.Number }); at >= 0 {
			k.answers[at] = a
		} else {
			k.answers = append(k.answers, a)
		}
	}
	slices.SortStableFunc(k.answers, func(a, b Answer) int { return a.Number - b.Number })
	if len(labels) > 0 {
		k.scored = append(k.scored, scored{labels: labels})
	}
}
