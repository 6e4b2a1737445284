package scenario_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
)

// A scenario that fails tells the step and its error.
func TestScenario_tellsItsEnd(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ends("pass"), ends("fail"))
	told := s.Told(activities.Receiver{URLEnv: "NOTIFY_URL"})
	result := runScenario(t, s, journey("r1", 3))
	require.Len(t, *told, 1)
	n := (*told)[0].Notice
	require.Equal(t, []string{"failed", result.Scenario + "/r1", "fail"}, []string{n.Type, n.ID, n.Status})
	require.Equal(t, "step "+*result.FailedStep+": "+*result.Error, n.Summary)
}
