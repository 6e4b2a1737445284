package workflows

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/activities/attempt"
	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// A step that ends with any error after its cancellation is suspended: "A step ended so is
// suspended: no failure, no counted step".
func TestFailureOf(t *testing.T) {
	t.Parallel()
	used := llm.Usage{ModelCalls: 2}
	detail := attempt.Failure{Step: 2, Token: "run0-l3", Usage: used}
	unknown := attempt.Failure{Token: "run1-l3"}
	final := temporal.NewNonRetryableApplicationError("the key was refused", "AuthFailed", nil, detail)
	for name, tc := range map[string]struct {
		cancelled bool
		err       error
		failure   Failure
	}{
		"a failure": {
			false, final,
			Failure{Failure: detail, Cause: coordination.Failure{Type: "AuthFailed", Message: "the key was refused"}},
		},
		"a lost worker": {
			false, temporal.NewHeartbeatTimeoutError(),
			Failure{Failure: unknown, Unreported: true, Cause: coordination.Failure{Type: "Timeout", Message: temporal.NewHeartbeatTimeoutError().Error()}},
		},
		"an unknown error": {
			false, errors.New("odd"),
			Failure{Failure: unknown, Unreported: true, Cause: coordination.Failure{Type: "Unknown", Message: "odd"}},
		},
		"cancelled": {
			true, temporal.NewCanceledError(detail),
			Failure{Failure: detail, Suspended: true},
		},
		"cancelled before it began": {
			true, temporal.NewCanceledError(),
			Failure{Failure: unknown, Suspended: true, Unreported: true},
		},
		"cancelled from outside": {
			false, temporal.NewCanceledError(detail),
			Failure{Failure: detail, Suspended: true},
		},
		"cancelled, and a lost worker": {
			true, temporal.NewHeartbeatTimeoutError(),
			Failure{Failure: unknown, Suspended: true, Unreported: true},
		},
		"cancelled, and a failure": {
			true, final,
			Failure{Failure: detail, Suspended: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := FailureOf(tc.err, "run1-l3", tc.cancelled)
			if tc.failure.Suspended {
				got.Cause = coordination.Failure{} // not used
			}
			require.Equal(t, tc.failure, got)
		})
	}
}

func TestCanceledResult(t *testing.T) {
	t.Parallel()
	type ended struct{ Status string }
	var result ended
	require.False(t, CanceledResult(errors.New("odd"), &result))
	require.False(t, CanceledResult(temporal.NewCanceledError(), &result))
	require.False(t, CanceledResult(temporal.NewCanceledError(attempt.Failure{Step: 2}), &result), "as earlier versions end")
	require.Empty(t, result.Status)
	err := CanceledError(llm.Usage{ModelCalls: 2}, ended{Status: "cancelled"})
	require.True(t, CanceledResult(err, &result))
	require.Equal(t, "cancelled", result.Status)
	require.EqualValues(t, 2, FailureOf(err, "", false).Usage.ModelCalls, "a pipeline counts it")
}
