package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"conclave/engine/llm"
)

// Bounds of one step.
const (
	// MaxRejections is how many rejected replies end a step (seed 001: an
	// agent has three attempts at a valid workflow action).
	MaxRejections = 3

	// MaxModelCalls bounds a step whose model never tires of ordinary tools, and
	// one whose rules never tire of turning its action down.
	MaxModelCalls = 200

	// maxRefusals bounds how often the same turn is made shorter because the
	// server finds it too long.
	maxRefusals = 3
)

// Loop is the machinery of a step.
type Loop struct {
	Model   Model
	Tools   Tools
	Journal Journal

	// Now is the clock by which model calls and tools are timed; nil times
	// nothing. The loop itself decides nothing by it.
	Now func() time.Time

	// MaxModelCalls is at most the constant of that name; 0 means the constant.
	MaxModelCalls int

	// Window is the model's context window in tokens; 0 if it is not known. Then a
	// server that refuses the conversation teaches it.
	Window int
}

// Run carries conv on until the rules accept and confirm an action. The rules
// have learned the entries of conv already. On error conv holds everything that
// was journaled, usage included; an error of Updates or Confirm comes back as it is.
func (l Loop) Run(ctx context.Context, conv *Conversation, rules Rules) (Action, error) {
	r := running{Loop: l, conv: conv, rules: rules}
	for conv.Action == nil {
		if err := r.turn(ctx); err != nil {
			return Action{}, err
		}
	}
	return *conv.Action, nil
}

// running is a loop at work.
type running struct {
	Loop
	conv  *Conversation
	rules Rules
}

// turn is one reply and the answer to it. A restored conversation may have the
// reply already.
func (r running) turn(ctx context.Context) error {
	reply, given := r.conv.unanswered()
	if !given {
		var err error
		if reply, err = r.ask(ctx); err != nil {
			return err
		}
	}
	if err := r.answer(ctx, reply); err != nil {
		return err
	}
	if _, silent := r.conv.unanswered(); silent && r.conv.Action == nil {
		return fmt.Errorf("the rules left a reply without tool calls unanswered: %.80q", reply.Content)
	}
	return nil
}

// ask is the safe point and the model call that follows it. What makes the
// conversation fit may be a model call, too: then there is another safe point.
func (r running) ask(ctx context.Context) (llm.Message, error) {
	for {
		if err := r.safePoint(ctx); err != nil {
			return llm.Message{}, err
		}
		tools := slices.Concat(r.rules.Offer(), r.Tools.Tools())
		called, err := r.fit(ctx, tools)
		if err != nil {
			return llm.Message{}, err
		}
		if called {
			continue
		}
		reply, seconds, err := r.call(ctx, llm.Request{Messages: r.conv.Messages, Tools: tools})
		if errors.Is(err, errRefused) {
			continue
		}
		if err != nil {
			return llm.Message{}, err
		}
		reply.Message.Role = llm.Assistant
		reply.Message.ToolCalls = uniqueIDs(reply.Message.ToolCalls, r.conv.added)
		err = r.record(ctx, Entry{Kind: Reply, Messages: []llm.Message{reply.Message}, Usage: &reply.Usage, Seconds: seconds})
		return reply.Message, err
	}
}

// safePoint comes before every model call.
func (r running) safePoint(ctx context.Context) error {
	if err := r.bounds(); err != nil {
		return err
	}
	update, err := r.rules.Updates(ctx)
	if err != nil {
		return err
	}
	if !update.empty() {
		return r.record(ctx, Entry{Kind: Updated, Messages: update.Messages, Note: update.Note})
	}
	return nil
}

// call asks the model. A refusal of what is too long is recorded; its error is
// errRefused.
func (r running) call(ctx context.Context, req llm.Request) (llm.Reply, float64, error) {
	reply, seconds, err := r.generate(ctx, req)
	if err != nil {
		return llm.Reply{}, 0, r.failed(ctx, req, reply, seconds, err)
	}
	return reply, seconds, nil
}

// generate asks the model, with the seconds that it took. Waiting for a turn is
// not the model's time.
func (r running) generate(ctx context.Context, req llm.Request) (llm.Reply, float64, error) {
	// Cancellation and fencing arrive through ctx: no call is paid for after it ends.
	if ctx.Err() != nil {
		return llm.Reply{}, 0, context.Cause(ctx)
	}
	elapsed := r.clock()
	reply, err := r.Model.Generate(ctx, req)
	return reply, max(0, elapsed()-reply.Waited.Round(time.Millisecond).Seconds()), err
}

// failed records what a failed call cost and taught.
func (r running) failed(ctx context.Context, req llm.Request, reply llm.Reply, seconds float64, err error) error {
	var failed *llm.Error
	if errors.As(err, &failed) && failed.Kind == llm.ContextTooLong {
		return r.refuse(ctx, req, failed, reply.Usage, seconds)
	}
	return errors.Join(err, r.waste(ctx, reply.Usage, seconds))
}

// waste counts a reply that was of no use but has to be paid for.
func (r running) waste(ctx context.Context, u llm.Usage, seconds float64) error {
	if u.ModelCalls == 0 {
		return nil
	}
	return r.record(ctx, Entry{Kind: Wasted, Usage: &u, Seconds: seconds})
}

// bounds says whether the conversation may ask once more. It looks at nothing
// else, so that a restored conversation ends where it would have ended.
func (r running) bounds() error {
	limit := MaxModelCalls
	if r.MaxModelCalls > 0 {
		limit = min(limit, r.MaxModelCalls)
	}
	switch {
	case r.conv.Rejections >= MaxRejections:
		return &RejectedError{Attempts: r.conv.Rejections, Reason: r.conv.Rejected}
	case r.conv.Replies >= limit:
		return &ModelCallsError{Calls: r.conv.Replies}
	}
	return nil
}

// record journals an entry before it counts, and has the rules learn it.
func (r running) record(ctx context.Context, e Entry) error {
	if err := r.Journal.Append(ctx, e); err != nil {
		return fmt.Errorf("journaling a %s: %w", e.Kind, err)
	}
	r.conv.Add(e)
	if err := r.rules.Learn(ctx, e); err != nil {
		return fmt.Errorf("learning a %s: %w", e.Kind, err)
	}
	return nil
}

// clock starts a measurement in seconds, to the millisecond.
func (l Loop) clock() func() float64 {
	if l.Now == nil {
		return func() float64 { return 0 }
	}
	start := l.Now()
	return func() float64 { return max(0, l.Now().Sub(start).Round(time.Millisecond).Seconds()) }
}

// uniqueIDs gives calls without an ID, or with one used twice, an ID of their
// own: some servers send none, and results are matched by ID. The position among
// all messages there ever were keeps it apart from those given to earlier replies. The
// model's own slice is left alone.
func uniqueIDs(calls []llm.ToolCall, position int) []llm.ToolCall {
	calls = slices.Clone(calls)
	seen := make(map[string]bool, len(calls))
	for i := range calls {
		id := calls[i].ID
		for n := i; id == "" || seen[id]; n++ {
			id = fmt.Sprintf("call_%d_%d", position, n)
		}
		calls[i].ID, seen[id] = id, true
	}
	return calls
}
