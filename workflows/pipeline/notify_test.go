package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	pipelineflow "conclave/workflows/pipeline"
	"conclave/workflows/stagetest"
)

// A run of a pipeline tells its end, with its last text.
func TestPipeline_tellsItsEnd(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, map[string][]any{"agent_a": {stagetest.Text("done")}})
	told := s.Told(activities.Receiver{URLEnv: "NOTIFY_URL", Events: []string{"decided"}}, activities.Receiver{URLEnv: "FAILED_URL", Events: []string{"failed"}})
	runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p1", Config: graphOf(`{"name":"check","agent":"agent_a"}`, "")})
	require.Len(t, *told, 1)
	require.Equal(t, "/pipelines/p1", (*told)[0].Page)
	require.Equal(t, activities.Notice{
		Type: "decided", ID: "p1", Status: "completed", Question: "Write.", Summary: "done", Link: s.Store.URL("pipelines/p1") + "/",
	}, (*told)[0].Notice)
}

// A pipeline that cannot begin tells that, with the reason.
func TestPipeline_tellsThatItCannotBegin(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, nil)
	told := s.Told(activities.Receiver{URLEnv: "NOTIFY_URL"})
	s.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Write.", ID: "p1"})
	require.ErrorContains(t, s.GetWorkflowError(), "the input has no pipeline")
	require.Len(t, *told, 1)
	require.Equal(t, "failed", (*told)[0].Notice.Type)
	require.Contains(t, (*told)[0].Notice.Summary, "ConfigInvalid: the input has no pipeline")
}
