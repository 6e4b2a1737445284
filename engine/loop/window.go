package loop

import (
	"context"
	"errors"
	"strings"

	"conclave/engine/llm"
)

// errRecorded reports that a failed call has been recorded, and that the loop goes on: the
// server found the conversation too long, or the reply was.
var errRecorded = errors.New("the conversation or the reply was too long")

// fit shortens the conversation until it fits into the known window, and reports whether
// it called the model to do so.
func (r running) fit(ctx context.Context, tools []llm.Tool) (called bool, err error) {
	for {
		size := smallerWindow(r.Window, r.conv.learned)
		elide, before := r.conv.Next(size, tools)
		switch {
		case r.conv.refusals >= maxRefusals:
			return false, r.conv.Refused(tools, r.conv.refused)
		case before > 0:
			return true, r.compact(ctx, before, size, tools)
		case len(elide) > 0:
			if err := r.record(ctx, Entry{Kind: Elided, Elided: elide}); err != nil {
				return false, err
			}
		case r.conv.refused != "": // the same request would be refused again
			return false, r.conv.Refused(tools, r.conv.refused)
		default:
			return false, r.conv.TooLong(size, tools)
		}
	}
}

// compact has the model summarize the turns before a position and replaces them with the
// summary.
func (r running) compact(ctx context.Context, before, size int, tools []llm.Tool) error {
	req := llm.Request{Messages: r.conv.SummaryRequest(before, size, tools)}
	reply, seconds, err := r.generate(ctx, req)
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
		return errors.Join(empty, r.waste(ctx, reply.Usage, seconds))
	}
	return r.record(ctx, Entry{
		Kind: Compacted, Before: before, Usage: &reply.Usage, Seconds: seconds,
		Messages: []llm.Message{r.conv.Summary(before, size, tools, text)},
	})
}

// refuse records a refusal and the window that it reveals: the one that the server names, or
// else one smaller than the request. It returns errRecorded.
func (r running) refuse(ctx context.Context, req llm.Request, failed *llm.Error, u llm.Usage, seconds float64) error {
	asked := r.conv.History
	asked.Messages = req.Messages
	e := Entry{Kind: Refused, Reason: failed.Message, Window: smallerWindow(failed.Window, max(1, asked.Tokens(req.Tools)*9/10)), Seconds: seconds}
	if u.ModelCalls > 0 {
		e.Usage = &u
	}
	if e.Reason == "" {
		e.Reason = "the server says that it is too long"
	}
	if err := r.record(ctx, e); err != nil {
		return errors.Join(failed, err)
	}
	return errRecorded
}
