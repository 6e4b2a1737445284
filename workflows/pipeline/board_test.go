package pipeline

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/pipeline"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/workflows"
)

// The Web UI shows the current step, its callers, ended steps, the cost, and the
// commands for a person.
func TestPipelineBoard(t *testing.T) {
	t.Parallel()
	why, price := "retry or cancel: lint failed, AuthFailed: the key | was refused", 0.25
	state := acts.State{ID: "p1", Request: "A <b>haiku</b>", Status: workflows.Running, View: pipeline.View{
		Step: "lint", Stack: []string{"main", "check"}, Transitions: 2, Paused: true, Parked: &why,
		Usage: llm.Usage{InputTokens: 1000, OutputTokens: 20, ModelCalls: 2, TotalUSD: &price},
		Trace: []pipeline.TraceEntry{
			{Step: "decide", Status: pipeline.MaxIterations, ExitCode: new(int)},
			{Number: 1, Step: "main", Status: pipeline.CallPending, Action: pipeline.Call, To: "check", Usage: llm.Usage{InputTokens: 500, OutputTokens: 10}},
			{Number: 2, Step: "check", Status: pipeline.CallPending, Action: pipeline.Call, To: "lint", Usage: llm.Usage{InputTokens: 500, OutputTokens: 10}},
			{Number: 3, Step: "lint", Status: pipeline.Failed, Error: &pipeline.Failure{Type: "AuthFailed", Message: "the key | was refused"}},
		},
	}}
	require.Equal(t, `**at lint** · 2 transitions · 1020 tokens, 2 calls, $0.2500

Waiting callers: main → check

**Parked:** retry or cancel: lint failed, AuthFailed: the key \| was refused

`+"`conclave retry p1` · `conclave cancel p1`"+`

**Paused:** nothing runs

`+"`conclave resume p1` · `conclave cancel p1`"+`

Offline: the built-in deterministic model plays the agents.

> A \<b\>haiku\</b\>

| # | step | ended | then | tokens |
|---|---|---|---|---|
| – | decide | max iterations, exit code 0 | – | 0 |
| 1 | main | call pending | call check | 510 |
| 2 | check | call pending | call lint | 510 |
| 3 | lint | error | – | 0 |

- lint failed: AuthFailed: the key \| was refused

Files: `+"`s3://bucket/pipelines/p1/`"+`
`, boardMarkdown(state, acts.Prepared{URL: "s3://bucket/pipelines/p1/pipeline.json", Offline: true}))

	state.Status, state.Reason, state.Step = "error", "control was passed on 40 times", ""
	for n := len(state.Trace); n < 40; n++ {
		state.Trace = append(state.Trace, pipeline.TraceEntry{Number: n, Step: "main", Status: pipeline.Completed})
	}
	over := boardMarkdown(state, acts.Prepared{})
	require.Contains(t, over, "**error** · 2 transitions")
	require.Contains(t, over, "control was passed on 40 times\n")
	require.NotContains(t, over, "conclave retry", "nothing is held when it is over")
	require.Contains(t, over, fmt.Sprintf("| … | %d earlier | | | |\n| 10 | main |", 40-shownSteps))
}
