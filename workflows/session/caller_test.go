package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/loop"
	"conclave/engine/session"
	"conclave/workflows"
)

// awaits ends a step with a call of a caller's tool.
func awaits(id string) outcome {
	return gives(acts.StepResult{Ended: loop.EndAwaiting, Calls: []coordination.Call{{ID: id, Name: "look", Digest: id}}, Outcome: session.Outcome{}})
}

func returned(id, content string) workflows.Request {
	return workflows.Request{Results: []coordination.ToolResult{{ID: id, Content: content}}}
}

// The session waits for its caller without a running activity and without spending its time,
// records the results, and goes on from the step's token.
func TestCaller(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, map[string][]outcome{
		"agent_a": {awaits("c0_l1_1"), answers(), votesFor("agent_a", 1, 0)},
	})
	const late = sessionTime * 3 / 8 // two such waits are most of the session's time
	p.at(late, func() {
		state := p.state(t)
		require.Equal(t, coordination.PhaseWaitingForTools, state.Phase)
		require.Equal(t, "c0_l1_1", state.Calls[0].ID)
		require.Contains(t, p.details(t), "waiting for the caller's tools")
		p.isRefused(t, workflows.ToolResultsSignal, returned("c0_l7_1", "?"), "these calls wait for a result: c0_l1_1")
		p.isRefused(t, workflows.ToolResultsSignal, returned("c0_l1_1", strings.Repeat("x", 600<<10)), "at most 524288 are accepted")
		p.isRefused(t, workflows.ToolResultsSignal, workflows.Request{Text: "?"}, "results")
		p.asks(t, workflows.ToolResultsSignal, returned("c0_l1_1", "a result"), func(s acts.State) { require.Empty(t, s.Calls) })
		p.asks(t, workflows.ToolResultsSignal, returned("c0_l1_1", "again"), nil)
	})
	result := p.run(t)
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, "default-test-run-id-l1", p.launched[1].ResumeFrom)
	require.EqualValues(t, 3, result.Cost.ModelCalls)
	require.EqualValues(t, 1, result.Reported.ModelCalls)
	var recorded []coordination.ToolResult
	for _, r := range p.records {
		recorded = append(recorded, r.Results...)
	}
	require.Equal(t, []coordination.ToolResult{{ID: "c0_l1_1", Content: "a result"}}, recorded, "the first result counts")
}

// A caller that never returns ends the session after its time.
func TestCaller_doesNotReturn(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{CallerSeconds: 600}, map[string][]outcome{"agent_a": {awaits("c0_l1_1")}})
	result := p.run(t)
	require.Equal(t, "failed", result.Status)
	require.Equal(t, "CallerGone", result.Error.Type)
	require.Contains(t, result.Error.Message, "timeout_settings.client_tools_timeout_seconds")
	require.NotNil(t, p.recorded().Saved, "it can be reopened")
}
