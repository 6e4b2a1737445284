package files

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/engine/files/artifact"
	"conclave/workflows"
)

// shop is a store with the files of ended runs, which have no histories any more.
type shop struct {
	t     *testing.T
	store artifact.Store
	conn  *cli.Connection
	errs  *bytes.Buffer
}

func newShop(t *testing.T) *shop {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	s := &shop{t: t, store: store, errs: &bytes.Buffer{}}
	s.conn = &cli.Connection{
		CLI:    &cli.CLI{Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: s.errs, Queue: workflows.TaskQueue},
		Target: cli.Target{DataDir: t.TempDir()}, Store: store,
	}
	s.put("sessions/s1/session.json", `{"query":"Why?","config_hash":"`+hash('1')+`"}`)
	s.put("sessions/s1/status.json", `{"status":"consensus"}`)
	s.put("sessions/s1/agents/agent_a/001/workspace/my=20notes.md", "notes")
	s.put("sessions/s1/blobs/sha256/"+hash('b'), "notes")
	s.put("sessions/s10/session.json", `{"query":"Why not?","continues":"s1","config_hash":"`+hash('2')+`"}`)
	s.put("sessions/s10/status.json", `{"status":"running"}`)
	s.put("sessions/p1-decide-l2-2/session.json", `{"query":"Decide.","config_hash":"`+hash('3')+`"}`)
	s.put("sessions/p1-draft-l9/session.json", `not JSON`)
	s.put("pipelines/p1/pipeline.json", `{"request":"A script","config_hash":"`+hash('4')+`"}`)
	s.put("pipelines/p1/config.json", `{"steps":[{"name":"decide","kind":"session","team":"`+hash('5')+`"}]}`)
	s.put("scenarios/buy/runs/r1/claims/001.json", `{"config_hash":"`+hash('6')+`"}`)
	s.put("scenarios/buy/runs/r1/claims/002.json", `{"config_hash":"`+hash('7')+`"}`)
	s.put("scenarios/buy/runs/r1/result.json", `{"status":"fail"}`)
	s.put("scenarios/buy/numbers/1", "r1")
	return s
}

func hash(digit byte) string { return strings.Repeat(string(digit), 64) }

func (s *shop) put(key, body string) {
	s.t.Helper()
	require.NoError(s.t, s.store.Put(s.t.Context(), key, strings.NewReader(body)))
}

func (s *shop) keys(prefix string) []string {
	s.t.Helper()
	keys := []string{}
	for key, err := range s.store.List(s.t.Context(), prefix) {
		require.NoError(s.t, err)
		keys = append(keys, key)
	}
	return keys
}

// inventory returns the inventory of the store alone.
func (s *shop) inventory() *inventory {
	s.t.Helper()
	inv := &inventory{conn: s.conn, byRoot: map[string]*endedRun{}}
	require.NoError(s.t, inv.listFiles(s.t.Context()))
	require.NoError(s.t, inv.readDocuments(s.t.Context()))
	inv.linkSessions()
	return inv
}

func (s *shop) run(id string) *endedRun {
	s.t.Helper()
	r, err := s.inventory().findRun(s.t.Context(), id)
	require.NoError(s.t, err)
	return r
}

func TestInventory_ofTheStore(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	type entry struct{ status, query, parent, continues string }
	got := map[string]entry{}
	for _, r := range s.inventory().runs {
		e := entry{r.status, r.query, "", r.claim.Continues}
		if r.parent != nil {
			e.parent = r.parent.ID
		}
		got[r.String()] = e
		require.WithinDuration(t, time.Now(), r.ended, time.Minute)
		require.False(t, r.open)
	}
	require.Equal(t, map[string]entry{
		"session s1":             {"consensus", "Why?", "", ""},
		"session s10":            {unknown, "Why not?", "", "s1"},
		"session p1-decide-l2-2": {unknown, "Decide.", "p1", ""},
		"session p1-draft-l9":    {unknown, "", "", ""}, // the pipeline has no such step
		"pipeline run p1":        {unknown, "A script", "", ""},
		"scenario run buy/r1":    {"fail", "", "", ""},
	}, got)
	r := s.run("s1")
	require.Equal(t, 4, r.objects)
	require.Equal(t, "sessions/s1/session.json", r.claimKey)
	require.Equal(t, hash('7'), s.run("buy/r1").claim.ConfigHash, "the newest claim counts")
}

func TestRemove_allFilesAndNoOthers(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	before := s.keys("")
	noted := artifact.WorkflowKey("w1")
	s.put(noted, `{"id":"r1"}`)
	require.NoError(t, removeRun(t.Context(), s.conn, s.run("s1")))
	require.Contains(t, s.keys(""), noted)
	require.NoError(t, removeFiles(t.Context(), s.store, &endedRun{Run: s.run("buy/r1").Run, workflow: "w1"}, artifact.Deleted))
	require.Equal(t, slices.DeleteFunc(before, func(key string) bool {
		return strings.HasPrefix(key, "sessions/s1/") || strings.HasPrefix(key, "scenarios/buy/runs/r1/")
	}), s.keys(""), "a scenario's numbers stay: they are never given again")
}

// breaking is a store that fails after a number of deletions.
type breaking struct {
	artifact.Store
	left int
}

var errServerAway = errors.New("outage")

func (b *breaking) Delete(ctx context.Context, key string) error {
	if b.left--; b.left < 0 {
		return errServerAway
	}
	return b.Store.Delete(ctx, key)
}

func (b *breaking) DeleteAll(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := b.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// After an interrupted removal the remaining files are marked, cannot be claimed by a new session,
// and are deleted by the next removal, whatever its conditions.
func TestRemove_canBeRepeated(t *testing.T) {
	t.Parallel()
	for left := range 5 {
		s := newShop(t)
		s.conn.Store = &breaking{s.store, left}
		require.ErrorIs(t, removeRun(t.Context(), s.conn, s.run("s1")), errServerAway, left)
		keys := s.keys("sessions/s1/")
		require.Contains(t, keys, "sessions/s1/"+artifact.Deleted, left)
		require.Len(t, keys, 5-left)
		if left < 4 {
			require.Contains(t, keys, "sessions/s1/session.json", "the ID is taken until the rest is gone")
		}

		s.conn.Store = s.store
		chosen, _ := filter{olderThan: day}.chooseRuns(s.inventory().runs, false)
		require.Equal(t, []string{"s1"}, names(chosen), "although it is young and s10 continues it")
		require.NoError(t, removeRun(t.Context(), s.conn, chosen[0]))
		require.Empty(t, s.keys("sessions/s1/"))
	}
}

func TestCarryOut_namesWhatStays(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.conn.Store = &breaking{s.store, 2}
	chosen := []*endedRun{s.run("s1")}
	err := carryOut(t.Context(), s.inventory(), chosen, noLeftovers, newReport(chosen, nil, nil), "conclave prune --yes")
	require.Equal(t, cli.ExitNoAnswer, cli.ExitCode(err))
	require.ErrorContains(t, err, "1 could not be removed, 0 bytes freed; `conclave prune --yes` tries again")
	require.Contains(t, s.errs.String(), "remove session s1: outage")
}

func TestCarryOut_nothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	require.NoError(t, carryOut(t.Context(), s.inventory(), nil, noLeftovers, newReport(nil, nil, nil), "conclave prune --yes"))
	require.Empty(t, s.errs.String(), "nothing was removed")
}

func TestDelete_refuses(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	inv := s.inventory()
	inv.byRoot["sessions/p1-draft-l9/"].open = true
	for id, says := range map[string]string{
		"s1":             "session s1 is needed: session s10 continues session s1; delete that one first",
		"p1-decide-l2-2": "is a step of pipeline run p1, which needs it; `conclave delete p1` removes both",
		"p1-draft-l9":    "has not ended: it is running; `conclave cancel",
		"buy/r1":         "there is no terminal to ask on; give --yes",
	} {
		err := deleteRun(t.Context(), inv, id, id != "buy/r1")
		require.ErrorContains(t, err, says)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	}
	require.NoError(t, deleteRun(t.Context(), inv, "p1", true))
	require.Empty(t, s.keys("sessions/p1-decide-l2-2/"))
	require.Empty(t, s.keys("pipelines/"))
}

// Registered teams are removed once no kept run refers to them, directly or through a definition in
// use; old logs are removed by age.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	dir := s.conn.Target.DataDir
	old := time.Now().Add(-2 * cli.Day)
	write := func(name, content string, changed time.Time) {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
		require.NoError(t, os.Chtimes(name, changed, changed))
	}
	for _, digit := range "123456789adef" {
		content := ""
		if digit == '2' {
			content = `{"team":"` + hash('d') + `"}`
		}
		write("teams/"+hash(byte(digit))+".json", content, old)
	}
	write("teams/"+hash('f')+".json", "{}", time.Now())
	write("teams/default", hash('e')+"\n", old)
	write("teams/notes.txt", "mine", old)
	write("logs/stack.log", "", old)
	write("logs/stack.log.1", "", old)
	write("logs/commands.log.1", "", time.Now())
	write("bases/known/"+hash('b')+".json", "{}", old)
	write("bases/known/"+hash('c')+".json", "{}", time.Now())
	write("bases/sessions/s10.json", "{}", old)

	inv := s.inventory()
	found := func(going []*endedRun, olderThan time.Duration) []string {
		files, err := inv.findLeftovers(t.Context(), going, olderThan)
		require.NoError(t, err)
		list := []string{}
		for _, f := range files {
			list = append(list, filepath.Base(f.Name)[:1]+filepath.Ext(f.Name))
		}
		return list
	}
	// 6 belongs to an older claim, and 8, 9 and a to nobody; d is named by 2, e is the default, and
	// f was registered just now.
	require.Equal(t, []string{"6.json", "8.json", "9.json", "a.json", "s.1", "b.json"}, found(nil, time.Duration(day)))
	require.Equal(t, []string{"2.json", "6.json", "8.json", "9.json", "a.json", "d.json", "c.1", "s.1", "b.json"}, found([]*endedRun{inv.byRoot["sessions/s10/"]}, 0))
	inv.conn.Cluster = true
	require.Empty(t, found(nil, 0), "a cluster has no data directory")
}
