//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// pruned is the part of the output of prune and delete that these tests read.
type pruned struct {
	DryRun bool `json:"dry_run"`
	Runs   []struct {
		ID, Status string
		PartOf     string `json:"part_of"`
		Objects    int
		Bytes      int64
		Histories  int
	}
	Leftovers []struct{ Name string }
	Bytes     int64
}

func (o output) pruned(t *testing.T) (p pruned, ids []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &p), o.stdout)
	for _, r := range p.Runs {
		require.Positive(t, r.Bytes, r.ID)
		require.Positive(t, r.Objects, r.ID)
		require.Equal(t, 1, r.Histories, r.ID)
		ids = append(ids, r.ID)
	}
	return p, ids
}

const sessionStep = `
start: draft
agents:
  - id: agent_a
    backend: {type: offline}
steps:
  - {name: draft, kind: agent, agent: agent_a, prompt: Draft it., next: decide}
  - {name: decide, kind: session}
`

// All products leave files and histories behind, which prune removes; open runs stay.
func TestPrune(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	tester := c.file("tester.yaml", "agents:\n  - {id: tester, backend: {type: offline}}\n")
	for _, line := range [][]string{
		{"run", "--offline", "--session-id", "s1", "First?"},
		{"run", "--offline", "--session-id", "s2", "Second?"},
		{"pipeline", "run", "--offline", "--id", "p1", c.file("pl.yaml", sessionStep), "A script"},
		{"scenario", "create", "shop", "buy", "--step", "Open: open the shop"},
		{"scenario", "run", "shop", "buy", "--offline", "--config", tester},
		{"start", "--offline", "--session-id", "open", "Third?"},
	} {
		require.Equal(t, 0, c.conclave(line...).code)
	}
	data := filepath.Join(c.home, ".local/share/conclave")
	stored := func() (roots []string) {
		for _, pattern := range []string{"sessions/*", "pipelines/*", "scenarios/*/runs/*"} {
			found, err := filepath.Glob(filepath.Join(data, "s3/conclave", pattern))
			require.NoError(t, err)
			for _, f := range found {
				roots = append(roots, filepath.Base(f))
			}
		}
		return roots
	}
	require.Len(t, stored(), 5, "the open session has no worker, hence no files")

	require.Contains(t, c.conclave("prune").stdout, "nothing to remove", "they are young")
	_, ids := c.conclave("prune", "--keep", "0", "--json").pruned(t)
	require.ElementsMatch(t, []string{"s1", "s2", "p1", "p1-decide-l2"}, withoutScenario(ids))
	require.Len(t, stored(), 5, "it only shows")

	out := c.conclave("delete", "--yes", "open")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "session open has not ended: it is running; `conclave cancel open` ends it")
	out = c.conclave("delete", "--yes", "p1-decide-l2")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "is a step of pipeline run p1")
	require.Equal(t, 1, c.conclave("delete", "s1").code, "there is no terminal to ask on")
	require.Equal(t, 0, c.conclave("delete", "--yes", "s1").code)
	require.NotContains(t, stored(), "s1")
	require.NotContains(t, c.conclave("list").stdout, "s1 ")
	out = c.conclave("pull", "s1", filepath.Join(c.home, "pulled"))
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "there is no session s1")

	old := time.Now().Add(-48 * time.Hour)
	teams, err := filepath.Glob(filepath.Join(data, "teams/*.json"))
	require.NoError(t, err)
	for _, name := range teams {
		require.NoError(t, os.Chtimes(name, old, old))
	}
	out = c.conclave("prune", "--keep", "0", "--yes", "--json")
	require.Equal(t, 0, out.code)
	p, ids := out.pruned(t)
	require.False(t, p.DryRun)
	require.ElementsMatch(t, []string{"s2", "p1", "p1-decide-l2"}, withoutScenario(ids))
	require.Positive(t, p.Bytes)
	require.Empty(t, stored())
	left, err := filepath.Glob(filepath.Join(data, "teams/*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, left, "the open session has a team")
	require.Less(t, len(left), len(teams))
	require.Contains(t, c.conclave("list").stdout, "open ")

	// The team of the open session is there, and the ID of a removed one is free.
	require.Equal(t, 0, c.conclave("watch", "open").code)
	require.Equal(t, 0, c.conclave("run", "--offline", "--session-id", "s1", "Again?").code)
	require.Equal(t, 0, c.conclave("pull", "--verify", "s1", filepath.Join(c.home, "again")).code)
}

// withoutScenario drops the scenario's run, whose ID has a time.
func withoutScenario(ids []string) (rest []string) {
	for _, id := range ids {
		if !strings.HasPrefix(id, "buy/") {
			rest = append(rest, id)
		}
	}
	return rest
}

// On a cluster the files are in its bucket.
func TestPrune_onACluster(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := newCLI(t, "AWS_ENDPOINT_URL_S3="+s.stack.S3Endpoint, "AWS_REGION="+s.stack.S3Region,
		"AWS_ACCESS_KEY_ID="+s.stack.S3AccessKey, "AWS_SECRET_ACCESS_KEY="+s.stack.S3SecretKey)
	at := []string{"--address", s.stack.TemporalAddress, "--bucket", s.stack.Bucket, "--prefix", "team-a"}
	worker := c.start(append([]string{"worker", "--offline"}, at...)...)
	worker.prints(t, "conclave")
	for _, id := range []string{"c1", "c2"} {
		require.Equal(t, 0, c.conclave(append([]string{"run", "--team", "default", "--session-id", id, "Why?"}, at[:2]...)...).code)
	}
	out := c.conclave("prune", "--address", s.stack.TemporalAddress)
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "name it with --bucket")

	out = c.conclave(append([]string{"prune", "--keep", "1", "--yes", "--json"}, at...)...)
	require.Equal(t, 0, out.code)
	p, ids := out.pruned(t)
	require.Equal(t, []string{"c1"}, ids)
	require.Empty(t, p.Leftovers, "a cluster has no data directory")
	for key, err := range s.store.List(t.Context(), "team-a/") {
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(key, "team-a/sessions/c2/") || key == "team-a/"+artifact.WorkflowKey("c2"), key)
	}
	require.NotContains(t, c.conclave("list", "--address", s.stack.TemporalAddress).stdout, "c1")
}

// A damaged or missing object is named and left out, everything else is pulled.
func TestPull_damagedStore(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	require.Equal(t, 0, c.conclave("run", "--offline", "--session-id", "s1", "Is it whole?").code)
	whole, dir := filepath.Join(c.home, "whole"), filepath.Join(c.home, "dir")
	require.Equal(t, 0, c.conclave("pull", "--verify", "s1", whole).code)
	stored := filepath.Join(c.home, ".local/share/conclave/s3/conclave/sessions/s1")
	transcript := filepath.Join(stored, "agents/agent_a/001/transcript.jsonl")
	data, err := os.ReadFile(transcript)
	require.NoError(t, err)
	data[10] ^= 1
	require.NoError(t, os.WriteFile(transcript, data, 0o600)) // keeps the extended attributes

	out := c.conclave("pull", "--json", "s1", dir)
	require.Equal(t, 2, out.code)
	require.Contains(t, out.stderr, "agents/agent_a/001/transcript.jsonl was left out")
	var r struct {
		LeftOut []struct{ Path string } `json:"left_out"`
	}
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &r))
	require.Len(t, r.LeftOut, 1)
	require.Equal(t, len(files(t, whole))-1, len(files(t, dir)))
	finals, err := filepath.Glob(filepath.Join(dir, "final/*/answer.json"))
	require.NoError(t, err)
	require.Len(t, finals, 1)

	require.NoError(t, os.RemoveAll(filepath.Join(stored, "ledger/000003.json")))
	require.NoError(t, os.RemoveAll(filepath.Join(stored, "agents/agent_c")))
	out = c.conclave("pull", "--verify", "s1", filepath.Join(c.home, "second"))
	require.Equal(t, 2, out.code)
	require.Contains(t, out.stdout, "ledger/000003.json does not follow the entries before it")
	require.Contains(t, out.stdout, "agents/agent_c/001 is missing, and other files tell of it")
	require.Equal(t, 1, strings.Count(out.stdout+out.stderr, "agents/agent_a/001/transcript.jsonl"), "a file that was left out is named once")
}

// files lists the files below a directory.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// A damaged database names the remedy, and with it the sessions can still be read.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	require.Equal(t, 0, c.conclave("run", "--offline", "--session-id", "s1", "Is it safe?").code)
	c.gone()
	databases, err := filepath.Glob(filepath.Join(c.home, ".local/share/conclave/temporal-*.db*"))
	require.NoError(t, err)
	for _, name := range databases {
		require.NoError(t, os.WriteFile(name, []byte(strings.Repeat("garbage!", 10_000)), 0o600))
	}
	out := c.conclave("list")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "is damaged: put a copy of it back, or move it away with its -wal and -shm files")
	c.gone()
	for _, name := range databases {
		require.NoError(t, os.RemoveAll(name))
	}
	require.Contains(t, c.conclave("list").stderr, "no sessions")
	require.Equal(t, 0, c.conclave("pull", "--verify", "s1", filepath.Join(c.home, "pulled")).code)
	require.Equal(t, 0, c.conclave("transcript", "s1", "agent_a", "1").code)
	require.Equal(t, 0, c.conclave("run", "--offline", "New?").code)

	out = c.conclave("prune", "--keep", "1", "--yes")
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stdout, "s1", "a session without a history is known by its files")
	require.NoDirExists(t, filepath.Join(c.home, ".local/share/conclave/s3/conclave/sessions/s1"))
}
