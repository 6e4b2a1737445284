package loop

import (
	"encoding/json"
	"math"
	"time"

	"conclave/engine/llm"
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
)

// Entry is one journal entry. A conversation is nothing but its entries, folded
// in order; a transcript is the same entries, printed.
type Entry struct {
	Kind     EntryKind     `json:"kind"`
	Messages []llm.Message `json:"messages"`
	Usage    *llm.Usage    `json:"usage,omitempty"`  // of a reply, wasted or not
	Reason   string        `json:"reason,omitempty"` // of a rejection, a stable code

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
	Replies    int // of the model, whatever the usage counts
	Rejections int
	Rejected   string        // reason of the last rejection
	Worked     time.Duration // of the model and the tools, over all attempts
	Action     *Action       // nil until the step is decided
}

// Add appends an entry.
func (c *Conversation) Add(e Entry) {
	c.Messages = append(c.Messages, e.Messages...)
	if e.Usage != nil {
		c.Usage = c.Usage.Add(*e.Usage)
	}
	c.Worked += time.Duration(math.Round(e.Seconds * float64(time.Second)))
	c.Action = e.Action
	switch e.Kind {
	case Reply:
		c.Replies++
	case Rejection:
		c.Rejections++
		c.Rejected = e.Reason
	case Resumed:
		c.Replies, c.Rejections, c.Rejected = 0, 0, ""
	}
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
