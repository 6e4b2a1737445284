package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

func TestExitCodeOfAStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]int{
		"consensus": 0, "plurality": 0, "presented": 0, "limit": 0, "budget": 0, "finished": 0,
		"failed": 2, "cancelled": 2, "running": 2, "": 2,
		"timeout": 3,
	} {
		require.Equal(t, want, exitCode(sessionflow.Result{Status: status}), status)
	}
}

func TestExitCodeOfARefusedInput(t *testing.T) {
	t.Parallel()
	refused := func(kind string) sessionflow.Result {
		return sessionflow.Result{Status: "failed", Error: &artifact.Error{Type: kind}}
	}
	for _, kind := range []string{drive.InvalidInput, activities.ConfigInvalid, activities.SessionTaken} {
		require.Equal(t, hall.ExitUsage, exitCode(refused(kind)), kind)
	}
	require.Equal(t, hall.ExitNoAnswer, exitCode(refused("NoAnswer")))
}

func TestResultOfASessionThatTemporalEnded(t *testing.T) {
	t.Parallel()
	r := endedResult(runs.Run{ID: "s1"}, runs.End{Status: "failed", Error: &artifact.Error{Type: "Terminated"}})
	require.Equal(t, "s1", r.SessionID)
	require.Equal(t, "failed", r.Status)
	require.Equal(t, "Terminated", r.Error.Type)
	require.NotNil(t, r.Votes, "votes is an object in JSON")
}
