package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/workflows/drive"
)

func TestReopen_refuses(t *testing.T) {
	t.Parallel()
	conn := &hall.Connection{CLI: &hall.CLI{Queue: drive.TaskQueue}}
	ended := runs.Run{Kind: Kind(), ID: "p1", Workflow: "p1", Status: "completed"}
	_, err := reopen(t.Context(), conn, ended, drive.Request{})
	require.ErrorContains(t, err, "it has ended (completed), and its result stands; nothing was started")
	_, err = reopen(t.Context(), conn, ended, drive.Request{Agent: "agent_a"})
	require.ErrorContains(t, err, "leave out --agent")
	ended.Status = "error"
	input, err := reopen(t.Context(), conn, ended, drive.Request{})
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
