package loop

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"conclave/engine/llm"
	"conclave/engine/text"
	"conclave/engine/window"
)

// EntryKind is the kind of a journal entry.
type EntryKind string

// The kinds of entries.
const (
	Opening    EntryKind = "opening"     // the first messages of a step
	Updated    EntryKind = "update"      // an Update, preceded by the results of an action that it withdrew
	Reply      EntryKind = "reply"       // a reply of the model, with its usage
	Results    EntryKind = "results"     // the results of a reply's tool calls, and its accepted action
	Rejection  EntryKind = "rejection"   // the results of a rejected reply
	Wasted     EntryKind = "wasted"      // the usage of an unusable reply
	Resumed    EntryKind = "resumed"     // the start of a later launch: bounds count anew
	BegunAgain EntryKind = "begun_again" // the conversation so far was dropped; an opening follows
	Refused    EntryKind = "refused"     // the server refused the conversation as too long
	Elided     EntryKind = "elided"      // old results were removed from the conversation
	Awaited    EntryKind = "awaited"     // the step waits for the results of a reply's calls of the caller's tools
	Compacted  EntryKind = "compacted"   // a summary by the model replaced old turns
)

// The Reasons that the loop itself gives.
const (
	reasonCallLimit = "model_calls"    // of an update that announces the limit of model calls
	ReplyTooLong    = "reply_too_long" // of the rejection of a reply that was broken off
)

// Entry is one journal entry. A conversation is the fold of its entries; a transcript
// prints the same entries.
type Entry struct {
	Kind     EntryKind     `json:"kind"`
	Messages []llm.Message `json:"messages"`           // in a Compacted entry, the messages in place of the turns before the position Before
	Usage    *llm.Usage    `json:"usage,omitempty"`    // usage of a reply, wasted or not, or of a summary
	Reason   string        `json:"reason,omitempty"`   // stable code of a rejection, or the server's message of a refusal
	Salvaged string        `json:"salvaged,omitempty"` // content from which the tool calls of a reply were read
	Window   int           `json:"window,omitempty"`   // context window in tokens that the server stated in a refusal

	// Positions count the messages of the conversation before the entry.
	Elided []window.Elision `json:"elided,omitempty"`
	Before int              `json:"before,omitempty"`

	// Outcomes lists the ordinary calls that failed or had an exit code.
	Outcomes []Outcome `json:"outcomes,omitempty"`

	// Awaits are the calls of an Awaited entry. Held are the outputs of the other calls of
	// the reply.
	Awaits []AwaitedCall `json:"awaits,omitempty"`
	Held   []Held        `json:"held,omitempty"`

	Action  *Action           `json:"action,omitempty"`  // the accepted and confirmed action; its entry is the last
	Note    json.RawMessage   `json:"note,omitempty"`    // passed to the rules' Learn
	States  map[string]string `json:"states,omitempty"`  // states of the MCP servers that a reply calls, or of the shell after a call
	Seconds float64           `json:"seconds,omitempty"` // duration of the model call or of the ordinary tools
}

// Spent returns the usage of the entry, including that of a rejected reply.
func (e Entry) Spent() llm.Usage {
	var spent llm.Usage
	if e.Usage != nil {
		spent = *e.Usage
	}
	if e.Kind == Rejection {
		spent.Rejections++
	}
	return spent
}

// Conversation is the state of one step's exchange with its model.
type Conversation struct {
	window.History

	Usage      llm.Usage
	Replies    int // replies of the model, including summaries
	Rejections int
	Rejected   string        // code of the last rejection
	Worked     time.Duration // working time of the model and the tools, in all attempts
	Action     *Action       // nil until the step is decided

	awaits []AwaitedCall // awaited calls of the last reply; nil if it did not wait
	held   []Held

	called   bool   // a reply had a tool call
	tried    bool   // a reply had a tool call as text that could not be read
	added    int    // messages added so far, removed ones included
	warned   bool   // the limit of model calls was announced
	learned  int    // window in tokens, by refusals; 0 without a refusal
	refusals int    // refusals since the last reply
	refused  string // reason of the last refusal, until something is shortened
}

// Add appends an entry.
func (c *Conversation) Add(e Entry) {
	usage := e.Spent()
	c.Usage = c.Usage.Add(usage)
	c.addMessages(e)
	c.added += len(e.Messages)
	c.Worked += time.Duration(math.Round(e.Seconds * float64(time.Second)))
	c.Action = e.Action
	if len(e.Messages) > 0 {
		c.awaits, c.held = nil, nil
	}
	switch e.Kind {
	case Reply:
		c.Replies++
		c.called = c.called || slices.ContainsFunc(e.Messages, func(m llm.Message) bool { return len(m.ToolCalls) > 0 })
		c.tried = c.tried || slices.ContainsFunc(e.Messages, func(m llm.Message) bool {
			return len(m.ToolCalls) == 0 && LooksLikeCall(text.WithoutThoughts(m.Content))
		})
		c.refusals, c.refused = 0, ""
		c.Measure(usage)
	case Updated:
		c.warned = c.warned || e.Reason == reasonCallLimit
	case Rejection:
		c.Rejections++
		c.Rejected = e.Reason
	case Awaited:
		c.awaits, c.held = e.Awaits, e.Held
	case Resumed:
		if c.awaits != nil {
			break // the step has only waited
		}
		c.Replies, c.Rejections, c.Rejected = 0, 0, ""
		c.learned, c.refusals, c.refused, c.warned = 0, 0, "", false
	case BegunAgain: // replies count on, so that the step stays bounded
		c.History, c.Rejections, c.Rejected = window.History{}, 0, ""
		c.learned, c.refusals, c.refused, c.warned = 0, 0, "", false
	case Refused:
		c.learned, c.refused = smallerWindow(c.learned, e.Window), e.Reason
		c.refusals++
	case Compacted:
		c.Replies++
		c.refused = ""
	case Elided:
		c.refused = ""
	}
}

// silent reports whether the model has replied without ever calling a tool.
func (c *Conversation) silent() bool { return c.Replies > 0 && !c.called }

// addMessages applies an entry to the messages.
func (c *Conversation) addMessages(e Entry) {
	switch e.Kind {
	case Elided:
		c.Elide(e.Elided)
	case Compacted:
		c.Compact(e.Before, e.Messages)
	default:
		for _, m := range e.Messages {
			c.Append(e.fixes(m), m)
		}
	}
}

// fixes reports whether a message of the entry is never shortened. This holds for the opening
// and for the news of an update, but not for the results and images of a withdrawn action.
func (e Entry) fixes(m llm.Message) bool {
	return e.Kind == Opening || e.Kind == Updated && m.Role == llm.User && len(m.Images) == 0
}

// smallerWindow returns the smaller of two windows; 0 is an unknown one.
func smallerWindow(a, b int) int {
	if a <= 0 || b <= 0 {
		return max(a, b)
	}
	return min(a, b)
}

// unanswered returns the reply at the end of the conversation, if it ends with one.
func (c *Conversation) unanswered() (llm.Message, bool) {
	if len(c.Messages) == 0 {
		return llm.Message{}, false
	}
	last := c.Messages[len(c.Messages)-1]
	return last, last.Role == llm.Assistant
}

// heldOutputs returns the outputs of those calls of the last reply that ran before the step
// began to wait.
func (c *Conversation) heldOutputs() map[string]Output {
	outputs := make(map[string]Output, len(c.held))
	for _, h := range c.held {
		outputs[h.Call] = h.Output
	}
	return outputs
}
