package gateway

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/cli"
	"conclave/engine/files/artifact"
	sessionflow "conclave/workflows/session"
)

// newDesk returns a desk with a store and no Temporal.
func newDesk(t *testing.T, dir, listen string) *Desk {
	t.Helper()
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	teams := []Team{WorkersTeam("default"), WorkersTeam("reviewers")}
	return New(&cli.Connection{CLI: &cli.CLI{Stderr: t.Output()}, Store: store}, teams, listen)
}

func TestDesk_teams(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir(), "127.0.0.1:8333")
	require.Len(t, d.Teams(access.Caller{}), 2)
	standard, err := d.Team(access.Caller{}, "default")
	require.NoError(t, err)
	require.Empty(t, standard.registered, "workers know their default by no name")
	limited := access.Caller{Name: "alice", Teams: []string{"reviewers", "gone"}}
	require.Len(t, d.Teams(limited), 1)
	_, err = d.Team(limited, "reviewers")
	require.NoError(t, err)
	_, err = d.Team(limited, "default")
	refused, ok := errors.AsType[*Refusal](err)
	require.True(t, ok)
	require.Equal(t, http.StatusNotFound, refused.Status)
	require.Contains(t, refused.Message, "you may ask: reviewers")
}

// A request that is repeated without a key finds the session of the request that broke off, even if
// the process that served it has ended, and no other session.
func TestDesk_brokenOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, brokenOff)
}

func brokenOff(t *testing.T) {
	ctx, dir, by := context.Background(), t.TempDir(), access.Caller{Name: "alice"}
	d := newDesk(t, dir, "127.0.0.1:8333")
	other := newDesk(t, dir, "127.0.0.1:9000")
	open := func(session string) (breaks context.CancelFunc, closed func(bool)) {
		connection, breaks := context.WithCancel(ctx)
		t.Cleanup(breaks)
		return breaks, d.recordPending(connection, by, "h1", session)
	}
	finds := func(d *Desk, want string) {
		synctest.Wait()
		require.Equal(t, want, d.brokenOff(ctx, by, "h1"))
	}
	first, _ := open("20260101-000000-aaaa")
	second, _ := open("20260101-000001-bbbb")
	_, received := open("20260101-000002-cccc")
	require.Empty(t, d.brokenOff(ctx, by, "h1"), "all are attended")
	first()
	finds(d, "20260101-000000-aaaa")
	finds(other, "20260101-000000-aaaa")
	second()
	finds(d, "20260101-000001-bbbb")
	received(true)
	finds(d, "20260101-000001-bbbb")
	require.Empty(t, d.brokenOff(ctx, by, "h2"))
	require.Empty(t, d.brokenOff(ctx, access.Caller{Name: "bob"}, "h1"))

	d.recordPending(ctx, by, "h3", "20260101-000003-dddd") // and the process is killed
	require.Empty(t, other.brokenOff(ctx, by, "h3"))
	again := newDesk(t, dir, "127.0.0.1:8333")
	again.server.Process = "the next one"
	require.Equal(t, "20260101-000003-dddd", again.brokenOff(ctx, by, "h3"))
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	failed := noAnswer("s1", sessionflow.Result{Status: "failed", Error: &artifact.Error{Type: "NoAnswer", Message: "agent_a failed"}})
	require.Equal(t, http.StatusInternalServerError, failed.Status)
	require.Equal(t, "session_failed", failed.Code)
	require.Equal(t, "session s1 ended as failed without an answer: agent_a failed; `conclave retry s1` goes on with it", failed.Message)
	require.Equal(t, "session_cancelled", noAnswer("s1", sessionflow.Result{Status: "cancelled"}).Code)
	refused := noAnswer("s1", sessionflow.Result{Status: "failed", Error: &artifact.Error{Type: "InvalidInput", Message: "no query"}})
	require.Equal(t, http.StatusBadRequest, refused.Status)
}

func TestHash(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, Hash([]byte("ab"), []byte("c")), Hash([]byte("a"), []byte("bc")))
	require.Len(t, SessionOf(access.Caller{Name: "alice"}, "k"), 28)
	require.NoError(t, cli.CheckRunID(SessionOf(access.Caller{}, "k")))
}
