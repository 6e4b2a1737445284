package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func task(n int) RosterTask {
	return RosterTask{Token: fmt.Appendf(nil, "token %d", n), WorkflowID: "s1", RunID: "r1", ActivityID: fmt.Sprintf("agent_a-l%d", n)}
}

func open(t *testing.T, dir, server string) *Roster {
	t.Helper()
	r, err := OpenRoster(dir, server, "1@here")
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// kill ends the roster as the death of its process does: the lock is released, the file
// stays.
func (r *Roster) kill() { _ = r.file.Close() }

// reaped returns the tasks that ReapRosters reports.
func reaped(t *testing.T, dir, server string) []RosterTask {
	t.Helper()
	var all []RosterTask
	require.NoError(t, ReapRosters(dir, server, func(d DeadWorker) error {
		require.Equal(t, "1@here", d.Identity)
		all = append(all, d.Tasks...)
		return nil
	}))
	return all
}

func TestReap(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "workers")
	require.Empty(t, reaped(t, dir, ""), "there is no directory yet")
	dead, alive := open(t, dir, ""), open(t, dir, "")
	require.NoError(t, dead.Begin(task(1)))
	require.NoError(t, dead.Begin(task(2)))
	require.NoError(t, alive.Begin(task(3)))
	require.Empty(t, reaped(t, dir, ""), "a live worker is left alone")

	dead.kill()
	require.Equal(t, []RosterTask{task(1), task(2)}, reaped(t, dir, ""))
	require.Empty(t, reaped(t, dir, ""), "once")
	require.NoFileExists(t, dead.path)
	require.FileExists(t, alive.path)
}

// Tokens are like secrets, because whoever has one can end the step.
func TestOpen_isPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "workers")
	r := open(t, dir, "")
	for path, mode := range map[string]os.FileMode{dir: 0o700, r.path: 0o600} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), path)
	}
	content, err := os.ReadFile(r.path)
	require.NoError(t, err)
	var h head
	require.NoError(t, json.Unmarshal(content, &h))
	require.Equal(t, head{Identity: "1@here"}, h)
}

// A worker of another server must not reap: its server does not know the tokens.
func TestReap_ofAnotherServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := open(t, dir, "temporal.example.com:7233/default")
	require.NoError(t, dead.Begin(task(1)))
	dead.kill()
	require.Empty(t, reaped(t, dir, "temporal.example.com:7233/other"))
	require.FileExists(t, dead.path)
	require.Len(t, reaped(t, dir, "temporal.example.com:7233/default"), 1)

	old := open(t, dir, "gone.example.com:7233/default")
	old.kill()
	yesterday := time.Now().Add(-25 * time.Hour)
	require.NoError(t, os.Chtimes(old.path, yesterday, yesterday))
	require.Empty(t, reaped(t, dir, ""))
	require.NoFileExists(t, old.path)
}

// A server that is away gets the report later.
func TestReap_failed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := open(t, dir, "")
	require.NoError(t, dead.Begin(task(1)))
	dead.kill()
	away := errors.New("away")
	require.ErrorIs(t, ReapRosters(dir, "", func(DeadWorker) error { return away }), away)
	require.Len(t, reaped(t, dir, ""), 1)
}

// A line that was cut short by the end of the process is ignored.
func TestReap_cutShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := open(t, dir, "")
	require.NoError(t, dead.Begin(task(1)))
	_, err := dead.file.WriteString(`{"token":"dG9rZW`)
	require.NoError(t, err)
	dead.kill()
	require.Equal(t, []RosterTask{task(1)}, reaped(t, dir, ""))
}

func TestClose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ended, hurried := open(t, dir, ""), open(t, dir, "")
	for _, r := range []*Roster{ended, hurried} {
		require.NoError(t, r.Begin(task(1)))
	}
	ended.End(task(1).Token)
	ended.Close()
	require.NoFileExists(t, ended.path)
	hurried.Close()
	require.Equal(t, []RosterTask{task(1)}, reaped(t, dir, ""), "its activity does not run any more")
}

// The result of an ended activity may still be on its way to the server.
func TestEnd_keepsTheTaskForAWhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir, "")
	require.NoError(t, r.Begin(task(1)))
	require.NoError(t, r.Begin(task(2)))
	r.End(task(1).Token)
	require.Len(t, r.tasks, 2)
	e := r.tasks["token 1"]
	e.ended = e.ended.Add(-2 * settled)
	r.tasks["token 1"] = e
	r.End(task(2).Token)
	require.NotContains(t, r.tasks, "token 1")
	require.Contains(t, r.tasks, "token 2")
}

// The file stays small, and its lock is held while it is replaced.
func TestBegin_replacesTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir, "")
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = ReapRosters(dir, "", func(d DeadWorker) error {
					t.Errorf("%d tasks of a live worker are reaped", len(d.Tasks))
					return nil
				})
			}
		}
	})
	const steps = 2000
	for n := range steps {
		require.NoError(t, r.Begin(task(n)))
		if n > 0 { // one runs on
			r.End(task(n).Token)
		}
		r.mu.Lock()
		for token, e := range r.tasks {
			if !e.ended.IsZero() {
				e.ended = e.ended.Add(-2 * settled)
				r.tasks[token] = e
			}
		}
		r.mu.Unlock()
	}
	close(stop)
	watching.Wait()
	content, err := os.ReadFile(r.path)
	require.NoError(t, err)
	require.Less(t, strings.Count(string(content), "\n"), 2*spare)
	r.kill()
	var found []RosterTask
	require.Eventually(t, func() bool {
		found = append(found, reaped(t, dir, "")...)
		return len(found) > 0
	}, time.Minute, 10*time.Millisecond, "a program that another test starts has the lock, too, until it runs")
	require.Contains(t, found, task(0))
}

func TestRoster_ofNone(t *testing.T) {
	t.Parallel()
	var r *Roster
	require.NoError(t, r.Begin(task(1)))
	r.End(task(1).Token)
	r.Close()
}
