package loop

import (
	"encoding/json"
	"math"
	"time"

	"conclave/engine/llm"
	"conclave/engine/window"
)

// EntryKind says what a journal entry adds to a conversation.
type EntryKind string

// The kinds of entries.
const (
	Opening   EntryKind = "opening"   // the messages a step starts with
	Updated   EntryKind = "update"    // an Update, after the results of an action that it turned down, if it did
	Reply     EntryKind = "reply"     // what the model said, with its usage
	Results   EntryKind = "results"   // the results of the tool calls of a reply, and the action it was accepted as
	Rejection EntryKind = "rejection" // what the model was told instead
	Wasted    EntryKind = "wasted"    // a reply that was paid for and of no use; it adds its usage only
	Resumed   EntryKind = "resumed"   // a later launch goes on from here: the counts that end a step begin anew
	Refused   EntryKind = "refused"   // the server refused the conversation as too long
	Elided    EntryKind = "elided"    // old results were taken out of the conversation
	Compacted EntryKind = "compacted" // a summary by the model took the place of old turns
)

// Entry is one journal entry. A conversation is nothing but its entries, folded
// in order; a transcript is the same entries, printed.
type Entry struct {
	Kind     EntryKind     `json:"kind"`
	Messages []llm.Message `json:"messages"`
	Usage    *llm.Usage    `json:"usage,omitempty"`  // of a reply, wasted or not, or of a summary
	Reason   string        `json:"reason,omitempty"` // of a rejection, a stable code; of a refusal, what the server said

	// Window is what a refusal taught: how many tokens there is room for at most.
	Window int `json:"window,omitempty"`

	// Elided says where an elision took out what. Before is the position up to
	// which a compaction replaced the turns, by Messages. Positions are those of the
	// conversation's messages at the time.
	Elided []window.Elision `json:"elided,omitempty"`
	Before int              `json:"before,omitempty"`

	// Action is what a reply was accepted and confirmed as. Its entry is the last.
	Action *Action `json:"action,omitempty"`

	// Note is the rules' own memory of the update or the judgement.
	Note json.RawMessage `json:"note,omitempty"`

	// Seconds is how long the model call took, or the ordinary tools.
	Seconds float64 `json:"seconds,omitempty"`
}

// Conversation is the state of one step's exchange with its model.
type Conversation struct {
	Messages   []llm.Message
	Usage      llm.Usage
	Replies    int // of the model, summaries included, whatever the usage counts
	Rejections int
	Rejected   string        // reason of the last rejection
	Worked     time.Duration // of the model and the tools, over all attempts
	Action     *Action       // nil until the step is decided

	fixed    []bool       // of the messages: what the window leaves as it is
	added    int          // messages there ever were
	gauge    window.Gauge // by the last reply
	learned  int          // tokens of the window, by refusals; 0 while there is none
	refusals int          // since the last reply
	refused  string       // why, if nothing was reduced since; else empty
}

// Add appends an entry.
func (c *Conversation) Add(e Entry) {
	c.place(e)
	c.added += len(e.Messages)
	if e.Usage != nil {
		c.Usage = c.Usage.Add(*e.Usage)
	}
	c.Worked += time.Duration(math.Round(e.Seconds * float64(time.Second)))
	c.Action = e.Action
	switch e.Kind {
	case Reply:
		c.Replies++
		c.refusals, c.refused, c.gauge = 0, "", window.Gauge{}
		if e.Usage != nil {
			c.gauge = window.Measure(*e.Usage, c.Messages)
		}
	case Rejection:
		c.Rejections++
		c.Rejected = e.Reason
	case Resumed:
		c.Replies, c.Rejections, c.Rejected = 0, 0, ""
		c.learned, c.refusals, c.refused = 0, 0, ""
	case Refused:
		c.learned, c.refused = smaller(c.learned, e.Window), e.Reason
		c.refusals++
	case Compacted:
		c.Replies++
		c.refused = ""
	case Elided:
		c.refused = ""
	}
}

// place makes of the messages what the entry makes of them.
func (c *Conversation) place(e Entry) {
	for len(c.fixed) < len(c.Messages) {
		c.fixed = append(c.fixed, true) // they were there before the first entry
	}
	switch e.Kind {
	case Elided:
		c.Messages = window.Elide(c.Messages, e.Elided)
	case Compacted:
		c.Messages, c.fixed = window.Compact(c.Messages, c.fixed, e.Before, e.Messages)
	default:
		c.Messages = append(c.Messages, e.Messages...)
		for _, m := range e.Messages {
			c.fixed = append(c.fixed, e.fixes(m))
		}
	}
}

// fixes reports whether a message of the entry stays as it is: how a step begins,
// and the news of an update. The results and images of an action that it turned
// down go with their reply.
func (e Entry) fixes(m llm.Message) bool {
	return e.Kind == Opening || e.Kind == Updated && m.Role == llm.User && len(m.Images) == 0
}

// smaller is the smaller of two sizes, of which 0 is not known.
func smaller(a, b int) int {
	if a <= 0 || b <= 0 {
		return max(a, b)
	}
	return min(a, b)
}

// unanswered returns the assistant message that ends the conversation: a reply
// that was journaled but not yet acted on.
func (c *Conversation) unanswered() (llm.Message, bool) {
	if len(c.Messages) == 0 {
		return llm.Message{}, false
	}
	last := c.Messages[len(c.Messages)-1]
	return last, last.Role == llm.Assistant
}
