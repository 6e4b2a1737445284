package desk

import (
	"context"
	"fmt"
	"net/http"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/text"
	sessionflow "conclave/workflows/session"
)

// Reply is the end of a session, or its wait for tools, as its caller receives it.
type Reply struct {
	Session string
	Answer  string // the whole answer
	Usage   llm.Usage
	Result  sessionflow.Result

	// Calls are the calls of the caller's tools that the session waits for. If there are any,
	// there is no answer yet.
	Calls []coordination.Call
}

// Follow waits until a session ends or, if its caller has tools, until it calls them.
// Meanwhile it reports the session's events in sentences without the agents' texts. If the
// session has no answer, the error is a *Refusal with the reason.
func (d *Desk) Follow(ctx context.Context, id string, tools bool, progress func(string)) (Reply, error) {
	f := &follower{progress: progress, tools: tools, looks: make(chan look, 1)}
	defer d.follow(id, f)()
	for {
		select {
		case <-ctx.Done():
			return Reply{}, unavailable("wait for session "+id, ctx.Err())
		case l := <-f.looks:
			f.report(l.events)
			switch {
			case l.end != nil && l.end.err != nil:
				return Reply{}, unavailable("wait for session "+id, l.end.err)
			case l.end != nil:
				return d.reply(ctx, id, l.end.result)
			case tools && l.state != nil && l.state.Phase == coordination.PhaseWaitingForTools:
				return d.asked(ctx, id, l.state)
			}
		}
	}
}

// report reports the events since the last report.
func (f *follower) report(events []coordination.Entry) {
	if f.progress == nil {
		return
	}
	for _, e := range events {
		if e.Seq <= f.shown {
			continue
		}
		f.shown = e.Seq
		if !e.Ignored() {
			f.progress(text.OneLine(text.Terminal(e.Text)))
		}
	}
}

// asked returns the reply of a session that waits for its caller's tools.
func (d *Desk) asked(ctx context.Context, id string, state *acts.State) (Reply, error) {
	reply := Reply{Session: id, Usage: state.Cost.Since(state.Reported)}
	err := throughOutage(ctx, followPatience, func(ctx context.Context) (err error) {
		reply.Calls, err = d.calls(ctx, id, state.Calls)
		return err
	})
	return reply, err
}

// reply returns the reply of an ended session. A long answer is read from the store, because the
// result does not contain it.
func (d *Desk) reply(ctx context.Context, id string, r sessionflow.Result) (Reply, error) {
	reply := Reply{Session: id, Answer: r.Answer, Usage: r.Cost.Since(r.Reported), Result: r}
	if r.Winner == "" || r.Status == string(coordination.Undecided) {
		return reply, noAnswer(id, r)
	}
	err := throughOutage(ctx, followPatience, func(ctx context.Context) (err error) {
		reply.Answer, err = runs.WholeText(ctx, d.conn, artifact.InBucket(id), runs.Text{Content: r.Answer, Truncated: r.AnswerTruncated, Path: r.AnswerPath})
		return err
	})
	if err != nil {
		return reply, unavailable("read the answer of session "+id, err)
	}
	return reply, nil
}

// noAnswer returns the reason why a session has no answer, with the command that
// continues it.
func noAnswer(id string, r sessionflow.Result) *Refusal {
	why := "no agent has an answer"
	if r.Status == string(coordination.Undecided) {
		why = "its best answer has too little support"
	}
	if r.Error != nil && r.Error.Message != "" {
		why = r.Error.Message
	}
	if r.Error != nil && runs.RefusedInput(r.Error.Type) {
		return &Refusal{Status: http.StatusBadRequest, Code: "invalid_input", Message: why}
	}
	return &Refusal{
		Status: http.StatusInternalServerError, Code: "session_" + r.Status,
		Message: fmt.Sprintf("session %s ended as %s without an answer: %s; `conclave retry %s` goes on with it", id, r.Status, why, text.ShellQuote(id)),
	}
}
