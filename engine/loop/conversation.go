package loop

import "conclave/engine/llm"

// EntryKind says what a journal entry adds to a conversation.
type EntryKind string

// The kinds of entries, in the order in which they can follow one another.
const (
	Opening   EntryKind = "opening"   // the messages a step starts with
	Update    EntryKind = "update"    // news brought by the rules at a safe point
	Reply     EntryKind = "reply"     // what the model said, with its usage
	Results   EntryKind = "results"   // the results of the ordinary tool calls of a reply
	Rejection EntryKind = "rejection" // what the model was told instead
	Wasted    EntryKind = "wasted"    // a reply that was paid for and of no use; it adds its usage only
)

// Entry is one journal entry. A conversation is nothing but its entries, folded
// in order; a transcript is the same entries, printed.
type Entry struct {
	Kind     EntryKind     `json:"kind"`
	Messages []llm.Message `json:"messages"`
	Usage    *llm.Usage    `json:"usage,omitempty"`  // of a reply
	Reason   string        `json:"reason,omitempty"` // of a rejection, a stable code
}

// Conversation is the state of one step's exchange with its model.
type Conversation struct {
	Messages   []llm.Message
	Usage      llm.Usage
	Replies    int // of the model, whatever the usage counts
	Rejections int
	Rejected   string // reason of the last rejection
}

// Add appends an entry.
func (c *Conversation) Add(e Entry) {
	c.Messages = append(c.Messages, e.Messages...)
	if e.Usage != nil {
		c.Usage = c.Usage.Add(*e.Usage)
	}
	switch e.Kind {
	case Reply:
		c.Replies++
	case Rejection:
		c.Rejections++
		c.Rejected = e.Reason
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

// answered returns the last reply if nothing but the results of its tool calls
// follows it.
func (c *Conversation) answered() (llm.Message, bool) {
	for i := len(c.Messages) - 1; i >= 0; i-- {
		switch m := c.Messages[i]; m.Role {
		case llm.ToolRole:
			continue
		case llm.Assistant:
			return m, i < len(c.Messages)-1
		default:
			return llm.Message{}, false
		}
	}
	return llm.Message{}, false
}
