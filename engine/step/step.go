package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/loop"
)

// Run carries the step out, or finds it carried out already. The error is a
// *loop.RejectedError, *loop.ModelCallsError or *llm.Error where the step itself
// failed, the cause of ctx where it was ended from outside, and otherwise a
// fault of the store or the machine.
func Run(ctx context.Context, p Ports, s Spec) (Result, error) {
	r := Result{Usage: s.Spent}
	err := run(ctx, p, s, &r)
	if err != nil && ctx.Err() != nil {
		// Whatever broke off, this is why.
		err = context.Cause(ctx)
	}
	return r, err
}

func run(ctx context.Context, p Ports, s Spec, r *Result) error {
	claim, fresh, err := claim(ctx, p, s, r)
	if err != nil {
		return err
	}
	// What was claimed just now cannot be committed yet.
	commit, err := artifact.Commit{}, artifact.ErrNotFound
	if !fresh {
		commit, err = committed(ctx, p.Store, s.Dir(r.Step))
	}
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		if commit, err = attempt(ctx, p, s, claim.StartedAt, r); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	r.Commit, r.Usage = commit, commit.Usage
	return project(ctx, p.Store, s, r)
}

// attempt does the work of a claimed step, up to the commit.
func attempt(ctx context.Context, p Ports, s Spec, started time.Time, r *Result) (artifact.Commit, error) {
	ws, err := openWorkspace(ctx, p, s)
	if err != nil {
		return artifact.Commit{}, err
	}
	defer ws.close()

	j := &journal{kept: p.Journal, result: r, spent: s.Spent, now: p.Now, alive: p.alive, progress: p.Progress}
	action, err := converse(ctx, p, s, ws, j)
	if err != nil {
		r.Transcript = j.transcript.Bytes()
		return artifact.Commit{}, err
	}
	sealed, err := s.Seal(action)
	if err != nil {
		return artifact.Commit{}, fmt.Errorf("sealing the %s of the step: %w", action.Kind, err)
	}
	c := artifact.Commit{
		Token: s.Token, Kind: action.Kind, Payload: sealed.Payload,
		SeenSteps: s.Seen, Usage: r.Usage, StartedAt: started,
	}
	if err := snapshot(ctx, p.Store, s.Layout, ws, sealed, j, &c, r); err != nil {
		return artifact.Commit{}, err
	}
	// The fence: an attempt that was cut off must not commit.
	c.Timestamp = artifact.Timestamp(p.Now())
	if err := p.alive(ctx); err != nil {
		return artifact.Commit{}, err
	}
	return commit(ctx, p.Store, s.Dir(r.Step), c)
}

// converse runs the loop in the workspace.
func converse(ctx context.Context, p Ports, s Spec, ws *workspace, j *journal) (loop.Action, error) {
	rules, opening, err := s.Open(ws.tools.Tools())
	if err != nil {
		return loop.Action{}, fmt.Errorf("opening the step: %w", err)
	}
	conv := &loop.Conversation{}
	if err := j.restore(ctx, conv); err != nil {
		return loop.Action{}, err
	}
	if len(conv.Messages) == 0 {
		first := loop.Entry{Kind: loop.Opening, Messages: opening}
		if err := j.Append(ctx, first); err != nil {
			return loop.Action{}, err
		}
		conv.Add(first)
	}
	return loop.Loop{
		Model:   fencedModel{Model: p.Model, alive: p.alive},
		Tools:   fencedTools{opened: ws.tools, alive: p.alive},
		Journal: j,
	}.Run(ctx, conv, rules)
}
