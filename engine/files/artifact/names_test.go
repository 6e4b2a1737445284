package artifact_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// reservedFiles are paths that no manifest may have, on any file system.
var reservedFiles = []string{
	".git/hooks/pre-commit", "src/deep/.git/config", ".GIT/hooks/x", "a/.gIt/x", ".git /config", ".git./config", ".git...", ".git . .",
	"git~1/config", "GIT~1", "sub/git~2/x", ".git::$INDEX_ALLOCATION/hooks/x", ".git:stream",
	".g\u200cit/config", "\ufeff.git/x", ".git\u206f", ".git\xff", `a\.git\hooks`, `.git\config`,
	".conclave-apply/journal", "sub/.conclave-apply/old0", ".Conclave-Apply", ".CONCLAVE-APPLY/x", ".conclave-apply /x", "concla~1/journal",
}

// reservedLinks are links that no manifest may have, with their targets.
var reservedLinks = map[string]string{
	"hooks": ".git/hooks", "a/up": "../.GIT", "b": "sub/../.git ", ".gitmodules": "kept", "sub/.GitModules": "../kept", "gitmod~1": "kept", "stage": ".conclave-apply/x",
}

// lure is a .conclaveignore that includes whatever is usually left out.
const lure = "!.git\n!.git/\n!**/.git/**\n!.conclave-apply\n!*\n"

// A workspace's manifest has no reserved name, whatever the ignore files say, and a warning for
// each.
//
//nolint:funlen // one table
func TestSeal_reservedNames(t *testing.T) {
	t.Parallel()
	fill := func(t *testing.T, dir string) (left []string) {
		writeFile(t, filepath.Join(dir, artifact.IgnoreFile), lure)
		for _, name := range []string{"kept", "a/kept", "sub/kept", ".gitignore", ".gitattributes", ".conclave/checks/a.sh"} {
			writeFile(t, filepath.Join(dir, name), "x")
		}
		for _, name := range reservedFiles {
			writeFile(t, filepath.Join(dir, name), "x")
		}
		writeFile(t, filepath.Join(dir, "file/.git"), "gitdir: .x\n")
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "empty/.Git"), 0o755))
		for name, target := range reservedLinks {
			require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
			left = append(left, name)
		}
		return append(left, "file/.git", "empty/.Git")
	}
	want := []string{".conclave/checks/a.sh", ".conclaveignore", ".gitattributes", ".gitignore", "a/kept", "kept", "sub/kept"}
	require.True(t, slices.IsSorted(want))

	t.Run("a scan", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		left := fill(t, dir)
		m, _, warnings := seal(t, openDir(t, t.TempDir()), dir)
		require.Equal(t, want, paths(m))
		warned := map[string]string{}
		for _, w := range warnings {
			warned[w.Path] = w.Problem
		}
		for _, name := range left {
			require.NotEmpty(t, warned[name], "%q", name)
		}
		for _, name := range reservedFiles {
			name = strings.ToValidUTF8(name, "�")
			require.True(t, slices.ContainsFunc(warnings, func(w artifact.Warning) bool { return name == w.Path || strings.HasPrefix(name, w.Path+"/") }), "%q", name)
		}
		require.Equal(t, `".GIT" is git's name for its own files: choose another`, warned[".GIT"])
	})
	t.Run("a scan of named files", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		w := artifact.OpenWorkingCopy(openDir(t, t.TempDir()), layout, dir, "")
		_ = fill(t, dir)
		for _, name := range reservedFiles {
			delta, err := w.ScanFiles(t.Context(), []string{name})
			require.NoError(t, err)
			for _, f := range delta.Changed {
				require.Empty(t, f.Reserved())
			}
			require.NotEmpty(t, w.Warnings(), "%q", name)
		}
		require.Equal(t, want, paths(w.Manifest()))
	})
	t.Run("a workspace of another program", func(t *testing.T) {
		t.Parallel()
		dir, store := t.TempDir(), openDir(t, t.TempDir())
		left := fill(t, dir)
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer root.Close()
		hash, warnings, err := artifact.Adopt(t.Context(), store, layout, root, "")
		require.NoError(t, err)
		m, err := artifact.LoadManifest(t.Context(), store, layout, hash)
		require.NoError(t, err)
		require.Equal(t, want, paths(m))
		require.Greater(t, len(warnings), len(left))
	})
	t.Run("a directory to start from", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		left := fill(t, dir)
		require.NoError(t, os.Symlink("kept", filepath.Join(dir, "fine")))
		writeFile(t, filepath.Join(dir, ".git/config"), "x")
		names, warned := find(t, dir, append([]string{".git/config", "sub/.git", "a/.gIt/x"}, left...)...)
		require.Equal(t, append(slices.Clone(want[:5]), "fine", "kept", "sub/kept"), names)
		require.Contains(t, warned, ".GIT")
		require.Contains(t, warned, ".conclave-apply")
		require.Contains(t, warned, "hooks")
		require.NotContains(t, warned, ".git", "every repository has one")
	})
}

// Without a line that includes it, the repository that an agent makes is left out silently, as its
// prompt says.
func TestSeal_ownRepository(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, ".git/config"), "x")
	writeFile(t, filepath.Join(dir, "sub/.git/config"), "x")
	writeFile(t, filepath.Join(dir, "sub/kept"), "x")
	m, _, warnings := seal(t, openDir(t, t.TempDir()), dir)
	require.Equal(t, []string{"sub/kept"}, paths(m))
	require.Empty(t, warnings)
}

// A manifest with a reserved name, as an earlier version or somebody's hand has stored it, is
// refused by everything that reads or restores it.
func TestManifest_reservedNames(t *testing.T) {
	t.Parallel()
	entries := map[string]artifact.File{}
	for _, name := range append(slices.Clone(reservedFiles), ".git", "x/.git") {
		entries[name] = artifact.File{Path: name, Mode: 0o755, Size: 1, SHA256: sumOfX}
	}
	for name, target := range reservedLinks {
		entries["link "+name] = artifact.File{Path: name, Mode: 0o777, Link: target}
	}
	entries["an empty directory"] = artifact.File{Path: ".git", Mode: 0o755, Dir: true}
	for name, entry := range entries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDir(t, t.TempDir())
			require.NoError(t, d.Put(t.Context(), layout.Blob(sumOfX), strings.NewReader("x")))
			m := artifact.Manifest{Files: []artifact.File{entry}}
			require.NotEmpty(t, entry.Reserved())
			var refused *artifact.NameError
			require.ErrorAs(t, m.Check(), &refused)

			data, err := artifact.EncodeJSON(m)
			require.NoError(t, err)
			hash, err := artifact.PutBlob(t.Context(), d, layout, data)
			require.NoError(t, err)
			_, err = artifact.LoadManifest(t.Context(), d, layout, hash)
			require.ErrorAs(t, err, &refused)
			require.Equal(t, entry.Path, refused.Name)

			dir := filepath.Join(t.TempDir(), "dest")
			require.ErrorAs(t, m.Restore(t.Context(), d, layout, dir, false), &refused)
			require.NoDirExists(t, dir)
			require.ErrorAs(t, m.Project(t.Context(), d, layout, "out"), &refused)
			require.ErrorAs(t, artifact.OpenWorkingCopy(d, layout, t.TempDir(), "").Apply(t.Context(), artifact.Delta{Changed: m.Files}), &refused)
			_, err = artifact.Manifest{}.Graft(t.Context(), d, layout, "out", layout, m)
			require.ErrorAs(t, err, &refused)
			_, err = artifact.NewBase(sumOfX, m, nil)
			require.ErrorAs(t, err, &refused)
		})
	}
}
