package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	scenarioagent "conclave/engine/scenario/agent"
	"conclave/engine/step"
	"conclave/engine/text"
)

// outcome converts the commit for the workflow. It includes only evidence that is stored.
func (t *stepRun) outcome(ctx context.Context) (StepResult, error) {
	commit := t.Result.Commit
	commit.Payload = []byte(t.vault.RestoreJSON(string(commit.Payload)))
	report, err := scenarioagent.ReadReport(commit)
	if err != nil {
		return StepResult{}, activities.Invalid(err)
	}
	stored, err := t.evidence(ctx)
	if err != nil {
		return StepResult{}, t.Error(err)
	}
	evidence, warnings := reconcile(report.EvidencePaths, stored)
	result := StepResult{
		Token: t.Token, Number: t.Result.Step, Status: report.Status, Evidence: evidence,
		Summary: text.Truncate(t.vault.Redact(report.Summary), maxText), Usage: t.Result.Usage,
	}
	result.Host = t.host()
	if report.Error != nil {
		result.Error = new(text.Truncate(t.vault.Redact(*report.Error), maxText))
	}
	if report.Status == scenario.Pass {
		warnings = append(t.doubts(&result, report.Used), warnings...)
	}
	for i, w := range warnings {
		if i == maxWarnings {
			result.Warnings = append(result.Warnings, fmt.Sprintf("and %d more", len(warnings)-i))
			break
		}
		result.Warnings = append(result.Warnings, t.vault.Redact(w))
	}
	return result, nil
}

// withoutEvidence is the error of a pass without required evidence.
const withoutEvidence = "the agent reported a pass without evidence, which require_evidence demands"

// doubts returns warnings about a pass without evidence or without tool calls. A pass without
// required evidence becomes an error.
func (t *stepRun) doubts(r *StepResult, used int) []string {
	var doubts []string
	if used == 0 && !t.offline {
		doubts = append(doubts, "passed without using a tool: the agent may not have tested anything")
	}
	switch {
	case len(r.Evidence) > 0:
	case t.plan.RequireEvidence:
		r.Status, r.Error = scenario.Errored, new(withoutEvidence)
	default:
		doubts = append(doubts, "passed without evidence")
	}
	return doubts
}

// exhausted returns the result of a step that has spent its allowance.
func (t *stepRun) exhausted(ctx context.Context) (StepResult, error) {
	t.KeepTranscript(ctx)
	evidence, err := t.evidence(ctx)
	if err != nil {
		return StepResult{}, t.Error(err)
	}
	l := t.in.Launch
	return StepResult{
		Token: t.Token, Number: t.Result.Step, Status: scenario.Errored, Evidence: evidence, Usage: t.Result.Usage, Host: t.host(),
		Error: new(fmt.Sprintf("limits.cost_usd: the step has spent its allowance of $%.4g", l.Limits.CostUSD) + l.Rest()),
	}, nil
}

// reconcile returns the stored paths as evidence, and a warning for each claimed path that is not
// stored.
func reconcile(claimed, stored []string) (evidence, warnings []string) {
	evidence = append([]string{}, stored...)
	slices.Sort(evidence)
	for _, c := range claimed {
		if !slices.Contains(evidence, c) {
			warnings = append(warnings, fmt.Sprintf("the agent named the evidence %.200q, which does not exist", c))
		}
	}
	return evidence, warnings
}

// explained returns the activity's error without credentials, which a quoted request might contain.
// If the agent reported no verdict, the error includes the agent's last reply.
func (t *stepRun) explained(err error) error {
	application, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
		return err
	}
	message := application.Message()
	if said := lastReply(t.Result.Transcript); application.Type() == step.NoAction && said != "" {
		why := fmt.Sprintf("the agent reported no verdict in %d model calls", t.Result.Usage.ModelCalls)
		for _, none := range []string{t.Ports.NoCalls, t.Ports.UnreadCalls} {
			if none != "" && strings.Contains(message, none) {
				why += ": " + none
			}
		}
		message = fmt.Sprintf("%s; it last said: %q", why, text.Truncate(said, maxSaid))
	}
	if message = t.vault.Redact(message); message == application.Message() && t.vault.Redact(err.Error()) == err.Error() {
		return err
	}
	return temporal.NewApplicationErrorWithOptions(message, application.Type(), temporal.ApplicationErrorOptions{
		NonRetryable: application.NonRetryable(), NextRetryDelay: application.NextRetryDelay(), Category: application.Category(),
		Details: []any{t.Failure()},
	})
}

// lastReply returns the text of the last reply in a transcript, or "".
func lastReply(transcript []byte) string {
	said := ""
	for line := range bytes.Lines(transcript) {
		var e loop.Entry
		if json.Unmarshal(line, &e) != nil || e.Kind != loop.Reply {
			continue
		}
		for _, m := range e.Messages {
			said = strings.TrimSpace(m.Content)
		}
	}
	return said
}
