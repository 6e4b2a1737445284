package loop

import (
	"context"
	"errors"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/window"
)

// errRefused reports a recorded refusal of a conversation that is too long.
var errRefused = errors.New("the conversation was refused as too long")

// fit shortens the conversation until it fits into the known window, and reports whether
// it called the model to do so. It depends on the conversation alone, so that a restored
// one continues in the same way.
func (r running) fit(ctx context.Context, tools []llm.Tool) (called bool, err error) {
	for {
		h, size := r.conv.history(), smaller(r.Window, r.conv.learned)
		plan := window.Next(h, size, tools)
		switch {
		case r.conv.refusals >= maxRefusals:
			return false, window.Refused(h, tools, r.conv.refused)
		case plan.Before > 0:
			return true, r.compact(ctx, h, plan.Before, size, tools)
		case len(plan.Elide) > 0:
			if err := r.record(ctx, Entry{Kind: Elided, Elided: plan.Elide}); err != nil {
				return false, err
			}
		case r.conv.refused != "": // the same request would be refused again
			return false, window.Refused(h, tools, r.conv.refused)
		default:
			return false, window.TooLong(h, size, tools)
		}
	}
}

// compact has the model summarize the turns before a position and replaces them by the
// summary.
func (r running) compact(ctx context.Context, h window.History, before, size int, tools []llm.Tool) error {
	req := llm.Request{Messages: window.SummaryRequest(h, before, size, tools)}
	reply, seconds, err := r.generate(ctx, req)
	text := reply.Message.Content
	if err != nil {
		failed, ok := errors.AsType[*llm.Error](err)
		if !ok || !failed.Cut || strings.TrimSpace(text) == "" {
			if err = r.recordFailure(ctx, req, reply, seconds, err); errors.Is(err, errRefused) {
				return nil
			}
			return err
		}
		// Another try would be cut off again.
		text += "\n[cut here, at the limit of the tokens of a reply]"
	}
	if strings.TrimSpace(text) == "" {
		empty := &llm.Error{Kind: llm.BadReply, Message: "the model was asked for a summary of a conversation that has become too long for its context window, and gave none; " +
			"a model with a longer context needs none"}
		return errors.Join(empty, r.waste(ctx, reply.Usage, seconds))
	}
	return r.record(ctx, Entry{
		Kind: Compacted, Before: before, Usage: &reply.Usage, Seconds: seconds,
		Messages: []llm.Message{window.Summary(h, before, size, tools, text)},
	})
}

// refuse records a refusal with the window that it reveals: the one that the server names,
// or less than the request. It returns errRefused.
func (r running) refuse(ctx context.Context, req llm.Request, failed *llm.Error, u llm.Usage, seconds float64) error {
	asked := window.History{Messages: req.Messages, Gauge: r.conv.gauge}
	e := Entry{Kind: Refused, Reason: failed.Message, Window: smaller(failed.Window, max(1, asked.Tokens(req.Tools)*9/10)), Seconds: seconds}
	if u.ModelCalls > 0 {
		e.Usage = &u
	}
	if e.Reason == "" {
		e.Reason = "the server says that it is too long"
	}
	if err := r.record(ctx, e); err != nil {
		return errors.Join(failed, err)
	}
	return errRefused
}

func (c *Conversation) history() window.History {
	return window.History{Messages: c.Messages, Fixed: c.fixed, Gauge: c.gauge}
}
