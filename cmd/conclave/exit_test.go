package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

func TestExitCodeOfAnError(t *testing.T) {
	t.Parallel()
	for want, errs := range map[int][]error{
		exitDone:        {nil, silent(exitDone)},
		exitUsage:       {errors.New("whatever was found before anything started"), end(exitUsage, "x"), silent(exitUsage)},
		exitNoAnswer:    {end(exitNoAnswer, "x"), fmt.Errorf("wrapped: %w", end(exitNoAnswer, "x"))},
		exitInterrupted: {context.Canceled, fmt.Errorf("join: %w", context.Canceled), end(exitInterrupted, "%w", context.Canceled)},
	} {
		for _, err := range errs {
			require.Equal(t, want, codeOf(err), "%v", err)
		}
	}
}

func TestExitCodeOfAStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]int{
		"consensus": 0, "plurality": 0, "presented": 0, "limit": 0, "budget": 0, "finished": 0,
		"failed": 2, "cancelled": 2, "running": 2, "": 2,
		"timeout": 3,
	} {
		require.Equal(t, want, statusCode(status), status)
	}
}

func TestExitCodeOfARefusedInput(t *testing.T) {
	t.Parallel()
	refused := func(kind string) sessionflow.Result {
		return sessionflow.Result{Status: "failed", Error: &artifact.Error{Type: kind}}
	}
	for _, kind := range []string{drive.InvalidInput, activities.ConfigInvalid, activities.SessionTaken} {
		require.Equal(t, exitUsage, resultCode(refused(kind)), kind)
	}
	require.Equal(t, exitNoAnswer, resultCode(refused("NoAnswer")))
}

func TestResultOfASessionThatTemporalEnded(t *testing.T) {
	t.Parallel()
	r := unanswered("s1", fmt.Errorf("workflow: %w", temporal.NewCanceledError()))
	require.Equal(t, "cancelled", r.Status)
	require.Nil(t, r.Error)

	r = unanswered("s1", fmt.Errorf("workflow: %w", temporal.NewNonRetryableApplicationError("the input has no query", drive.InvalidInput, nil)))
	require.Equal(t, "failed", r.Status)
	require.Equal(t, &artifact.Error{Type: drive.InvalidInput, Message: "the input has no query"}, r.Error)

	r = unanswered("s1", temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil))
	require.Equal(t, "failed", r.Status, "the workflow's own timeout is not the session's time")
	require.Equal(t, "s1", r.SessionID)
	require.NotNil(t, r.Votes, "votes is an object in JSON")
}
