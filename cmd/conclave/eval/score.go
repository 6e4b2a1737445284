package eval

import (
	"context"
	"fmt"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/check"
	"conclave/engine/eval"
)

// score returns whether an answer is correct, and the extracted part that was compared. It
// scores an answer once, because commands may take long.
func (u *unit) score(ctx context.Context, a reply) (extracted string, correct *bool, err error) {
	scorer := u.q.ScoredBy(u.plan.scorer)
	if extracted, correct = u.q.Score(u.plan.scorer, a.text); correct != nil {
		return extracted, correct, nil
	}
	key := a.session
	if a.step != nil {
		key += " " + a.step.Dir
	}
	correct, known := u.scores[key]
	switch {
	case known:
	case scorer == eval.Command || scorer == eval.Checks:
		correct, err = u.tried(ctx, scorer, a)
	case scorer == eval.Graded:
		correct, err = u.graded(ctx, a)
	}
	if err == nil {
		u.scores[key] = correct
	}
	return extracted, correct, err
}

// tried runs the commands or checks of a question on an answer, each in a fresh copy of its
// files. It returns nil for an empty answer.
func (u *unit) tried(ctx context.Context, scorer string, a reply) (*bool, error) {
	if a.step == nil && strings.TrimSpace(a.text) == "" {
		return nil, nil
	}
	answer := check.Answer{Text: a.text}
	if a.step != nil {
		commit, err := artifact.ReadJSON[artifact.Commit](ctx, u.conn.Store, a.layout.Step(a.step.Agent, a.step.Number, "action.json"))
		if err != nil {
			return nil, fmt.Errorf("read the answer of session %s: %w", a.session, err)
		}
		if answer.Files, err = artifact.LoadManifest(ctx, u.conn.Store, a.layout, commit.Manifest); err != nil {
			return nil, fmt.Errorf("read the files of session %s: %w", a.session, err)
		}
	}
	var definitions []check.Definition
	if scorer == eval.Command {
		for i, command := range u.q.Target {
			definitions = append(definitions, check.Definition{ID: fmt.Sprintf("target %d", i+1), Name: "command", Command: command, User: true})
		}
	} else {
		var err error
		if definitions, err = u.material.definitions(ctx, u.q, a.layout); err != nil {
			return nil, err
		}
	}
	runner := check.Runner{Store: u.conn.Store, Layout: a.layout, Confine: u.worker.Tools.Confine}
	passed := true
	for _, d := range definitions {
		result, err := runner.Run(ctx, answer, d)
		if err != nil {
			return nil, err
		}
		passed = passed && result.Passed
	}
	return &passed, nil
}
