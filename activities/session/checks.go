package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	team "conclave/engine/session"
	"conclave/engine/session/check"
)

// CheckInput names an answer and the checks to run on it.
type CheckInput struct {
	Session string             `json:"session"`
	Answer  coordination.Shown `json:"answer"`
	Checks  []string           `json:"checks"`
}

// CheckResult contains the outcomes in the order of the input, in the format of
// coordination.Checked.
type CheckResult struct {
	Verdicts string `json:"verdicts"`
}

// checkAttempts is the number of attempts after which checks are unknown. A lack of this worker
// does not count: another one may be better equipped.
const checkAttempts = 5

// RunChecks runs checks on an answer. The outcome of each check on an answer is stored once, for
// retries and for equal answers.
func (a *Activities) RunChecks(ctx context.Context, in CheckInput) (CheckResult, error) {
	defer activities.Beat(ctx)()
	result, err := a.runChecks(ctx, in)
	if _, lacks := errors.AsType[*activities.LackError](err); err != nil && !lacks && activity.GetInfo(ctx).Attempt >= checkAttempts {
		return result, temporal.NewNonRetryableApplicationError(err.Error(), activities.Internal, err)
	}
	return result, activities.Elsewhere(err)
}

func (a *Activities) runChecks(ctx context.Context, in CheckInput) (CheckResult, error) {
	layout, _, err := a.sessionLayout(ctx, a.Store, in.Session)
	if err != nil {
		return CheckResult{}, err
	}
	commit, err := artifact.ReadJSON[artifact.Commit](ctx, a.Store, layout.Step(in.Answer.Agent, in.Answer.Step, "action.json"))
	if err != nil {
		return CheckResult{}, fmt.Errorf("read the answer %s: %w", in.Answer.Label, err)
	}
	answer, err := a.answerOf(ctx, layout, commit)
	if err != nil {
		return CheckResult{}, err
	}
	runner := check.Runner{Store: a.Store, Layout: layout, Scratch: a.Scratch, Confine: a.Confine}
	results := map[string]check.Result{}
	var result CheckResult
	for _, id := range in.Checks {
		r, known := results[id]
		if !known {
			if r, err = a.runCheck(ctx, runner, commit, answer, id); err != nil {
				return CheckResult{}, err
			}
			results[id] = r
		}
		verdict := "0"
		if r.Passed {
			verdict = "1"
		}
		result.Verdicts += verdict
	}
	return result, a.listChecks(ctx, layout, in, results)
}

func (a *Activities) answerOf(ctx context.Context, layout artifact.Layout, c artifact.Commit) (check.Answer, error) {
	var said team.Answer
	if err := json.Unmarshal(c.Payload, &said); err != nil {
		return check.Answer{}, activities.Invalid(fmt.Errorf("read an answer: %w", err))
	}
	files, err := artifact.LoadManifest(ctx, a.Store, layout, c.Manifest)
	return check.Answer{Files: files, Text: said.Answer}, err
}

func (a *Activities) runCheck(ctx context.Context, runner check.Runner, c artifact.Commit, answer check.Answer, id string) (check.Result, error) {
	key := check.ResultKey(runner.Layout, c.Manifest, answer.Text, id)
	r, err := artifact.ReadJSON[check.Result](ctx, a.Store, key)
	if !errors.Is(err, artifact.ErrNotFound) {
		return r, err
	}
	d, err := artifact.ReadJSON[check.Definition](ctx, a.Store, check.Key(runner.Layout, id))
	if err != nil {
		return check.Result{}, fmt.Errorf("read the check %s: %w", id, err)
	}
	if r, err = runner.Run(ctx, answer, d); err != nil {
		return check.Result{}, err
	}
	if a.Redact != nil {
		r.Output = string(a.Redact([]byte(r.Output)))
	}
	if err := activities.CreateOnce(ctx, a.Store, key, r); err != nil {
		return check.Result{}, err
	}
	return artifact.ReadJSON[check.Result](ctx, a.Store, key) // another attempt may have been first
}

func (a *Activities) listChecks(ctx context.Context, layout artifact.Layout, in CheckInput, results map[string]check.Result) error {
	key := layout.Step(in.Answer.Agent, in.Answer.Step, "checks.json")
	listed, err := artifact.ReadJSON[[]check.Result](ctx, a.Store, key)
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return err
	}
	for _, r := range results {
		if !slices.ContainsFunc(listed, func(l check.Result) bool { return l.Check == r.Check }) {
			listed = append(listed, r)
		}
	}
	slices.SortFunc(listed, func(x, y check.Result) int { return strings.Compare(x.Check, y.Check) })
	return artifact.PutJSON(ctx, a.Store, key, listed)
}

// keepChecks stores the definitions of the checks that were submitted with an answer, and adds
// their IDs to the result. It ignores an invalid directory of checks.
func (a *Activities) keepChecks(ctx context.Context, session string, c artifact.Commit, r *StepResult) error {
	layout, _, err := a.sessionLayout(ctx, a.Store, session)
	if err != nil {
		return err
	}
	var said team.Answer
	if err := json.Unmarshal(c.Payload, &said); err != nil {
		return activities.Invalid(fmt.Errorf("read an answer: %w", err))
	}
	change, err := artifact.LoadChange(ctx, a.Store, layout, c.Manifest)
	handed := check.Handed(artifact.Manifest{Files: change.Files})
	if err != nil || len(handed.Files) == 0 {
		return err
	}
	if r.Digest, err = team.DigestOf(said.Answer, change, c.Manifest); err != nil {
		return err
	}
	r.Digest.Data = said.Equal
	var unread error
	found, err := check.Find(ctx, handed, false, func(ctx context.Context, f artifact.File) (content []byte, err error) {
		content, unread = artifact.ReadFile(ctx, a.Store, layout, f)
		return content, unread
	})
	if err != nil {
		return unread
	}
	r.Checks, err = a.storeDefinitions(ctx, layout, found[:min(len(found), coordination.MaxChecks)])
	return err
}

func (a *Activities) storeDefinitions(ctx context.Context, layout artifact.Layout, found []check.Definition) ([]string, error) {
	var ids []string
	for _, d := range found {
		if err := activities.CreateOnce(ctx, a.Store, check.Key(layout, d.ID), d); err != nil {
			return nil, err
		}
		ids = append(ids, d.ID)
	}
	return ids, nil
}

// userChecks copies the user's directory of checks into the session and returns the IDs of the
// checks.
func (a *Activities) userChecks(ctx context.Context, layout artifact.Layout, reference string) ([]string, error) {
	hash, err := snapshot.Parse(reference)
	if err != nil {
		return nil, activities.Invalid(fmt.Errorf("checks: %w", err))
	}
	stored, err := snapshot.Open(ctx, a.Store, hash)
	if err != nil {
		return nil, err
	}
	if err := snapshot.Use(ctx, a.Store, hash, a.Now); err != nil {
		return nil, err
	}
	var unread error
	found, err := check.OfUser(ctx, stored.Manifest(), func(ctx context.Context, f artifact.File) (content []byte, err error) {
		content, unread = stored.ReadFile(ctx, f)
		return content, unread
	})
	switch {
	case unread != nil:
		return nil, unread
	case err != nil:
		return nil, activities.Invalid(fmt.Errorf("checks: %w", err))
	}
	for _, f := range stored.Manifest().Files {
		if f.SHA256 == "" {
			continue
		}
		content, err := stored.ReadFile(ctx, f)
		if err != nil {
			return nil, err
		}
		if _, err := artifact.PutBlob(ctx, a.Store, layout, content); err != nil {
			return nil, err
		}
	}
	return a.storeDefinitions(ctx, layout, found)
}
