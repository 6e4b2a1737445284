package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// Rules determine whether a step belongs to a session, a pipeline or a scenario. They are a
// fold over the journal's entries: offers and rulings depend only on how the Rules were
// constructed and on the entries learned, so a restored step is judged as before.
type Rules interface {
	// Offer returns the tools, beside the ordinary ones, that the rules answer themselves.
	// The tools may change as entries are learned.
	Offer() []llm.Tool

	// Judge rules on a reply and has no side effects. At that time the reply's own entry is the
	// last one learned, apart from waits for the caller and resumptions.
	Judge(reply llm.Message) Ruling

	// Updates returns the news before a model call. The news is journaled and learned before
	// the model sees it.
	Updates(ctx context.Context) (Update, error)

	// Confirm is called before an accepted action counts, after the ordinary calls of its
	// reply have run. A non-empty update withdraws the action and is journaled in its place.
	// An update with a Ruling overrules Judge.
	Confirm(ctx context.Context, a Action) (Update, error)

	// Learn is called once with every journaled entry, in order, starting with those restored
	// from earlier attempts. An error ends the attempt.
	Learn(ctx context.Context, e Entry) error
}

// Update is news from the rules; the zero Update is empty.
type Update struct {
	Messages []llm.Message   // messages for the model; required from Confirm after a reply without tool calls
	Note     json.RawMessage // passed to the rules' Learn

	// Ruling replaces the ruling of Judge by accepting another action or rejecting the reply;
	// only Confirm sets it. Its Say becomes the result of every call that the rules answered.
	// Messages and Note are then ignored.
	Ruling *Ruling
}

func (u Update) isEmpty() bool { return len(u.Messages) == 0 && len(u.Note) == 0 && u.Ruling == nil }

// Ruling is the judgement of one reply.
//
// Tool calls without a result are ordinary: they are run, in order, even if the reply is
// rejected or ends the step. With neither Action nor Rejected the loop continues.
type Ruling struct {
	Action    *Action           // ends the step, once it is confirmed
	Rejected  string            // stable code of a rejection; empty with an Action
	Results   map[string]string // the rules' results of tool calls, by call ID
	Say       string            // user message after a reply without tool calls
	Withdrawn string            // replaces all Results, and Say, when Confirm withdraws the action

	Conceal []string // delimiters of the prompt, replaced in the results of ordinary calls

	// StopAtFailure skips the ordinary calls after one that failed.
	StopAtFailure bool

	// Note is passed to the rules' Learn. It is journaled with the results or the rejection,
	// and dropped if Confirm withdraws the action.
	Note json.RawMessage
}

// Action ends a step. Its payload, which is JSON that the rules define, goes into the step's commit.
type Action struct {
	Kind    string          `json:"kind"`
	Payload json.RawMessage `json:"payload"`
}

// Model answers requests. Its errors are *llm.Error if the provider gave a reason.
type Model interface {
	Generate(ctx context.Context, req llm.Request) (llm.Reply, error)
}

// Tools are the ordinary tools of a step; the list may change between calls. Run returns the result for the
// model, including failures of the tool. Its error is a fault of the machinery and ends the attempt.
type Tools interface {
	Tools() []llm.Tool
	Run(ctx context.Context, call llm.ToolCall) (Output, error)
}

// Output is the result of a tool call. Images follow in a user message, after the results of
// all calls of the reply.
type Output struct {
	Text   string      `json:"text"`
	Images []llm.Image `json:"images,omitempty"`

	Failed   bool `json:"failed,omitempty"`    // the call did not succeed
	ExitCode *int `json:"exit_code,omitempty"` // exit code of a command that exited by itself; nil for other calls

	// Files are the paths in the workspace that the call may have written; nil if unknown.
	Files []string `json:"-"`
}

// NoActionError reports that the model used up its attempts or its model calls without a valid action.
type NoActionError struct {
	Attempts int    // rejected replies; 0 if the calls were used up
	Reason   string // code of the last rejection
	Calls    int    // number of model calls
	Silent   bool   // no reply of the step called a tool, although tools are offered
	Tried    bool   // a reply had a call as text that cannot be read
}

func (e *NoActionError) Error() string {
	if e.Attempts == 0 {
		return fmt.Sprintf("no action after %d model calls", e.Calls)
	}
	return fmt.Sprintf("no valid action after %d attempts (last rejection: %s)", e.Attempts, e.Reason)
}

// TimeOverError reports that the agent kept making calls, all denied, after its time was
// over. Rules.Updates returns it.
type TimeOverError struct{ Denials int }

func (e *TimeOverError) Error() string {
	return fmt.Sprintf("no action: the step's time was over, and %d calls that could not be made any more were denied; "+
		"timeout_settings can give it more time", e.Denials)
}

// OverspentError reports that the step has spent its allowance. Rules.Updates returns it.
type OverspentError struct{ Spent, Limit float64 }

func (e *OverspentError) Error() string {
	return fmt.Sprintf("the step spent %s of its allowance of %s before it ended", llm.FormatUSD(e.Spent, 4), llm.FormatUSD(e.Limit, 4))
}

// Reasons of an EndedError.
const (
	EndRestart   = "restart"   // news requires the step to begin again
	EndAllowance = "allowance" // the allowance is spent
	EndAwaiting  = "awaiting"  // the step waits for the caller's results
)

// EndedError reports that the step ended itself without an action and without a failure.
// Rules.Updates and Rules.Confirm return it.
type EndedError struct {
	Why   string
	Calls []AwaitedCall // calls of the caller's tools, for whose results it waits
}

func (e *EndedError) Error() string {
	return "the step ended itself without an action: " + e.Why
}

// resultMessages gives every tool call of the reply its one result, from the ruling or from the
// tool, followed by the tools' images. A reply without calls gets Say.
func (v Ruling) resultMessages(reply llm.Message, outputs map[string]Output) []llm.Message {
	var messages, images []llm.Message
	for _, call := range reply.ToolCalls {
		result, ok := v.Results[call.ID]
		if !ok {
			output := outputs[call.ID]
			result = text.Conceal(output.Text, v.Conceal...)
			if len(output.Images) > 0 {
				caption := fmt.Sprintf("[Images from %s, call %s]", call.Name, call.ID)
				images = append(images, llm.Message{Role: llm.User, Content: caption, Images: output.Images})
			}
		}
		messages = append(messages, call.Result(result))
	}
	messages = append(messages, images...)
	if len(reply.ToolCalls) == 0 && v.Say != "" {
		messages = append(messages, llm.Message{Role: llm.User, Content: v.Say})
	}
	return messages
}

// overruledBy returns by, with by.Say in place of the results of v.
func (v Ruling) overruledBy(by Ruling) Ruling {
	by.Results = v.Results
	return by.withText(by.Say)
}

func (v Ruling) withText(text string) Ruling {
	results := make(map[string]string, len(v.Results))
	for id := range v.Results {
		results[id] = text
	}
	v.Results, v.Say = results, text
	return v
}

// Caller has the tools that the session's caller runs. To wait for their results, a step ends
// its activity; a later launch continues it.
type Caller struct {
	Tools []llm.Tool

	// ID returns the ID of the n-th call of this launch, from 1.
	ID func(n int) string

	// Result returns the result of a call; ok is false while the call is open.
	Result func(ctx context.Context, id string) (content string, ok bool, err error)
}

// Limits of the calls in one reply.
const (
	maxCallerCalls     = 32
	maxCallerArguments = 256 << 10 // bytes of one call
)

func (c Caller) hasTool(name string) bool {
	return slices.ContainsFunc(c.Tools, func(t llm.Tool) bool { return t.Name == name })
}

// AwaitedCall is a call of a caller's tool.
type AwaitedCall struct {
	Call      string `json:"call"` // its ID in the conversation
	ID        string `json:"id"`   // the ID by which the caller knows it
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Held is the output of a call that ran before the step began to wait for the caller.
type Held struct {
	Call string `json:"call"`
	Output
}

// addCallerResults adds the results of the caller's tools to the outputs. If some are missing, it
// records the outputs so far and returns an EndedError with the calls that have none.
func (r running) addCallerResults(ctx context.Context, calls []llm.ToolCall, outputs map[string]Output) error {
	asked := r.conv.awaits
	if asked == nil {
		asked = r.newCalls(calls, outputs)
	}
	if len(asked) == 0 {
		return nil
	}
	var open []AwaitedCall
	for _, call := range asked {
		content, ok := "", false
		if r.conv.awaits != nil {
			var err error
			if content, ok, err = r.Caller.Result(ctx, call.ID); err != nil {
				return fmt.Errorf("read the caller's result of %s: %w", call.ID, err)
			}
		}
		if ok {
			outputs[call.Call] = Output{Text: content}
		} else {
			open = append(open, call)
		}
	}
	if len(open) == 0 {
		return nil
	}
	if r.conv.awaits == nil {
		e := Entry{Kind: Awaited, Awaits: asked}
		for _, call := range calls {
			if output, ok := outputs[call.ID]; ok {
				e.Held = append(e.Held, Held{call.ID, output})
			}
		}
		if err := r.recordEntry(ctx, e); err != nil {
			return err
		}
	}
	return &EndedError{Why: EndAwaiting, Calls: open}
}

// newCalls returns the calls of the caller's tools that have no output, with their IDs. Calls
// beyond the limits get an output that says so.
func (r running) newCalls(calls []llm.ToolCall, outputs map[string]Output) []AwaitedCall {
	var asked []AwaitedCall
	for _, call := range calls {
		if _, done := outputs[call.ID]; done || !r.Caller.hasTool(call.Name) {
			continue
		}
		switch {
		case len(call.Arguments) > maxCallerArguments:
			outputs[call.ID] = Output{Text: fmt.Sprintf("not called: the arguments have %d bytes, at most %d are accepted", len(call.Arguments), maxCallerArguments), Failed: true}
		case len(asked) == maxCallerCalls:
			outputs[call.ID] = Output{Text: fmt.Sprintf("not called: a reply may have %d calls of these tools; call it again in the next reply", maxCallerCalls), Failed: true}
		default:
			*r.called++
			asked = append(asked, AwaitedCall{Call: call.ID, ID: r.Caller.ID(*r.called), Name: call.Name, Arguments: call.Arguments})
		}
	}
	return asked
}
