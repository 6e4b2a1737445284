package start

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	runs "conclave/cmd/conclave/run"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/workflows"
)

func TestReopen_refuses(t *testing.T) {
	t.Parallel()
	conn := &cli.Connection{CLI: &cli.CLI{Queue: workflows.TaskQueue}}
	ended := runs.Run{Kind: PipelineKind(), ID: "p1", Workflow: "p1", Status: "completed"}
	_, err := pipelineReporter{}.ReopenInput(t.Context(), conn, ended, workflows.Request{})
	require.ErrorContains(t, err, "it has ended (completed), and its result stands; nothing was started")
	ended.Status = "error"
	input, err := pipelineReporter{}.ReopenInput(t.Context(), conn, ended, workflows.Request{})
	require.NoError(t, err)
	require.NotNil(t, input)
}

// The end of a run follows that of the step that it cancelled, once that step has ended.
func TestInOrder(t *testing.T) {
	t.Parallel()
	s := pipeline.New(pipeline.Graph{
		Start: "main", Seconds: 5, MaxTransitions: 10, Steps: []pipeline.Node{{Name: "main", Kind: pipeline.Agent, MaxIterations: 5}},
	})
	s.Drain()
	texts := func() (told []string) {
		for i, e := range inOrder(s.Timeline(), s.View().Step) {
			require.Equal(t, i+1, e.Seq)
			told = append(told, e.Text)
		}
		return told
	}
	s.Step(pipeline.TimeUp{})
	s.Drain()
	require.Equal(t, []string{"main begins"}, texts())
	s.Step(pipeline.Suspended{Launch: "l1", Number: 1, Usage: llm.Usage{ModelCalls: 1}})
	require.Equal(t, []string{"main begins", "main ended: cancelled", "ended: error, the run's time of 5 s is over: limits.seconds"}, texts())
}
