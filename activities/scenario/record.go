package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/redact"
	"conclave/engine/scenario"
	"conclave/engine/step"
)

// RecordScenario writes result.json and the events. It can be repeated. A workflow
// that the run does not belong to any more changes nothing.
func (a *Activities) RecordScenario(ctx context.Context, in RecordInput) (Recorded, error) {
	defer activities.Beat(ctx)()
	layout := artifact.InScenario(in.Result.Scenario, in.Result.RunID)
	superseded, err := a.Store.Exists(ctx, claimOf(layout, in.Result.Execution+1))
	if err != nil {
		return Recorded{}, fmt.Errorf("looking whose run %s is: %w", in.Result.RunID, err)
	}
	if superseded {
		return Recorded{}, nil
	}
	project, err := readProject(ctx, a.Store, layout)
	if err != nil {
		return Recorded{}, err
	}
	redactor := redact.New(project.Secrets())
	var recorded Recorded
	if recorded.Evidence, err = a.unreported(ctx, layout, in.Result.Steps); err != nil {
		return Recorded{}, err
	}
	if in.Result.Steps, err = a.extendSteps(ctx, layout, in, redactor); err != nil {
		return Recorded{}, err
	}
	in.Result.Error = redactPointer(redactor, in.Result.Error)
	for i := range in.Events {
		in.Events[i].Text = redactor.String(in.Events[i].Text)
	}
	if err := activities.AppendEvents(ctx, a.Store, layout, in.Events, func(e Event) int { return e.Seq }); err != nil {
		return Recorded{}, err
	}
	if err := a.writeResult(ctx, layout, in.Result); err != nil {
		return Recorded{}, err
	}
	if in.Result.CompletedAt != nil {
		return recorded, a.forgetJournals(ctx, layout, in.Result)
	}
	return recorded, nil
}

// unreported finds the evidence of steps that could not say what they recorded.
func (a *Activities) unreported(ctx context.Context, layout artifact.Layout, steps []scenario.Result) (map[string][]string, error) {
	found := map[string][]string{}
	for i := range steps {
		s := &steps[i]
		if s.Status != scenario.Errored && s.Status != scenario.Cancelled {
			continue
		}
		evidence, err := evidenceOf(ctx, a.Store, layout, s.ID)
		if err != nil {
			return nil, err
		}
		s.EvidencePaths, found[s.ID] = evidence, evidence
	}
	return found, nil
}

// extendSteps is all steps: what was written before, and what is new. Sent whole
// each time, they would be in the history as often as there are steps.
func (a *Activities) extendSteps(ctx context.Context, layout artifact.Layout, in RecordInput, redactor *redact.Redactor) ([]scenario.Result, error) {
	steps := []scenario.Result{}
	if in.Kept > 0 {
		old, err := artifact.ReadJSON[Result](ctx, a.Store, layout.File("result.json"))
		if err != nil {
			return nil, fmt.Errorf("reading result.json of run %s: %w", in.Result.RunID, err)
		}
		steps = append(steps, old.Steps[:min(in.Kept, len(old.Steps))]...)
	}
	for _, s := range in.Result.Steps {
		s.Error, s.Summary = redactPointer(redactor, s.Error), redactor.String(s.Summary)
		steps = append(steps, s)
	}
	return steps, nil
}

func redactPointer(redactor *redact.Redactor, text *string) *string {
	if text == nil {
		return nil
	}
	clean := redactor.String(*text)
	return &clean
}

// forgetJournals removes the journals of a run that is over, but for the one that
// its step without a verdict can be gone on with.
func (a *Activities) forgetJournals(ctx context.Context, layout artifact.Layout, r Result) error {
	keep := ""
	for _, s := range r.Steps {
		if s.Status != scenario.Errored && s.Status != scenario.Cancelled {
			continue
		}
		var err error
		if keep, err = a.rest(ctx, layout, s.ID); err != nil {
			return err
		}
	}
	prefix, tokens := layout.File("journal/"), map[string]bool{}
	for key, err := range a.Store.List(ctx, prefix) {
		if err != nil {
			return nil // what stays behind does no harm
		}
		token, _, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		tokens[token] = true
	}
	for token := range tokens {
		if token != keep {
			step.ForgetAll(ctx, a.Store, layout.Journals(token))
		}
	}
	return nil
}

// countEvents is how many events are on record.
func (a *Activities) countEvents(ctx context.Context, layout artifact.Layout) (int, error) {
	lines, err := a.Store.Get(ctx, layout.File("events.jsonl"))
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return 0, fmt.Errorf("reading the events of a run: %w", err)
	}
	return bytes.Count(lines, []byte("\n")), nil
}
