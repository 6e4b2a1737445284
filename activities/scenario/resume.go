package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/scenario"
)

// resume prepares the continuation of an ended run, or of a run whose workflow has ended.
func (a *Activities) resume(ctx context.Context, layout artifact.Layout, in PrepareInput) (Prepared, error) {
	last, number, err := a.lastClaim(ctx, layout)
	if err != nil {
		return Prepared{}, err
	}
	if number == 0 {
		return Prepared{}, activities.Invalid(fmt.Errorf("there is no run %s of scenario %s to resume", in.RunID, in.Plan.Slug))
	}
	plan, err := artifact.ReadJSON[scenario.Plan](ctx, a.Store, planOf(layout))
	if err != nil {
		return Prepared{}, unresumable(in, err)
	}
	team, err := a.tester(ctx, layout, in, last.ConfigHash)
	if err != nil {
		return Prepared{}, err
	}
	before := last.Before
	if last.Owner != in.Owner || before == nil { // otherwise an earlier attempt has claimed the run
		if before, err = a.resumable(ctx, layout, last, number, in); err != nil {
			return Prepared{}, err
		}
		number++
	}
	if _, _, err := a.claimRun(ctx, layout, number, in, claim{ConfigHash: team.Hash(), Before: before}); err != nil {
		return Prepared{}, err
	}
	p := Prepared{Protocol: min(in.Protocol, scenario.Protocol), RunNumber: before.RunNumber, StartedAt: before.StartedAt, WorkedMS: before.DurationMS}
	if err := a.findRest(ctx, layout, plan, &p, *before); err != nil {
		return Prepared{}, err
	}
	if p.Events, err = a.countEvents(ctx, layout); err != nil {
		return Prepared{}, err
	}
	return a.begin(ctx, layout, in.RunID, p, plan, team, number)
}

// lastClaim returns the newest claim of a run and its number, 0 for none.
func (a *Activities) lastClaim(ctx context.Context, layout artifact.Layout) (last claim, number int, err error) {
	for {
		c, err := artifact.ReadJSON[claim](ctx, a.Store, claimOf(layout, number+1))
		if errors.Is(err, artifact.ErrNotFound) {
			return last, number, nil
		}
		if err != nil {
			return last, number, err
		}
		last, number = c, number+1
	}
}

// unresumable makes the error of a run without documents final.
func unresumable(in PrepareInput, err error) error {
	_, malformed := errors.AsType[*artifact.MalformedError](err)
	if malformed || errors.Is(err, artifact.ErrNotFound) {
		return activities.Invalid(fmt.Errorf("run %s of scenario %s ended before its first record and cannot be resumed: start a new one (%w)", in.RunID, in.Plan.Slug, err))
	}
	return err
}

// resumable returns the run's result, or an error if the run has passed or is still running.
// An owner with this workflow's ID has ended: Temporal runs at most one workflow of an ID.
func (a *Activities) resumable(ctx context.Context, layout artifact.Layout, last claim, number int, in PrepareInput) (*Result, error) {
	r, err := artifact.ReadJSON[Result](ctx, a.Store, layout.File("result.json"))
	if err != nil {
		return nil, unresumable(in, err)
	}
	over := r.Status != scenario.Running && r.Execution == number
	switch {
	case over && r.Status == scenario.Pass:
		return nil, activities.Invalid(fmt.Errorf("run %s of scenario %s has passed: start a new run instead", in.RunID, in.Plan.Slug))
	case !over && last.WorkflowID != in.WorkflowID:
		return nil, activities.Taken("run %s of scenario %s is not over: it belongs to workflow %s; cancel that, or, if it was terminated, resume under its ID",
			in.RunID, in.Plan.Slug, last.WorkflowID)
	}
	return &r, nil
}

// findRest finds the first step that has not passed, which resumes from its journal, or runs
// again without its earlier evidence.
func (a *Activities) findRest(ctx context.Context, layout artifact.Layout, plan scenario.Plan, p *Prepared, before Result) error {
	for i, s := range plan.Steps {
		var earlier scenario.Result
		if i < len(before.Steps) {
			earlier = before.Steps[i]
		}
		if earlier.ID == s.ID && earlier.Status == scenario.Pass {
			p.Earlier = append(p.Earlier, earlier)
			continue
		}
		p.Spent = earlier.Cost
		if earlier.Status != scenario.Fail {
			var err error
			if p.Rest, err = a.restToken(ctx, layout, s.ID); err != nil {
				return err
			}
		}
		if p.Rest != "" {
			p.SpentMS = earlier.DurationMS
			return nil
		}
		return a.setAside(ctx, layout, s.ID, before.Execution)
	}
	return nil
}

// restToken returns the execution token of a step's launch that ended without a verdict and
// left a journal, or an empty string.
func (a *Activities) restToken(ctx context.Context, layout artifact.Layout, step string) (string, error) {
	var tokens []string
	for n := 1; ; n++ {
		c, err := artifact.ReadJSON[artifact.Claim](ctx, a.Store, layout.ScenarioStep(step, n, "step.json"))
		if errors.Is(err, artifact.ErrNotFound) {
			break
		}
		if err != nil {
			return "", err
		}
		tokens = append(tokens, c.Token)
	}
	for n := len(tokens); n > 0; n-- {
		committed, err := a.Store.Exists(ctx, layout.ScenarioStep(step, n, "action.json"))
		if err != nil || committed {
			return "", err
		}
		if journal, err := a.Store.Exists(ctx, layout.Journal(tokens[n-1], 1)); err != nil || journal {
			return tokens[n-1], err
		}
	}
	return "", nil
}

// setAside moves the evidence of a repeated step to earlier/.
func (a *Activities) setAside(ctx context.Context, layout artifact.Layout, step string, execution int) error {
	prefix := layout.Evidence(step, "")
	var keys []string
	for key, err := range a.Store.List(ctx, prefix) {
		if err != nil {
			return err
		}
		keys = append(keys, key)
	}
	for _, key := range keys {
		aside := layout.File(fmt.Sprintf("earlier/%03d/%s", execution, evidencePath(step, key[len(prefix):])))
		err := a.Store.Copy(ctx, key, aside)
		if err == nil {
			err = a.Store.Delete(ctx, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// countEvents returns the number of recorded events.
func (a *Activities) countEvents(ctx context.Context, layout artifact.Layout) (int, error) {
	lines, err := a.Store.Get(ctx, layout.File("events.jsonl"))
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return 0, err
	}
	return bytes.Count(lines, []byte("\n")), nil
}
