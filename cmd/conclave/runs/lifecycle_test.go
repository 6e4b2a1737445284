package runs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"conclave/engine/artifact"
	"conclave/workflows/drive"
)

func TestResultOfASessionThatTemporalEnded(t *testing.T) {
	t.Parallel()
	status, cause := endOf(session, fmt.Errorf("workflow: %w", temporal.NewCanceledError()))
	require.Equal(t, "cancelled", status)
	require.Nil(t, cause)

	status, cause = endOf(session, fmt.Errorf("workflow: %w", temporal.NewNonRetryableApplicationError("the input has no query", drive.InvalidInput, nil)))
	require.Equal(t, "failed", status)
	require.Equal(t, &artifact.Error{Type: drive.InvalidInput, Message: "the input has no query"}, cause)

	status, _ = endOf(session, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil))
	require.Equal(t, "failed", status, "the workflow's own timeout is not the session's time")
}
