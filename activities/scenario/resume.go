package scenario

import (
	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/scenario"
	"context"
	"errors"
	"fmt"
)

// resume goes on with a run that is over, or whose workflow is.
func (a *Activities) resume(ctx context.Context, layout artifact.Layout, in PrepareInput) (Prepared, error) {
	last, number, err := a.lastClaim(ctx, layout)
	if err != nil {
		return Prepared{}, err
	}
	if number == 0 {
		return Prepared{}, activities.Invalid(fmt.Errorf("there is no run %s of scenario %s to resume", in.RunID, in.Plan.Slug))
	}
	plan, err := artifact.ReadJSON[scenario.Plan](ctx, a.Store, layout.File("definition/meta.json"))
	if err != nil {
		return Prepared{}, unresumable(in, err)
	}
	team, err := a.resumedTester(ctx, layout, last.ConfigHash, in)
	if err != nil {
		return Prepared{}, err
	}
	before := last.Before
	if last.Owner != ownerOf(in) || before == nil { // else this is another attempt of ours
		if before, err = a.resumable(ctx, layout, last, number, in); err != nil {
			return Prepared{}, err
		}
		number++
	}
	if _, _, err := a.claimRun(ctx, layout, number, in, claim{ConfigHash: team.Hash(), Before: before}); err != nil {
		return Prepared{}, err
	}
	if err := a.keepTeam(ctx, layout, team); err != nil {
		return Prepared{}, err
	}
	p := a.prepared(layout, plan, team, number)
	p.RunNumber, p.StartedAt, p.WorkedMS = before.RunNumber, before.StartedAt, before.DurationMS
	if err := a.goOn(ctx, layout, &p, *before); err != nil {
		return Prepared{}, err
	}
	if p.Events, err = a.countEvents(ctx, layout); err != nil {
		return Prepared{}, err
	}
	return p, a.begin(ctx, layout, in, p)
}

// unresumable tells a run that is not whole from a store that is away.
func unresumable(in PrepareInput, err error) error {
	var malformed *artifact.MalformedError
	if errors.Is(err, artifact.ErrNotFound) || errors.As(err, &malformed) {
		return activities.Invalid(fmt.Errorf("run %s of scenario %s had hardly begun and cannot be gone on with: start a new one (%w)", in.RunID, in.Plan.Slug, err))
	}
	return fmt.Errorf("reading run %s: %w", in.RunID, err)
}

// resumedTester is the team that is given, else the one that the run had.
func (a *Activities) resumedTester(ctx context.Context, layout artifact.Layout, hash string, in PrepareInput) (config.Team, error) {
	if in.Team != "" || activities.Given(in.Config) {
		return a.tester(ctx, in)
	}
	team, err := a.Teams.ByHash(ctx, a.Store, layout, hash)
	if err != nil {
		return team, err
	}
	return team, a.checkTester(ctx, team)
}

// resumable reads what the run has come to, and refuses one that has passed, or
// that goes on elsewhere. A workflow with the same ID as its owner's shows that the
// owner is gone: there is never more than one of an ID.
func (a *Activities) resumable(ctx context.Context, layout artifact.Layout, last claim, number int, in PrepareInput) (*Result, error) {
	r, err := artifact.ReadJSON[Result](ctx, a.Store, layout.File("result.json"))
	if err != nil {
		return nil, unresumable(in, err)
	}
	over := r.Status != scenario.Running && r.Execution == number
	switch {
	case over && r.Status == scenario.Pass:
		return nil, activities.Invalid(fmt.Errorf("run %s of scenario %s has passed: there is nothing to resume", in.RunID, in.Plan.Slug))
	case !over && last.WorkflowID != in.WorkflowID:
		return nil, activities.Taken("run %s of scenario %s is not over: it belongs to workflow %s; cancel that, or, if it was terminated, resume under its ID",
			in.RunID, in.Plan.Slug, last.WorkflowID)
	}
	return &r, nil
}

// goOn finds where a run is gone on with. A step without a verdict goes on with its
// journal, if it has one; one that is made anew begins without evidence.
func (a *Activities) goOn(ctx context.Context, layout artifact.Layout, p *Prepared, before Result) error {
	for i, s := range p.Plan.Steps {
		if i < len(before.Steps) && before.Steps[i].ID == s.ID && before.Steps[i].Status == scenario.Pass {
			p.Earlier = append(p.Earlier, before.Steps[i])
			continue
		}
		var was scenario.Result
		if i < len(before.Steps) {
			was = before.Steps[i]
		}
		p.Spent = was.Cost
		if was.Status != scenario.Fail {
			var err error
			if p.Rest, err = a.rest(ctx, layout, s.ID); err != nil {
				return err
			}
		}
		if p.Rest != "" {
			p.SpentMS = was.DurationMS
			return nil
		}
		return a.setAside(ctx, layout, s.ID, before.Execution)
	}
	return nil
}

// rest is the execution token of a step that was cut off, which has left a journal;
// empty if there is none, or if it has come to a verdict since.
func (a *Activities) rest(ctx context.Context, layout artifact.Layout, step string) (string, error) {
	var tokens []string
	for n := 1; ; n++ {
		c, err := artifact.ReadJSON[artifact.Claim](ctx, a.Store, layout.Trial(step, n, "step.json"))
		if errors.Is(err, artifact.ErrNotFound) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("looking for where step %s was cut off: %w", step, err)
		}
		tokens = append(tokens, c.Token)
	}
	for n := len(tokens); n > 0; n-- {
		committed, err := a.Store.Exists(ctx, layout.Trial(step, n, "action.json"))
		if err != nil || committed {
			return "", err
		}
		if there, err := a.Store.Exists(ctx, layout.Journal(tokens[n-1], 1)); err != nil || there {
			return tokens[n-1], err
		}
	}
	return "", nil
}

// setAside moves the evidence of a verdict that is made anew out of the way.
func (a *Activities) setAside(ctx context.Context, layout artifact.Layout, step string, execution int) error {
	prefix := layout.Evidence(step, "")
	var keys []string
	for key, err := range a.Store.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("setting the evidence of step %s aside: %w", step, err)
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
			return fmt.Errorf("setting the evidence of step %s aside: %w", step, err)
		}
	}
	return nil
}
