package loop

import (
	"context"
	"encoding/json"
	"fmt"

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

func (u Update) empty() bool { return len(u.Messages) == 0 && len(u.Note) == 0 && u.Ruling == nil }

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

// Action ends a step. Its payload, which is JSON that the rules define, goes into the step's
// commit.
type Action struct {
	Kind    string          `json:"kind"`
	Payload json.RawMessage `json:"payload"`
}

// Model answers requests. Its errors are *llm.Error if the provider gave a reason.
type Model interface {
	Generate(ctx context.Context, req llm.Request) (llm.Reply, error)
}

// Tools are the ordinary tools of a step; the list may change between calls. Run returns the
// result for the model, including failures of the tool. Its error is a fault of the machinery
// and ends the attempt.
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

// NoActionError reports that the model used up its attempts or its model calls without a
// valid action.
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

// messages gives every tool call of the reply its one result, from the ruling or from the
// tool, followed by the tools' images. A reply without calls gets Say.
func (v Ruling) messages(reply llm.Message, outputs map[string]Output) []llm.Message {
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

// withdrawn returns the ruling with the text Withdrawn in place of its results.
func (v Ruling) withdrawn() Ruling { return v.saying(v.Withdrawn) }

// overruled returns by, with by.Say in place of the results of v.
func (v Ruling) overruled(by Ruling) Ruling {
	by.Results = v.Results
	return by.saying(by.Say)
}

// saying returns the ruling with text in place of all its results and of Say.
func (v Ruling) saying(text string) Ruling {
	results := make(map[string]string, len(v.Results))
	for id := range v.Results {
		results[id] = text
	}
	v.Results, v.Say = results, text
	return v
}
