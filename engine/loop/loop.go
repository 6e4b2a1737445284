package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"conclave/engine/llm"
)

// Bounds of one step.
const (
	// maxRejections is the number of rejected replies after which a step ends (seed 001:
	// three attempts at a valid workflow action).
	maxRejections = 3

	// defaultModelCalls limits a step whose model only calls ordinary tools, or whose actions
	// are always withdrawn.
	defaultModelCalls = 200

	// maxRefusals limits the attempts to shorten a turn that the server finds too long.
	maxRefusals = 3
)

// Loop has everything that Run needs for a step.
type Loop struct {
	Model         Model
	Tools         Tools
	Journal       func(ctx context.Context, e Entry) error // makes an entry durable before the loop continues
	Now           func() time.Time                         // measures model calls and tools; nil measures nothing
	MaxModelCalls int                                      // ends the step, and is announced at 90 percent; 0 for 200
	Caller        Caller                                   // tools of the session's caller, and questions to people; the zero Caller has none
	Window        int                                      // the model's context window in tokens; 0 if unknown until a refusal reveals it

	// RunAt runs an ordinary call in place of Tools, or returns the question to a person for whose answer it has to
	// wait. It may be nil.
	RunAt func(context.Context, Place, llm.ToolCall) (Output, *Question, error)

	// Cut receives the results of the calls of a reply that have ended, if an error ends the loop before
	// they are journaled; may be nil.
	Cut func(Entry)
}

// Run continues conv until the rules accept and confirm an action. The rules must have
// learned the entries of conv. After an error, conv holds everything that was journaled,
// including usage. Errors of Updates and Confirm are returned unwrapped.
func (l Loop) Run(ctx context.Context, conv *Conversation, rules Rules) (Action, error) {
	called := len(conv.awaits) // IDs of an earlier attempt are not given again
	r := running{Loop: l, conv: conv, rules: rules, called: &called}
	for conv.Action == nil {
		if err := r.takeTurn(ctx); err != nil {
			return Action{}, err
		}
	}
	return *conv.Action, nil
}

// running is the loop of one Run.
type running struct {
	Loop
	conv  *Conversation
	rules Rules

	called *int // calls of the caller's tools and questions to people in this launch
}

// takeTurn requests a reply and answers it. A restored conversation may already end with the reply.
func (r running) takeTurn(ctx context.Context) error {
	reply, pending := r.conv.unansweredReply()
	if !pending {
		var err error
		if reply, err = r.requestReply(ctx); err != nil {
			return err
		}
	}
	if err := r.answerReply(ctx, reply); err != nil {
		return err
	}
	if _, silent := r.conv.unansweredReply(); silent && r.conv.Action == nil {
		return fmt.Errorf("the rules left a reply without tool calls unanswered: %.80q", reply.Content)
	}
	return nil
}

// requestReply passes the safe point and calls the model. A summary is a separate model call, followed
// by another safe point.
func (r running) requestReply(ctx context.Context) (llm.Message, error) {
	for {
		if err := r.safePoint(ctx); err != nil {
			return llm.Message{}, err
		}
		tools := slices.Concat(sortTools(slices.Concat(r.Tools.Tools(), r.Caller.Tools)), r.rules.Offer())
		called, err := r.fitWindow(ctx, tools)
		if err != nil {
			return llm.Message{}, err
		}
		if called {
			continue
		}
		req := llm.Request{Messages: r.conv.Messages, Tools: tools}
		reply, seconds, err := r.callModel(ctx, req)
		if err != nil {
			if err = r.recordFailure(ctx, req, reply, seconds, err); errors.Is(err, errRecorded) {
				continue
			}
			return llm.Message{}, err
		}
		message, salvaged := Salvage(reply.Message, tools)
		message.Role = llm.Assistant
		message.ToolCalls = uniqueCalls(message.ToolCalls, r.conv.added)
		err = r.recordEntry(ctx, Entry{Kind: Reply, Messages: []llm.Message{message}, Salvaged: salvaged, Usage: &reply.Usage, Seconds: seconds})
		return message, err
	}
}

// sortTools orders tools by name, so that equal tools have equal bytes in every request. The
// tools of the rules come after them, because they change more often.
func sortTools(tools []llm.Tool) []llm.Tool {
	return slices.SortedFunc(slices.Values(tools), func(a, b llm.Tool) int { return strings.Compare(a.Name, b.Name) })
}

// safePoint checks the bounds and records updates, before every model call.
func (r running) safePoint(ctx context.Context) error {
	if err := r.checkBounds(); err != nil {
		return err
	}
	if err := r.announceLimit(ctx); err != nil {
		return err
	}
	update, err := r.rules.Updates(ctx)
	if err != nil || update.isEmpty() {
		return err
	}
	return r.recordEntry(ctx, Entry{Kind: Updated, Messages: update.Messages, Note: update.Note})
}

// callModel calls the model unless ctx has ended. It measures the seconds of the call, to the
// millisecond, without the time spent waiting for a turn.
func (r running) callModel(ctx context.Context, req llm.Request) (llm.Reply, float64, error) {
	if ctx.Err() != nil {
		return llm.Reply{}, 0, context.Cause(ctx)
	}
	elapsed := r.startClock()
	req.MaxReply = r.maxReply()
	reply, err := r.Model.Generate(ctx, req)
	worked := elapsed() - reply.Waited.Seconds()
	return reply, max(0, math.Round(1000*worked)/1000), err
}

// recordFailure records the cost of a failed call. If the request or the reply was too long, it
// records that and returns errRecorded.
func (r running) recordFailure(ctx context.Context, req llm.Request, reply llm.Reply, seconds float64, err error) error {
	if failed, ok := errors.AsType[*llm.Error](err); ok && failed.Kind == llm.ContextTooLong {
		return r.recordRefusal(ctx, req, failed, reply.Usage, seconds)
	} else if ok && failed.Overlong {
		return r.discardReply(ctx, failed.Detail, reply.Usage, seconds)
	}
	return errors.Join(err, r.recordWaste(ctx, reply.Usage, seconds))
}

func (r running) recordWaste(ctx context.Context, u llm.Usage, seconds float64) error {
	if u.ModelCalls == 0 {
		return nil
	}
	return r.recordEntry(ctx, Entry{Kind: Wasted, Usage: &u, Seconds: seconds})
}

// discardReply records the cost of a reply that was broken off, and tells the model, to which the
// reply is not sent back. It returns errRecorded.
func (r running) discardReply(ctx context.Context, why string, u llm.Usage, seconds float64) error {
	say := "Your last reply was broken off and discarded: " + why + ". Nothing was submitted and no tool was run. " +
		"Reply again, far shorter; put a long content into several calls."
	err := r.recordWaste(ctx, u, seconds)
	if err == nil {
		err = r.recordEntry(ctx, Entry{Kind: Rejection, Reason: ReplyTooLong, Messages: []llm.Message{{Role: llm.User, Content: say}}})
	}
	return cmp.Or(err, errRecorded)
}

// maxReply returns the most bytes of a reply, which are eight for each token of the context window.
func (r running) maxReply() int {
	const usual, most = 128 << 10, 1 << 20 // tokens of a window
	return max(64<<10, 8*min(cmp.Or(smallerWindow(r.Window, r.conv.learned), usual), most))
}

// ignoresTools reports whether the model has never called a tool, although it was offered some.
func (r running) ignoresTools() bool {
	return r.conv.Replies > 0 && !r.conv.called && (len(r.rules.Offer()) > 0 || len(r.Tools.Tools()) > 0)
}

// checkBounds returns an error if the conversation may not call the model again. It depends only
// on the conversation and the rules.
func (r running) checkBounds() error {
	switch {
	case r.conv.Rejections >= maxRejections:
		return &NoActionError{Attempts: r.conv.Rejections, Reason: r.conv.Rejected, Silent: r.ignoresTools(), Tried: r.conv.tried}
	case r.conv.Replies >= r.callLimit():
		return &NoActionError{Calls: r.conv.Replies, Silent: r.ignoresTools(), Tried: r.conv.tried}
	}
	return nil
}

func (r running) callLimit() int { return cmp.Or(r.MaxModelCalls, defaultModelCalls) }

func (r running) announceLimit(ctx context.Context) error {
	made, limit := r.conv.Replies, r.callLimit()
	if r.conv.warned || !NearLimit(made, limit) {
		return nil
	}
	text := fmt.Sprintf("You have made %d of the %d model calls of this turn. Finish now: the turn ends after %d more, and it fails if you have not acted by then.",
		made, limit, limit-made)
	return r.recordEntry(ctx, Entry{Kind: Updated, Reason: reasonCallLimit, Messages: []llm.Message{{Role: llm.User, Content: text}}})
}

// NearLimit reports whether 90 percent of the permitted model calls have been made, or all but one.
func NearLimit(made, limit int) bool { return made > 0 && (made*10 >= limit*9 || made == limit-1) }

func (r running) recordEntry(ctx context.Context, e Entry) error {
	if err := r.Journal(ctx, e); err != nil {
		return fmt.Errorf("journal the %s: %w", e.Kind, err)
	}
	r.conv.Add(e)
	if err := r.rules.Learn(ctx, e); err != nil {
		return fmt.Errorf("learn the %s: %w", e.Kind, err)
	}
	return nil
}

// startClock starts a clock and returns the function that reads it, in seconds, to the millisecond.
func (l Loop) startClock() func() float64 {
	if l.Now == nil {
		return func() float64 { return 0 }
	}
	start := l.Now()
	return func() float64 { return max(0, l.Now().Sub(start).Round(time.Millisecond).Seconds()) }
}

// uniqueCalls drops a call that repeats the ID, the name and the arguments of another one, and
// gives a new ID to the other calls whose ID is missing or repeated. position, the number of
// messages so far, makes it different from the IDs of earlier replies.
func uniqueCalls(calls []llm.ToolCall, position int) []llm.ToolCall {
	var unique []llm.ToolCall
	seen := make(map[string]bool, 2*len(calls)) // IDs, and calls
	for _, call := range calls {
		if !json.Valid([]byte(call.Arguments)) {
			call.Arguments = straightenQuotes(call.Arguments)
		}
		whole := call.ID + "\x00" + call.Name + "\x00" + llm.Compact(call.Arguments)
		if call.ID != "" && seen[whole] {
			continue
		}
		for n := len(unique); call.ID == "" || seen[call.ID]; n++ {
			call.ID = fmt.Sprintf("call_%d_%d", position, n)
		}
		seen[whole], seen[call.ID] = true, true
		unique = append(unique, call)
	}
	return unique
}

// answerReply judges a reply, runs its ordinary calls, confirms an accepted action, and records the outcome
// in one entry. If the attempt dies before the entry, the next attempt repeats all of this.
func (r running) answerReply(ctx context.Context, reply llm.Message) error {
	ruling := r.rules.Judge(reply)
	elapsed := r.startClock()
	outputs, asked, err := r.runOrdinary(ctx, reply.ToolCalls, ruling)
	if err == nil {
		err = r.addCallerResults(ctx, reply.ToolCalls, outputs, asked)
	}
	seconds := elapsed()
	var news Update
	if err == nil {
		ruling, news, err = r.confirmAction(ctx, ruling)
	}
	if err != nil {
		r.reportCut(reply, ruling, outputs, seconds)
		return err
	}
	e := Entry{Kind: Results, Action: ruling.Action, Note: ruling.Note, Outcomes: callOutcomes(reply.ToolCalls, outputs), Seconds: seconds}
	switch {
	case ruling.Rejected != "":
		e.Kind, e.Reason, e.Action = Rejection, ruling.Rejected, nil
	case !news.isEmpty():
		ruling = ruling.withText(ruling.Withdrawn)
		e.Kind, e.Action, e.Note = Updated, nil, news.Note
	}
	e.Messages = append(ruling.resultMessages(reply, outputs), news.Messages...)
	if len(e.Messages) == 0 && e.Action == nil {
		return nil // takeTurn reports the error
	}
	return r.recordEntry(ctx, e)
}

// reportCut passes on the outputs of a reply whose results are not journaled.
func (r running) reportCut(reply llm.Message, ruling Ruling, outputs map[string]Output, seconds float64) {
	if r.Cut == nil {
		return
	}
	reply.ToolCalls = slices.DeleteFunc(slices.Clone(reply.ToolCalls), func(c llm.ToolCall) bool { _, ended := outputs[c.ID]; return !ended })
	r.Cut(Entry{Kind: Results, Messages: Ruling{Conceal: ruling.Conceal}.resultMessages(reply, outputs), Outcomes: callOutcomes(reply.ToolCalls, outputs), Seconds: seconds})
}

func (r running) confirmAction(ctx context.Context, ruling Ruling) (Ruling, Update, error) {
	if ruling.Action == nil || ruling.Rejected != "" {
		return ruling, Update{}, nil
	}
	update, err := r.rules.Confirm(ctx, *ruling.Action)
	if err != nil || update.Ruling == nil {
		return ruling, update, err
	}
	return ruling.overruledBy(*update.Ruling), Update{}, nil
}

// runOrdinary runs the calls that the rules leave to the tools, in order, and returns their
// outputs by call ID. Calls that ran before the step began to wait are not repeated. Behind a call that
// has to wait for a person no other runs, but all that have to wait are asked about together.
func (r running) runOrdinary(ctx context.Context, calls []llm.ToolCall, ruling Ruling) (map[string]Output, []AwaitedCall, error) {
	outputs, stopped, waits := r.conv.heldOutputs(), false, false
	var asked []AwaitedCall
	for i, call := range calls {
		if _, ok := ruling.Results[call.ID]; ok || r.Caller.hasTool(call.Name) {
			continue
		}
		if _, ok := outputs[call.ID]; ok {
			continue
		}
		if stopped {
			outputs[call.ID] = Output{Text: notCalled}
			continue
		}
		if ctx.Err() != nil {
			return outputs, nil, context.Cause(ctx)
		}
		at, open, err := r.placeOf(ctx, call, i)
		if err != nil {
			return outputs, nil, err
		}
		if open {
			waits = true
			continue
		}
		at.Probe = waits
		output, question, err := r.runCall(ctx, at, call)
		switch {
		case err != nil:
			return outputs, nil, fmt.Errorf("run tool %s: %w", call.Name, err)
		case question != nil:
			asked, waits = append(asked, r.awaitPerson(call, question)), true
		case !waits:
			outputs[call.ID] = output
			stopped = ruling.StopAtFailure && output.Failed
		}
	}
	return outputs, asked, nil
}

func (r running) runCall(ctx context.Context, at Place, call llm.ToolCall) (Output, *Question, error) {
	if r.RunAt != nil {
		return r.RunAt(ctx, at, call)
	}
	output, err := r.Tools.Run(ctx, call)
	return output, nil, err
}

// placeOf returns the place of a call of the last reply, with the answer to its question. open is true if
// nobody has answered it yet.
func (r running) placeOf(ctx context.Context, call llm.ToolCall, index int) (at Place, open bool, err error) {
	at = Place{Reply: r.conv.added, Index: index}
	i := slices.IndexFunc(r.conv.awaits, func(a AwaitedCall) bool { return a.Call == call.ID && a.Question != nil })
	if i < 0 {
		return at, false, nil
	}
	asked := r.conv.awaits[i]
	answer, ok, err := r.Caller.Person.Answer(ctx, asked.ID)
	if err != nil {
		return at, false, fmt.Errorf("read the answer to %s: %w", asked.ID, err)
	}
	at.Question, at.QuestionID, at.Answer = asked.Question, asked.ID, answer
	return at, !ok, nil
}

// awaitPerson gives a question about a call its ID.
func (r running) awaitPerson(call llm.ToolCall, q *Question) AwaitedCall {
	*r.called++
	return AwaitedCall{Call: call.ID, ID: r.Caller.Person.ID(*r.called), Name: call.Name, Arguments: call.Arguments, Question: q}
}
