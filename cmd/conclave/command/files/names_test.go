package files

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// A copy of a session that an earlier version has stored has no reserved name, be it a key of the
// store or an entry of a manifest. All else is copied, and what is refused is named.
func TestCopyRun_reservedNames(t *testing.T) {
	t.Parallel()
	names := []string{
		".git/hooks/pre-commit", "src/.git", ".GIT/config", ".git /config", "git~1/config", ".g\u200cit/config", ".git::$INDEX_ALLOCATION/hooks/x", `a\.git\hooks`,
		".conclave-apply/journal", ".Conclave-Apply/old0",
	}
	b := newBucket(t)
	const hook = "#!/bin/sh\nid\n"
	sum, err := artifact.PutBlob(t.Context(), b.store, b.layout, []byte(hook))
	require.NoError(t, err)
	var m artifact.Manifest
	for _, name := range names {
		escaped, err := artifact.EscapePath(name)
		require.NoError(t, err)
		for _, dir := range []string{"agents/agent_a/003/workspace/", "agents/agent_a/004/partial/", "final/agent_a/workspace/"} {
			require.NoError(t, b.store.Put(t.Context(), b.layout.File(dir+escaped), strings.NewReader(hook)))
		}
		m.Files = append(m.Files, artifact.File{Path: name, Mode: 0o755, Size: int64(len(hook)), SHA256: sum})
	}
	slices.SortFunc(m.Files, func(a, b artifact.File) int { return cmp.Compare(a.Path, b.Path) })
	b.put("agents/agent_a/003/workspace.json", m)
	b.put("agents/agent_a/004/partial.json", m)
	b.put("final/agent_a/workspace.json", m)
	b.put("agents/agent_a/005/workspace.json", artifact.Manifest{Files: []artifact.File{{Path: "hooks", Link: ".git/hooks"}}})
	b.put("agents/agent_a/006/workspace.json", artifact.Manifest{Files: []artifact.File{{Path: ".git", Dir: true}}})
	require.NoError(t, b.store.Put(t.Context(), b.layout.File("final/agent_a/change.patch"), strings.NewReader("diff --git a/.git/hooks/pre-commit b/.git/hooks/pre-commit\n")))

	dir := t.TempDir()
	for range 2 { // a repeated pull refuses them, too
		summary, err := b.pull(dir)
		require.NoError(t, err)
		require.NoError(t, filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
			require.NoError(t, err)
			below, err := filepath.Rel(dir, name)
			require.NoError(t, err)
			require.Empty(t, artifact.File{Path: below}.Reserved(), "%q", below)
			require.NotEqual(t, "hooks", filepath.Base(name))
			return nil
		}))
		require.NoFileExists(t, filepath.Join(dir, "final/agent_a/change.patch"))
		require.FileExists(t, filepath.Join(dir, "agents/agent_a/001/workspace/my notes.md"))
		left := map[string]string{}
		for _, p := range summary.LeftOut {
			left[p.Path] = p.Problem
		}
		for _, name := range names {
			require.Contains(t, left["agents/agent_a/003/workspace/"+name], "choose another", "%q", name)
			require.Contains(t, left["final/agent_a/workspace/"+name], "choose another", "%q", name)
		}
		for _, name := range []string{"agents/agent_a/003/workspace.json", "agents/agent_a/004/partial.json", "agents/agent_a/005/workspace.json", "agents/agent_a/006/workspace.json"} {
			require.Contains(t, left[name], "cannot be used", name)
			require.Contains(t, left[name], "choose another", name)
		}
		require.Equal(t, "was left out, as final/agent_a/workspace.json", left["final/agent_a/change.patch"])
	}
}
