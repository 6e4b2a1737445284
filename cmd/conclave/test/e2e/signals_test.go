//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"conclave/engine/coordination"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// Signals that wait for a worker are in one workflow task, as are those that a reset applies again. They are taken
// in the order of arrival: the session runs.
func TestUncachedSignalsInOneTask(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const id = "signals"
	run, err := s.client.SignalWithStartWorkflow(t.Context(), id, workflows.PauseSignal, nil, client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue},
		sessionflow.Type, sessionflow.Input{Query: "Which of us is right?"})
	require.NoError(t, err)
	for _, signal := range []struct {
		name  string
		input any
	}{
		{workflows.SaySignal, workflows.Request{Text: "One."}},
		{workflows.ResumeSignal, nil},
		{workflows.ResumeSignal, nil},
		{"dance", nil},
		{workflows.SaySignal, "Two."},
		{workflows.PauseSignal, nil},
		{workflows.SaySignal, workflows.Request{Text: "Three."}},
		{workflows.ResumeSignal, nil},
	} {
		require.NoError(t, s.client.SignalWorkflow(t.Context(), id, "", signal.name, signal.input))
	}
	model := newModelServer(t, map[string][]reply{"model-a": {
		answer("Answer A."), vote("agent1", "Mine."), answer("Answer A again."), vote("agent1", "Mine."),
	}})
	t.Cleanup(s.work(model, "agent_a"))
	for _, run := range []client.WorkflowRun{run, nil} {
		if run == nil {
			run = s.reset(s.client.GetWorkflow(t.Context(), id, ""), scheduled("Prepare"))
		}
		ended(t, run, "consensus")
		require.Equal(t, []string{
			"said One.", "resumed", "ignored", "ignored the input cannot be decoded: it is a string, not an object; give an object with text, agent",
			"paused", "said Three.", "resumed",
		}, s.asked(id)[1:], "after the first pause")
	}
	s.replay(id, "signals_in_one_task")
}

// asked returns the traces of people's requests in the timeline.
func (s *site) asked(id string) (traces []string) {
	s.t.Helper()
	value, err := s.client.QueryWorkflow(s.t.Context(), id, "", workflows.TimelineQuery)
	require.NoError(s.t, err)
	var entries []coordination.Entry
	require.NoError(s.t, value.Get(&entries))
	for _, e := range entries {
		switch e.Kind {
		case "said", "paused", "resumed", "ignored":
			trace := e.Kind
			if e.Reason != "" {
				trace += " " + e.Reason
			}
			traces = append(traces, trace)
		}
	}
	return traces
}
