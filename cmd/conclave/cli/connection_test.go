package cli

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"conclave/cmd/conclave/local"
	"conclave/engine/files/artifact"
	"conclave/workflows"
)

// connected is a Temporal client that is not used.
type connected struct{ client.Client }

func TestNoRun(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	cluster := Target{Cluster: true, Options: client.Options{HostPort: "h:7233", Namespace: "default"}}
	lists := "`conclave list` and `conclave pipeline list` list them"
	for want, conn := range map[string]*Connection{
		"there is no session s9 in /d, and no run of a pipeline or a scenario; " + lists:                                              {Target: Target{DataDir: "/d"}, Client: connected{}},
		"there is no session s9 at h:7233 in the namespace default, and no run of a pipeline or a scenario; " + lists:                 {Target: cluster, Client: connected{}, Store: store},
		"there is no session s9 in /d, and no run of a pipeline or a scenario; " + lists + "; they have files once they are prepared": {Target: Target{DataDir: "/d"}, Store: store},
		"there is no session s9 in " + store.URL("") + ", and no run of a pipeline or a scenario; " + lists +
			"; they have files once they are prepared": {Target: Target{Cluster: true}, Store: store},
	} {
		conn.CLI = &CLI{Queue: workflows.TaskQueue}
		err := conn.NoRun(t.Context(), "s9")
		require.EqualError(t, err, want)
		require.Equal(t, ExitUsage, ExitCode(err))
	}
}

// The embedded stack of another user resets connections.
func TestDialRemedy(t *testing.T) {
	t.Parallel()
	reset := errors.New("error reading server preface: connection reset by peer")
	for address, tt := range map[string]struct {
		err   error
		other bool
	}{
		"127.0.0.1:7233": {reset, true},
		"localhost:7233": {reset, true},
		"[::1]:7233":     {reset, true},
		"10.0.0.7:7233":  {reset, false},
		"127.0.0.2:7233": {errors.New("connection refused"), false},
	} {
		remedy := dialRemedy(Target{Options: client.Options{HostPort: address}}, tt.err)
		require.Contains(t, remedy, "check --address and TEMPORAL_*")
		if tt.other {
			require.Contains(t, remedy, "a stack that another user started accepts only that user, unless it runs with `conclave dev --allow-other-users`")
		} else {
			require.NotContains(t, remedy, "another user")
		}
	}
}

func TestAwaitEnd(t *testing.T) {
	t.Parallel()
	conn := &Connection{Target: Target{Cluster: true}}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, conn.AwaitEnd(ctx, "serve", nil))
	failed := make(chan error, 1)
	failed <- errors.New("the listener is closed")
	require.ErrorContains(t, conn.AwaitEnd(t.Context(), "serve", failed), "the listener is closed")
}

// A command that leaves a run says whether a dev of the data directory goes on with it.
func TestHowItContinues(t *testing.T) {
	t.Parallel()
	conn := &Connection{Target: Target{Cluster: true}}
	require.Equal(t, "it continues", conn.HowItContinues())
	conn = &Connection{Stack: local.Stack{DataDir: t.TempDir()}}
	require.Equal(t, "it continues as soon as a worker of this data directory runs", conn.HowItContinues())
	withdraw, err := local.Pages{Address: "http://127.0.0.1:1", PID: 7}.Announce(conn.Stack.DataDir)
	require.NoError(t, err)
	defer withdraw()
	require.Equal(t, "dev (pid 7) goes on with it", conn.HowItContinues())
}
