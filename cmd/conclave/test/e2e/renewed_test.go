//go:build e2e

package e2e

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	acts "conclave/activities/pipeline"
	"conclave/engine/pipeline"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	sessionflow "conclave/workflows/session"
)

// crowded sends so many signals to a workflow that the server wants its next run. Nobody works yet.
func (s *site) crowded(id string) {
	s.t.Helper()
	const senders, signals = 8, 520 // with a few more than the 4,096 events of the server's limit
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for range signals {
				if err := s.client.SignalWorkflow(s.t.Context(), id, "", workflows.ResumeSignal, nil); err != nil {
					s.t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// A run whose history is too long continues as new under its own name, which the worker knows, and ends.
func TestContinuesAsNew(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := newModelServer(t, map[string][]reply{"model-a": {answer("Answer A."), vote("agent1", "Mine.")}})
	session := s.start("long")
	s.crowded("long")
	config := `{"start": "look", "agents": [{"id": "a", "backend": {"type": "offline"}}], "steps": [{"name": "look", "kind": "tools", "calls": [{"tool": "list_files"}]}]}`
	graph, err := s.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "graph", TaskQueue: workflows.TaskQueue}, pipelineflow.Type,
		pipelineflow.Input{Request: "Look.", Config: json.RawMessage(config)})
	require.NoError(t, err)
	s.crowded("graph")
	stop := s.work(model, "agent_a")
	defer stop()

	var decided sessionflow.Result
	require.NoError(t, session.Get(t.Context(), &decided))
	require.Equal(t, "consensus", decided.Status)
	var ended acts.Result
	require.NoError(t, graph.Get(t.Context(), &ended))
	require.Equal(t, pipeline.Completed, ended.Status)
	for _, id := range []string{"long", "graph"} {
		d, err := s.client.DescribeWorkflowExecution(t.Context(), id, "")
		require.NoError(t, err)
		require.NotEqual(t, d.GetWorkflowExecutionInfo().GetFirstRunId(), d.GetWorkflowExecutionInfo().GetExecution().GetRunId(), "%s has continued as new", id)
	}
}
