package scenario

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"conclave/activities"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
)

func (a *Activities) resumeRun(ctx context.Context, store artifact.Store, layout artifact.Layout, in PrepareInput) (Prepared, error) {
	last, number, err := a.lastClaim(ctx, layout)
	if err != nil {
		return Prepared{}, err
	}
	if number == 0 {
		return Prepared{}, activities.Invalid(fmt.Errorf("there is no run %s of scenario %s to resume", in.RunID, in.Plan.Slug))
	}
	plan, err := artifact.ReadJSON[scenario.Plan](ctx, a.Store, planOf(layout))
	if err != nil {
		return Prepared{}, cannotResume(in, err)
	}
	team, err := a.resolveTester(ctx, layout, in, last.ConfigHash)
	if err != nil {
		return Prepared{}, err
	}
	before := last.Before
	if last.Owner != in.Owner || before == nil { // otherwise an earlier attempt has claimed the run
		if before, err = a.resumableResult(ctx, layout, last, number, in); err != nil {
			return Prepared{}, err
		}
		number++
	}
	timeout := cmp.Or(in.StepTimeoutSeconds, last.StepTimeoutSeconds)
	if _, _, err := a.claimRun(ctx, layout, number, in, claim{ConfigHash: team.Hash(), StepTimeoutSeconds: timeout, Before: before}); err != nil {
		return Prepared{}, err
	}
	p := Prepared{
		RunID: in.RunID, Plan: plan, Execution: number, StepTimeoutSeconds: timeout,
		RunNumber: before.RunNumber, StartedAt: before.StartedAt, WorkedMS: before.DurationMS, Earlier: before.Steps,
	}
	cut, err := a.cutOff(ctx, layout, *before)
	if err != nil {
		return Prepared{}, err
	}
	if err := a.findRest(ctx, layout, plan, &p, cut); err != nil {
		return Prepared{}, err
	}
	if p.Messages, err = a.countMessages(ctx, layout); err != nil {
		return Prepared{}, err
	}
	if p.Events, err = a.countEvents(ctx, layout); err != nil {
		return Prepared{}, err
	}
	return a.beginRun(ctx, store, layout, p, team)
}

// lastClaim returns the newest claim of a run and its number, or 0 if there is no claim.
func (a *Activities) lastClaim(ctx context.Context, layout artifact.Layout) (last claim, number int, err error) {
	claims := artifact.Series[claim]{Store: a.Store, Key: func(n int) string { return claimOf(layout, n) }}
	for c, err := range claims.From(ctx, 1) {
		if err != nil {
			return last, number, err
		}
		last, number = c, number+1
	}
	return last, number, nil
}

// cannotResume makes an error about missing or malformed documents of a run final.
func cannotResume(in PrepareInput, err error) error {
	_, malformed := errors.AsType[*artifact.MalformedError](err)
	if malformed || errors.Is(err, artifact.ErrNotFound) {
		return activities.Invalid(fmt.Errorf("run %s of scenario %s ended before its first record and cannot be resumed: start a new one (%w)", in.RunID, in.Plan.Slug, err))
	}
	return err
}

// resumableResult returns the run's result. It returns an error if the run has passed or is still running. If
// the owner has the ID of this workflow, it has ended, because Temporal runs at most one workflow with an ID.
func (a *Activities) resumableResult(ctx context.Context, layout artifact.Layout, last claim, number int, in PrepareInput) (*Result, error) {
	r, err := artifact.ReadJSON[Result](ctx, a.Store, layout.File("result.json"))
	if err != nil {
		return nil, cannotResume(in, err)
	}
	over := r.Status != scenario.Running && r.Execution == number
	switch {
	case over && r.Status == scenario.Pass:
		return nil, activities.Invalid(fmt.Errorf("run %s of scenario %s has passed: start a new run instead", in.RunID, in.Plan.Slug))
	case !over && last.WorkflowID != in.WorkflowID:
		return nil, activities.Taken("run %s of scenario %s is not over: it belongs to workflow %s; cancel that, or, if it was terminated, resume under its ID",
			in.RunID, in.Plan.Slug, last.WorkflowID)
	}
	if last.Before != nil {
		r.Steps = mergeResults(last.Before.Steps, r.Steps)
	}
	return &r, nil
}

func mergeResults(earlier, later []scenario.Result) []scenario.Result {
	merged := slices.Clone(later)
	for _, e := range earlier {
		if !slices.ContainsFunc(later, func(l scenario.Result) bool { return l.ID == e.ID }) {
			merged = append(merged, e)
		}
	}
	return merged
}

// findRest finds the first step of the plan that has not passed, and the commit or journal from
// which it continues. The step starts from the beginning if it has neither, or if it shares a
// browser that no longer exists. A failed step continues only if the workflow run of the claim cut, which was
// cut off, had already retried it and has not recorded that; without such a run the claim is empty. Later steps
// can have begun only if the run was cut off before it recorded them.
func (a *Activities) findRest(ctx context.Context, layout artifact.Layout, plan scenario.Plan, p *Prepared, cut claim) error {
	for _, s := range plan.Steps {
		at := slices.IndexFunc(p.Earlier, func(r scenario.Result) bool { return r.ID == s.ID })
		recorded := at >= 0 && p.Earlier[at].Status != scenario.Skipped
		if !plan.Selects(s.ID) || recorded && p.Earlier[at].Status == scenario.Pass {
			continue
		}
		token, committed, err := a.restToken(ctx, layout, s.ID)
		if err != nil {
			return err
		}
		failed := recorded && isJudged(p.Earlier[at])
		retried := cut.FirstRunID != "" && strings.HasPrefix(token, cut.FirstRunID+"-")
		if !committed && plan.Browser == scenario.BrowserRun || failed && (!retried || committed && cut.hasRecorded(p.Earlier[at])) {
			token = ""
		}
		switch {
		case p.RestStep != "" && token != "":
			p.Open = append(p.Open, scenario.OpenStep{Step: s.ID, Token: token})
		case p.RestStep != "" || token == "" && recorded:
			return nil
		case token == "":
			return a.addLost(ctx, layout, s, p)
		default:
			p.Rest, p.RestStep, p.Unrecorded = token, s.ID, !recorded || failed || p.Earlier[at].Cost.ModelCalls == 0
			if recorded && !failed {
				p.SpentMS = p.Earlier[at].DurationMS
			}
		}
	}
	return nil
}

// isJudged reports whether a result is based on the agent's report. A retry then starts from the beginning.
func isJudged(r scenario.Result) bool {
	return r.Status == scenario.Fail || r.Error != nil && *r.Error == withoutEvidence
}

// addLost adds an attempt at a step that the run did not record before it ended, if the attempt has
// left evidence.
func (a *Activities) addLost(ctx context.Context, layout artifact.Layout, s scenario.StepRef, p *Prepared) error {
	at := slices.IndexFunc(p.Earlier, func(r scenario.Result) bool { return r.ID == s.ID })
	if at < 0 {
		at = len(p.Earlier)
		p.Earlier = append(p.Earlier, scenario.Result{ID: s.ID, Title: s.Title, File: s.File, Status: scenario.Skipped})
	}
	number := len(p.Earlier[at].Attempts) + 1
	evidence, err := evidenceOf(ctx, a.Store, layout, s.ID, number, number)
	if err != nil || len(evidence) == 0 {
		return err
	}
	why := "the run ended before the step did"
	p.Earlier[at].Attempts = append(p.Earlier[at].Attempts, scenario.Attempt{Status: scenario.Errored, Error: &why, EvidencePaths: evidence})
	return nil
}

func (a *Activities) countMessages(ctx context.Context, layout artifact.Layout) (int, error) {
	n := 0
	for _, err := range a.Store.List(ctx, layout.File("messages/")) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// cutOff returns the claim of the workflow run that made a result if that run was cut off, or else none.
func (a *Activities) cutOff(ctx context.Context, layout artifact.Layout, before Result) (claim, error) {
	if before.Status != scenario.Running {
		return claim{}, nil
	}
	return artifact.ReadJSON[claim](ctx, a.Store, claimOf(layout, before.Execution))
}

// hasRecorded reports whether the run of the claim has recorded an attempt at a step, whose result is now r.
func (c claim) hasRecorded(r scenario.Result) bool {
	earlier := 0
	if c.Before != nil {
		for _, before := range c.Before.Steps {
			if before.ID == r.ID {
				earlier = len(before.Attempts)
			}
		}
	}
	return len(r.Attempts) > earlier
}

// restToken returns the execution token of the newest launch of a step that has a commit or a journal, or "".
func (a *Activities) restToken(ctx context.Context, layout artifact.Layout, step string) (token string, committed bool, err error) {
	var tokens []string
	claims := artifact.Series[artifact.Claim]{Store: a.Store, Key: func(n int) string { return layout.ScenarioStep(step, n, "step.json") }}
	for c, err := range claims.From(ctx, 1) {
		if err != nil {
			return "", false, err
		}
		tokens = append(tokens, c.Token)
	}
	for n := len(tokens); n > 0; n-- {
		if committed, err = a.Store.Exists(ctx, layout.ScenarioStep(step, n, "action.json")); err != nil || committed {
			return tokens[n-1], committed, err
		}
		if journal, err := a.Store.Exists(ctx, layout.Journal(tokens[n-1], 1)); err != nil || journal {
			return tokens[n-1], false, err
		}
	}
	return "", false, nil
}

func (a *Activities) countEvents(ctx context.Context, layout artifact.Layout) (int, error) {
	lines, err := a.Store.Get(ctx, layout.File("events.jsonl"))
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return 0, err
	}
	return bytes.Count(lines, []byte("\n")), nil
}
