package step_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// storedDir stores a directory of alternating names and contents.
func (b *bench) storedDir(files ...string) *artifact.Base {
	b.t.Helper()
	dir := b.t.TempDir()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		require.NoError(b.t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(b.t, os.WriteFile(name, []byte(files[i+1]), 0o644))
	}
	up, err := snapshot.Upload{Store: b.store, Dir: dir, Now: time.Now}.Run(b.t.Context())
	require.NoError(b.t, err)
	stored, err := snapshot.Open(b.t.Context(), b.store, up.Hash)
	require.NoError(b.t, err)
	return stored
}

// basedBench returns a step on a base, which an answer of agent 2 has changed.
func basedBench(t *testing.T, files ...string) (*bench, *rules) {
	t.Helper()
	r := &rules{}
	b := newBench(t, r)
	b.spec.Layout = b.spec.Layout.On(b.storedDir(append([]string{"main.go", "one\n", "src/a.go", "a\n", "gone.txt", "gone\n"}, files...)...))
	b.spec.Adopts = true
	b.spec.Shown.Peers = []step.Peer{b.peer(2, append([]string{"main.go", "two\n", "src/a.go", "a\n", "src/new.bin", "\x00"}, files...)...)}
	return b, r
}

func copyPath(from, to string) llm.Message {
	return call("copy_path", map[string]string{"from": from, "to": to})
}

// A step starts with the base and commits only its change. The unchanged base and the changes of
// peers are read-only.
func TestBase_workspace(t *testing.T) {
	t.Parallel()
	b, r := basedBench(t)
	result, err := b.run(
		read("main.go"), read("base/main.go"), read("peers/agent2/main.go"), read("peers/agent2.diff"), call("list_files", map[string]string{"path": "peers/agent2", "glob": "*"}),
		writeCall("base/main.go", "x"), copyPath("main.go", "base/new.go"), writeCall("src/a.go", "mine\n"),
		call("search_files", map[string]string{"pattern": "one", "glob": "*.go"}), done("Two."))
	require.NoError(t, err)
	told := results(r.learned)
	require.Contains(t, told[0], "one\n")
	require.Contains(t, told[1], "one\n")
	require.Contains(t, told[2], "two\n")
	require.Contains(t, told[3], "--- a/main.go\n+++ b/main.go\n@@ -1 +1 @@\n-one\n+two\n")
	require.Contains(t, told[3], "deleted file mode 100644")
	require.Contains(t, told[3], "Binary files /dev/null and b/src/new.bin differ")
	require.Equal(t, "peers/agent2/main.go (4 bytes)\npeers/agent2/src/new.bin (1 bytes)\n", told[4])
	require.Contains(t, told[5], "base/ holds the files that the workspace started with")
	require.Contains(t, told[6], "base/new.go is read-only")
	require.Equal(t, "main.go:1: one\n", told[8], "the search leaves the base out")

	change, err := artifact.LoadChange(t.Context(), b.store, b.spec.Layout, result.Commit.Manifest)
	require.NoError(t, err)
	require.Len(t, change.Files, 1)
	require.Equal(t, "src/a.go", change.Files[0].Path)
	require.Empty(t, change.Removed)
}

// A peer's patch names files that are too large for it, and omits files that are for agents only.
func TestBase_largeAndInternalFiles(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("a line of text\n", 100_000)
	r := &rules{}
	b := newBench(t, r)
	b.spec.Layout = b.spec.Layout.On(b.storedDir("grows.txt", "small\n", "gone.txt", large))
	b.spec.Shown.Peers = []step.Peer{b.peer(2, "grows.txt", large, "new.txt", large, ".conclave/checks/a.sh", "true\n", "memory/short_term/verification_latest.md", "memo\n")}
	_, err := b.run(read("peers/agent2.diff"), read("peers/agent2/.conclave/checks/a.sh"), done("Two."))
	require.NoError(t, err)
	told := results(r.learned)
	for _, line := range []string{"grows.txt was changed; it has 1.4 MB and is not shown", "new.txt was added; it has", "gone.txt was deleted; it had"} {
		require.Contains(t, told[0], line)
	}
	require.NotContains(t, told[0], "checks")
	require.NotContains(t, told[0], "memory")
	require.Contains(t, told[1], "true", "the files themselves are shown")
}

// adopt_files replaces the workspace's files by those of an answer. Files that cannot be part of an
// answer are kept.
func TestBase_adopts(t *testing.T) {
	t.Parallel()
	b, r := basedBench(t)
	adopt := func(agent string) llm.Message { return call(step.AdoptFiles, map[string]string{"agent_id": agent}) }
	result, err := b.run(writeCall("mine.go", "x"), writeCall("src/deep/mine.go", "x"), writeCall("node_modules/m.js", "x"),
		adopt("agent3"), adopt("agent2"), call("list_files", map[string]string{"glob": "**"}), done("Two."))
	require.NoError(t, err)
	told := results(r.learned)
	require.Contains(t, told[3], "agent3")
	require.Equal(t, "your workspace has the files of agent2 now: 2 written, 3 removed", told[4])
	require.Contains(t, told[5], "node_modules/m.js")
	require.NotContains(t, told[5], "mine.go")
	require.Equal(t, b.spec.Shown.Peers[0].Manifest, result.Commit.Manifest, "the same change")
	require.NoDirExists(t, filepath.Join(b.work, "src/deep"))
}

// An answer that arrives during the step can also be adopted.
func TestBase_adoptsArrivals(t *testing.T) {
	t.Parallel()
	b, r := basedBench(t)
	later := b.peer(3, "main.go", "three\n")
	var offered []string
	r.updates = func(ctx context.Context, replies int) (loop.Update, error) {
		if replies == 1 {
			return loop.Update{}, b.mount(ctx, later)
		}
		return loop.Update{}, nil
	}
	ports := b.ports(read("main.go"), call(step.AdoptFiles, map[string]string{"agent_id": "agent3"}), read("main.go"), done("Two."))
	ports.Model = requesting{Model: ports.Model, look: func(req llm.Request) { offered = append(offered, string(req.Tools[0].Parameters)) }}
	_, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.Contains(t, results(r.learned)[2], "three")
	require.Contains(t, offered[0], `"enum":["agent2"]`)
	require.Contains(t, offered[1], `"enum":["agent2","agent3"]`)
}

// If the base contains a directory with the name of a mount, the mount gets another place.
func TestBase_ownNames(t *testing.T) {
	t.Parallel()
	b, r := basedBench(t, "base/x", "mine\n", "context/y", "mine\n")
	b.spec.Shown.Context = []step.Context{{Name: "docs", Files: b.storedDir("guide.md", "Read me.\n")}}
	result, err := b.run(read("base/x"), read(".conclave/base/main.go"), read(".conclave/context/docs/guide.md"),
		writeCall("base/x", "changed\n"), writeCall(".conclave/context/docs/guide.md", "x"), done("Two."))
	require.NoError(t, err)
	told := results(r.learned)
	require.Contains(t, told[0], "mine")
	require.Contains(t, told[1], "one")
	require.Contains(t, told[2], "Read me.")
	require.NotContains(t, told[3], "error")
	require.Contains(t, told[4], ".conclave/context/ holds further material")
	change, err := artifact.LoadChange(t.Context(), b.store, b.spec.Layout, result.Commit.Manifest)
	require.NoError(t, err)
	require.Len(t, change.Files, 1)
}

// Without a base there is nothing to adopt, but a context is still mounted.
func TestContext_withoutBase(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	b.spec.Adopts = true
	b.spec.Shown.Context = []step.Context{{Name: "docs", Files: b.storedDir("guide.md", "Read me.\n")}}
	result, err := b.run(read("context/docs/guide.md"), writeCall("context/docs/new", "x"), call(step.AdoptFiles, nil), done("Two."))
	require.NoError(t, err)
	told := results(r.learned)
	require.Contains(t, told[0], "Read me.")
	require.Contains(t, told[1], "read-only")
	require.Contains(t, told[2], "there is no tool")
	require.Empty(t, result.Commit.Manifest)
}

// Names that are not UTF-8 are mounted and replaced like others.
func TestBase_anyNames(t *testing.T) {
	t.Parallel()
	b, r := basedBench(t)
	later := b.peer(2, "caf\xe9/two\nlines", "2\n")
	b.spec.Shown.Peers = []step.Peer{b.peer(2, "caf\xe9/two\nlines", "1\n")}
	r.updates = func(ctx context.Context, replies int) (loop.Update, error) {
		if replies == 1 {
			return loop.Update{}, b.mount(ctx, later)
		}
		return loop.Update{}, nil
	}
	result, err := b.run(read("peers/agent2.diff"), read("peers/agent2.diff"), call(step.AdoptFiles, map[string]string{"agent_id": "agent2"}), done("Two."))
	require.NoError(t, err)
	told := results(r.learned)
	require.Contains(t, told[0], `+++ "b/caf\351/two\012lines"`)
	require.Contains(t, told[1], "+2\n")
	require.Equal(t, later.Manifest, result.Commit.Manifest)
}
