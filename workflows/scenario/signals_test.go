package scenario_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/scenario"
	"conclave/workflows"
	"conclave/workflows/stagetest"
)

// Signals of one workflow task are taken in the order of arrival, also those that came with the start.
func TestScenario_SignalsInOneTask(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		signals []string
		paused  bool
	}{
		"pause, resume":        {[]string{"pause", "resume"}, false},
		"resume, pause":        {[]string{"resume", "pause"}, true},
		"pause, resume, pause": {[]string{"pause", "resume", "pause"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, ends("pass"), ends("pass"))
			s.RegisterDelayedCallback(func() {
				for _, verb := range tt.signals {
					s.SignalWorkflowSkippingWorkflowTask(verb, nil)
				}
				s.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "Look left."})
			}, 0)
			waited := false
			s.RegisterDelayedCallback(func() {
				if s.IsWorkflowCompleted() {
					return
				}
				waited = true
				require.True(t, stagetest.State[acts.State](t, s).Paused)
				s.SignalWorkflow(workflows.ResumeSignal, nil)
			}, time.Hour)
			require.Equal(t, "pass pass pass", statuses(runScenario(t, s, journey("r1", 2))))
			require.Equal(t, tt.paused, waited)
		})
	}
}
