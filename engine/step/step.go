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
// *loop.EndedError where the step ended itself without an action, a
// *loop.RejectedError, *loop.TimeOverError, *loop.ModelCallsError or *llm.Error
// where it failed, the cause of ctx where it was ended from outside, and
// otherwise a fault of the store or the machine.
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
		if commit, err = attempts(ctx, p, s, claim.StartedAt, fresh, r); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	return settle(ctx, p, s, r, commit)
}

// settleTime bounds what is made of a commit after the step was ended from
// outside. The next attempt would make it again.
const settleTime = 2 * time.Minute

// settle makes of a commit what is made of it, and forgets the journal. The
// action is real: who ends the step now comes too late for it.
func settle(ctx context.Context, p Ports, s Spec, r *Result, c artifact.Commit) error {
	r.Commit, r.Usage = c, c.Usage
	settling, stop := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer stop()
	if err := project(settling, p.Store, s, r); err != nil {
		return err
	}
	Forget(settling, p, s)
	return nil
}

// maxBehind bounds how often an attempt begins again because an earlier one is
// not dead yet. That one is fenced sooner or later.
const maxBehind = 10

// attempts does the work of a claimed step, up to the commit.
func attempts(ctx context.Context, p Ports, s Spec, started time.Time, fresh bool, r *Result) (artifact.Commit, error) {
	for n := 1; ; n++ {
		c, err := attempt(ctx, p, s, started, fresh, r)
		if !errors.Is(err, errBehind) || n == maxBehind {
			return c, err
		}
		fresh = false
		if c, err = committed(ctx, p.Store, s.Dir(r.Step)); !errors.Is(err, artifact.ErrNotFound) {
			return c, err
		}
	}
}

func attempt(ctx context.Context, p Ports, s Spec, started time.Time, fresh bool, r *Result) (artifact.Commit, error) {
	ws, err := openWorkspace(ctx, p, s)
	if err != nil {
		return artifact.Commit{}, err
	}
	defer ws.close()

	j := newJournal(p, s, ws, r)
	c, err := work(ctx, p, s, ws, j, started, fresh)
	if err != nil {
		r.Transcript = j.transcript.Bytes()
	}
	return c, err
}

// work comes to an action and commits it.
func work(ctx context.Context, p Ports, s Spec, ws *workspace, j *journal, started time.Time, fresh bool) (artifact.Commit, error) {
	action, err := converse(ctx, p, s, ws, j, fresh)
	if err != nil {
		return artifact.Commit{}, err
	}
	return conclude(ctx, p, s, ws, j, action, started)
}

// conclude commits an action with the files that belong to it.
func conclude(ctx context.Context, p Ports, s Spec, ws *workspace, j *journal, action loop.Action, started time.Time) (artifact.Commit, error) {
	sealed, err := s.Seal(action)
	if err != nil {
		return artifact.Commit{}, fmt.Errorf("sealing the %s of the step: %w", action.Kind, err)
	}
	if sealed.Payload, err = p.redactJSON(sealed.Payload); err != nil {
		return artifact.Commit{}, err
	}
	r := j.result
	c := artifact.Commit{
		Token: s.Token, Kind: action.Kind, Payload: sealed.Payload,
		SeenSteps: s.Seen, Usage: r.Usage, StartedAt: started,
	}
	if s.Witnessed != nil {
		c.SeenSteps, c.Heard = s.Witnessed()
	}
	if err := snapshot(ctx, p, s, ws, sealed, j, &c, r); err != nil {
		return artifact.Commit{}, err
	}
	// The fence: an attempt that was cut off must not commit.
	c.Timestamp = artifact.Timestamp(p.Now())
	if err := p.alive(ctx); err != nil {
		return artifact.Commit{}, err
	}
	return commit(ctx, p.Store, s.Dir(r.Step), c)
}

// converse runs the loop in the workspace, from the opening or from where the
// earlier attempts came to.
func converse(ctx context.Context, p Ports, s Spec, ws *workspace, j *journal, fresh bool) (loop.Action, error) {
	opened, opening, err := s.Open(ws.tools.Tools(), ws.mount)
	if err != nil {
		return loop.Action{}, fmt.Errorf("opening the step: %w", err)
	}
	rules := storable{Rules: opened, ws: ws, seal: s.Seal, refused: new(int)}
	var entries []loop.Entry
	if !fresh || s.ResumeFrom != "" || s.Files != "" { // what was claimed just now has no journal
		if entries, err = j.restore(ctx); err != nil {
			return loop.Action{}, err
		}
	}
	restored := interrupted(entries)
	if len(entries) == 0 {
		entries = []loop.Entry{{Kind: loop.Opening, Messages: opening}}
		if err := j.Append(ctx, entries[0]); err != nil {
			return loop.Action{}, err
		}
	}
	conv := &loop.Conversation{}
	for _, e := range entries {
		conv.Add(e)
		if err := rules.Learn(ctx, e); err != nil {
			return loop.Action{}, fmt.Errorf("learning the %s: %w", e.Kind, err)
		}
	}
	return loop.Loop{
		Model:   fencedModel{Model: p.Model, alive: p.alive, interrupted: restored},
		Tools:   fencedTools{opened: ws.tools, ports: p, interrupted: restored},
		Journal: j,
		Now:     p.Now,
		Window:  p.Window,
	}.Run(ctx, conv, rules)
}
