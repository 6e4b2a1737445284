package worker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/worker/cluster"
	pipelineflow "conclave/workflows/pipeline"
	scenarioflow "conclave/workflows/scenario"
	sessionflow "conclave/workflows/session"
)

// A worker keeps the order of signals, without which its workflows refuse to start, with and without
// metrics.
func TestInterceptors_keepTheOrderOfSignals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{"plain": {}, "measured": {Metrics: cluster.NewMetrics("1")}} {
		for kind, run := range map[string]struct {
			definition any
			input      any
		}{
			sessionflow.Type:  {sessionflow.Workflow, sessionflow.Input{Query: "Who?", SessionID: "s1"}},
			pipelineflow.Type: {pipelineflow.Workflow, map[string]any{"request": "Write.", "id": "p1", "pipeline": "p"}},
			scenarioflow.Type: {scenarioflow.Workflow, map[string]any{"resume": true}},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				start := func(options sdkworker.Options) error {
					var suite testsuite.WorkflowTestSuite
					env := suite.NewTestWorkflowEnvironment()
					env.SetWorkerOptions(options)
					env.RegisterWorkflowWithOptions(run.definition, workflow.RegisterOptions{Name: kind})
					env.RegisterDelayedCallback(env.CancelWorkflow, 0)
					env.ExecuteWorkflow(kind, run.input)
					return env.GetWorkflowError()
				}
				const lost = "this worker does not keep the order of signals"
				require.ErrorContains(t, start(sdkworker.Options{}), lost)
				require.NotContains(t, start(sdkworker.Options{Interceptors: c.workerInterceptors(&notes{})}).Error(), lost)
			})
		}
	}
}
