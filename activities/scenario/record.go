package scenario

import (
	"context"
	"strings"

	"conclave/activities"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
	"conclave/engine/step"
	"conclave/engine/text"
)

// RecordScenario writes result.json and the events. It does nothing if another workflow owns the
// run.
func (a *Activities) RecordScenario(ctx context.Context, in RecordInput) (Recorded, error) {
	defer activities.Beat(ctx)()
	layout, store := artifact.InScenario(in.Result.Scenario, in.Result.RunID), activities.FenceStore(ctx, a.Store, a)
	superseded, err := a.Store.Exists(ctx, claimOf(layout, in.Result.Execution+1))
	if err != nil || superseded {
		return Recorded{}, err
	}
	project, err := readProject(ctx, a.Store, layout)
	if err != nil {
		return Recorded{}, err
	}
	redactor := text.NewRedactor(project.Secrets())
	for _, m := range in.Messages {
		if err := activities.WriteMessage(ctx, a.Store, layout, step.Message{Number: m.Number, Text: redactor.String(m.Text)}, a.Now()); err != nil {
			return Recorded{}, err
		}
	}
	var recorded Recorded
	if recorded.Evidence, err = a.findEvidence(ctx, layout, in.Result.Steps); err != nil {
		return Recorded{}, err
	}
	if in.Result.Steps, err = a.extendSteps(ctx, layout, in, redactor); err != nil {
		return Recorded{}, err
	}
	redactPointer(redactor, in.Result.Error)
	for i := range in.Events {
		in.Events[i].Text = redactor.String(in.Events[i].Text)
	}
	if _, err := activities.AppendEvents(ctx, store, layout, nil, in.Events, func(e Event) int { return e.Seq }); err != nil {
		return Recorded{}, err
	}
	if err := artifact.PutJSON(ctx, store, layout.File("result.json"), in.Result); err != nil {
		return Recorded{}, err
	}
	if in.Result.CompletedAt != nil {
		a.EndShared(layout.Root())
		return recorded, a.forgetJournals(ctx, layout, in.Result)
	}
	return recorded, nil
}

// isUnfinished reports whether a step ended without a verdict.
func isUnfinished(s scenario.Result) bool {
	return s.Status == scenario.Errored || s.Status == scenario.Cancelled
}

// findEvidence adds the stored evidence to unfinished steps, and returns it by step ID.
func (a *Activities) findEvidence(ctx context.Context, layout artifact.Layout, steps []scenario.Result) (map[string][]string, error) {
	found := map[string][]string{}
	for i, s := range steps {
		if !isUnfinished(s) {
			continue
		}
		since, last := s.Span()
		evidence, err := evidenceOf(ctx, a.Store, layout, s.ID, since, last)
		if err != nil {
			return nil, err
		}
		steps[i].SetEvidence(evidence)
		found[s.ID] = evidence
	}
	return found, nil
}

// extendSteps appends the new steps to the recorded ones, which the workflow's history does not
// contain.
func (a *Activities) extendSteps(ctx context.Context, layout artifact.Layout, in RecordInput, redactor *text.Redactor) ([]scenario.Result, error) {
	steps := []scenario.Result{}
	if in.Kept > 0 {
		old, err := artifact.ReadJSON[Result](ctx, a.Store, layout.File("result.json"))
		if err != nil {
			return nil, err
		}
		steps = append(steps, old.Steps[:min(in.Kept, len(old.Steps))]...)
	}
	for _, s := range in.Result.Steps {
		redactPointer(redactor, s.Error)
		for _, attempt := range s.Attempts {
			redactPointer(redactor, attempt.Error)
		}
		s.Summary = redactor.String(s.Summary)
		steps = append(steps, s)
	}
	return steps, nil
}

func redactPointer(redactor *text.Redactor, text *string) {
	if text != nil {
		*text = redactor.String(*text)
	}
}

// forgetJournals deletes the journals of a run, except that of its unfinished step.
func (a *Activities) forgetJournals(ctx context.Context, layout artifact.Layout, r Result) error {
	keep := ""
	for _, s := range r.Steps {
		if !isUnfinished(s) {
			continue
		}
		var err error
		if keep, _, err = a.restToken(ctx, layout, s.ID); err != nil {
			return err
		}
	}
	prefix, tokens := layout.File("journal/"), map[string]bool{}
	for key, err := range a.Store.List(ctx, prefix) {
		if err != nil {
			return nil // remaining journals are harmless
		}
		token, _, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		tokens[token] = true
	}
	for token := range tokens {
		if token != keep {
			step.Forget(ctx, a.Store, layout.Journals(token))
		}
	}
	return nil
}
