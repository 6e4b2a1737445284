package loop

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"conclave/engine/llm"
	"conclave/engine/text"
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
	Elided []Elision `json:"elided,omitempty"`
	Before int       `json:"before,omitempty"`

	// Outcomes lists the ordinary calls that failed or had an exit code.
	Outcomes []Outcome `json:"outcomes,omitempty"`

	// Awaits are the calls of an Awaited entry. Held are the outputs of the other calls of the reply.
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
	History

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
		c.History, c.Rejections, c.Rejected = History{}, 0, ""
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

func (c *Conversation) addMessages(e Entry) {
	switch e.Kind {
	case Elided:
		c.Elide(e.Elided)
	case Compacted:
		c.Compact(e.Before, e.Messages)
	default:
		for _, m := range e.Messages {
			c.Append(e.isFixed(m), m)
		}
	}
}

// isFixed reports whether a message of the entry is never shortened. This holds for the opening
// and for the news of an update, but not for the results and images of a withdrawn action.
func (e Entry) isFixed(m llm.Message) bool {
	return e.Kind == Opening || e.Kind == Updated && m.Role == llm.User && len(m.Images) == 0
}

// smallerWindow returns the smaller of two windows; 0 is an unknown one.
func smallerWindow(a, b int) int {
	if a <= 0 || b <= 0 {
		return max(a, b)
	}
	return min(a, b)
}

func (c *Conversation) unansweredReply() (llm.Message, bool) {
	if len(c.Messages) == 0 {
		return llm.Message{}, false
	}
	last := c.Messages[len(c.Messages)-1]
	return last, last.Role == llm.Assistant
}

// heldOutputs returns the outputs of those calls of the last reply that ran before the step began to wait.
func (c *Conversation) heldOutputs() map[string]Output {
	outputs := make(map[string]Output, len(c.held))
	for _, h := range c.held {
		outputs[h.Call] = h.Output
	}
	return outputs
}

// errRecorded reports that a failed call has been recorded, and that the loop goes on: the
// server found the conversation too long, or the reply was.
var errRecorded = errors.New("the conversation or the reply was too long")

// fitWindow shortens the conversation until it fits into the known window, and reports whether
// it called the model to do so.
func (r running) fitWindow(ctx context.Context, tools []llm.Tool) (called bool, err error) {
	for {
		size := smallerWindow(r.Window, r.conv.learned)
		elide, before := r.conv.Next(size, tools)
		switch {
		case r.conv.refusals >= maxRefusals:
			return false, r.conv.Refused(tools, r.conv.refused)
		case before > 0:
			return true, r.compactTurns(ctx, before, size, tools)
		case len(elide) > 0:
			if err := r.recordEntry(ctx, Entry{Kind: Elided, Elided: elide}); err != nil {
				return false, err
			}
		case r.conv.refused != "": // the same request would be refused again
			return false, r.conv.Refused(tools, r.conv.refused)
		default:
			return false, r.conv.TooLong(size, tools)
		}
	}
}

// compactTurns has the model summarize the turns before a position and replaces them with the summary.
func (r running) compactTurns(ctx context.Context, before, size int, tools []llm.Tool) error {
	req := llm.Request{Messages: r.conv.SummaryRequest(before, size, tools)}
	reply, seconds, err := r.callModel(ctx, req)
	text := reply.Message.Content
	if err != nil {
		failed, ok := errors.AsType[*llm.Error](err)
		if !ok || !failed.Cut || strings.TrimSpace(text) == "" {
			if err = r.recordFailure(ctx, req, reply, seconds, err); errors.Is(err, errRecorded) {
				return nil
			}
			return err
		}
		// A second request would be cut off again.
		text += "\n[cut here, at the limit of the tokens of a reply]"
	}
	if strings.TrimSpace(text) == "" {
		empty := &llm.Error{Kind: llm.BadReply, Message: "the model was asked for a summary of a conversation that has become too long for its context window, and gave none; " +
			"a model with a longer context needs none"}
		return errors.Join(empty, r.recordWaste(ctx, reply.Usage, seconds))
	}
	return r.recordEntry(ctx, Entry{
		Kind: Compacted, Before: before, Usage: &reply.Usage, Seconds: seconds,
		Messages: []llm.Message{r.conv.Summary(before, size, tools, text)},
	})
}

// recordRefusal records a refusal and the window that it reveals: the one that the server names, or
// else one smaller than the request. It returns errRecorded.
func (r running) recordRefusal(ctx context.Context, req llm.Request, failed *llm.Error, u llm.Usage, seconds float64) error {
	asked := r.conv.History
	asked.Messages = req.Messages
	e := Entry{Kind: Refused, Reason: failed.Message, Window: smallerWindow(failed.Window, max(1, asked.Tokens(req.Tools)*9/10)), Seconds: seconds}
	if u.ModelCalls > 0 {
		e.Usage = &u
	}
	if e.Reason == "" {
		e.Reason = "the server says that it is too long"
	}
	if err := r.recordEntry(ctx, e); err != nil {
		return errors.Join(failed, err)
	}
	return errRecorded
}
