package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/scenario"
	"conclave/engine/llm"
	"conclave/engine/scenario"
)

// shown is a run at its second step.
func shown() acts.State {
	return acts.State{
		Result: acts.Result{
			RunNumber: 3, Scenario: "buy", Title: "Buy | a <b>thing</b>", Status: scenario.Running,
			Cost:  llm.Usage{InputTokens: 1200, OutputTokens: 34, ModelCalls: 5},
			Steps: []scenario.Result{{ID: "01", Title: "Open", Status: scenario.Pass, DurationMS: 61_240, EvidencePaths: []string{"a.txt", "b.txt"}}},
		},
		Step: "02",
		Plan: []scenario.StepRef{{ID: "01", Title: "Open"}, {ID: "02", Title: "Pay | now"}, {ID: "03", Title: "Leave"}},
	}
}

// The Web UI shows the running step, the ended and the pending ones, and where the files are.
func TestMarkdown_running(t *testing.T) {
	t.Parallel()
	require.Equal(t, `**at step 02** · buy · run 3 · 1234 tokens, 5 calls

> Buy \| a \<b\>thing\</b\>

Offline: the built-in deterministic model plays the agents.

| step | | status | time | evidence |
|---|---|---|---|---|
| 01 | Open | pass | 1m1.2s | 2 |
| 02 | Pay \| now | running |  | 0 |
| 03 | Leave | – |  | 0 |


Files: `+"`s3://bucket/scenarios/buy/runs/r1/`"+`
`, boardMarkdown(shown(), acts.Prepared{Offline: true, URL: "s3://bucket/scenarios/buy/runs/r1/result.json"}))
}

func TestMarkdown_paused(t *testing.T) {
	t.Parallel()
	s := shown()
	s.Paused, s.Step = true, ""
	board := boardMarkdown(s, acts.Prepared{})
	require.Contains(t, board, "**running** · buy · run 3")
	require.Contains(t, board, "**Paused:** nothing runs")
	require.Contains(t, board, "| 02 | Pay \\| now | – |")
	require.NotContains(t, board, "Offline")
	require.NotContains(t, board, "Files:")
}

// An ended run names the reason of each step that did not pass, and is not called paused.
func TestMarkdown_ended(t *testing.T) {
	t.Parallel()
	s, why := shown(), "expected a cart, saw <none> | "+strings.Repeat("x", 3*maxText)
	s.Status, s.Step, s.Paused = scenario.Fail, "", true
	s.Steps = append(s.Steps,
		scenario.Result{ID: "02", Status: scenario.Fail, Error: &why, DurationMS: 400},
		scenario.Result{ID: "03", Status: scenario.Skipped, DurationMS: 0})
	board := boardMarkdown(s, acts.Prepared{})
	require.Contains(t, board, "**fail** · buy · run 3")
	require.Contains(t, board, "| 02 | Pay \\| now | fail | 400ms | 0 |\n| 03 | Leave | skipped |  | 0 |\n")
	require.Contains(t, board, "- step 02: expected a cart, saw \\<none\\> \\| xxx")
	require.NotContains(t, board, "Paused")
	require.Less(t, len(board), 2*maxText, "long reasons are truncated")
}

// A step whose usage arrives after its end is recorded again.
func TestSame(t *testing.T) {
	t.Parallel()
	kept := scenario.Result{ID: "01", Status: scenario.Cancelled, Cost: llm.Usage{ModelCalls: 1}}
	for name, tt := range map[string]struct {
		change func(r *scenario.Result)
		want   bool
	}{
		"equal":          {func(*scenario.Result) {}, true},
		"other evidence": {func(r *scenario.Result) { r.EvidencePaths = []string{"a.txt"} }, true},
		"other step":     {func(r *scenario.Result) { r.ID = "02" }, false},
		"other status":   {func(r *scenario.Result) { r.Status = scenario.Pass }, false},
		"more calls":     {func(r *scenario.Result) { r.Cost.ModelCalls++ }, false},
	} {
		r := kept
		tt.change(&r)
		require.Equal(t, tt.want, isRecorded(kept, r), name)
	}
}
