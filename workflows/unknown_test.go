package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	scenarioflow "conclave/workflows/scenario"
	"conclave/workflows/session"
)

// A misspelt key fails a workflow before its first activity and names the nearest key.
func TestInput_unknownKey(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	for name, tt := range map[string]struct {
		kind   string
		input  any
		reason string
	}{
		"session":            {session.Type, object{"query": "q", "teem": "nosuch"}, `unknown key "teem": did you mean team?`},
		"far from all":       {session.Type, object{"query": "q", "zzz": 1}, `unknown key "zzz"; valid: query, session_id, team, config`},
		"reserved":           {session.Type, object{"query": "q", "continueds": 1}, `unknown key "continueds": did you mean continues?`},
		"of the limits":      {session.Type, object{"query": "q", "limits": object{"cost": 1}}, `unknown key "limits.cost"`},
		"pipeline":           {pipelineflow.Type, object{"request": "q", "pipelin": "p"}, `unknown key "pipelin": did you mean pipeline?`},
		"scenario":           {scenarioflow.Type, object{"plan": object{}, "step_timeout": 5}, `did you mean step_timeout_seconds?`},
		"nested":             {scenarioflow.Type, object{"plan": object{"steps": []object{{"id": "01", "titel": "t"}}}}, `unknown key "plan.steps[0].titel": did you mean title?`},
		"a string":           {session.Type, "x", "as a session: it is a string, not an object; give an object like"},
		"a number":           {session.Type, object{"query": 5}, "query is a number, not a string"},
		"a list of a run":    {pipelineflow.Type, []string{"x"}, "it is an array, not an object"},
		"a string for steps": {scenarioflow.Type, object{"plan": object{"steps": "x"}}, "plan.steps is a string, not an array"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&workflows.SignalOrder{}}})
			env.RegisterWorkflowWithOptions(session.Workflow, workflow.RegisterOptions{Name: session.Type})
			env.RegisterWorkflowWithOptions(pipelineflow.Workflow, workflow.RegisterOptions{Name: pipelineflow.Type})
			env.RegisterWorkflowWithOptions(scenarioflow.Workflow, workflow.RegisterOptions{Name: scenarioflow.Type})
			env.ExecuteWorkflow(tt.kind, tt.input)
			var refused *temporal.ApplicationError
			require.ErrorAs(t, env.GetWorkflowError(), &refused)
			require.Equal(t, workflows.InvalidInput, refused.Type())
			require.True(t, refused.NonRetryable())
			require.Contains(t, refused.Error(), tt.reason)
			require.NotContains(t, refused.Error(), "Go ")
		})
	}
}
