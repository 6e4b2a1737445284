package artifact_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// find returns the paths that Find lists.
func find(t *testing.T, dir string, tracked ...string) (names []string, left []string) {
	t.Helper()
	found, warnings, err := artifact.Find(t.Context(), dir, artifact.Git{Tracked: tracked})
	require.NoError(t, err)
	for _, f := range found {
		names = append(names, f.Path)
	}
	for _, w := range warnings {
		left = append(left, w.Path)
	}
	return names, left
}

// Find lists the files that git would add.
func TestFind_asGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	files := []string{
		"a", "a.log", "keep.log", "!bang", "#hash", "space ", "b/a.log", "b/keep.log", "b/c/x", "b/c/y.tmp",
		"build/out", "sub/build/out", "sub/only/here", "only/here", "deep/a/b/c/z", "deep/z", "deep/a/z", "x/y/z",
		"class/a1", "class/b1", "class/c1", "class/-1", "class/]1", "q/ab", "q/é", "q/a/b", "star/x/keep", "star/x/y",
		"dirs/keep/f", "dirs/drop/f", "dirs/file", "two/**/x", "é.txt", "wild*card", "back\\slash", "nested/n.o", "nested/m.o",
		"nested/in/k.o", "foo/bar/baz", "foo/baz", "bar/foo/baz", "docs/a.txt", "docs/deep/a.txt", "mid/x/end", "mid/x/y/end", "mid/end",
	}
	for name, ignore := range map[string]map[string]string{
		"names":     {".gitignore": "*.log\n!keep.log\nonly\n"},
		"anchored":  {".gitignore": "/build\n/only/here\nfoo/bar\nb/*.log\n"},
		"directory": {".gitignore": "build/\na/\nfile/\n"},
		"escapes":   {".gitignore": "\\!bang\n\\#hash\nspace\\ \nwild\\*card\nback\\\\slash\n"},
		"comments":  {".gitignore": "# *.log\n\n   \n#a\n"},
		"trailing":  {".gitignore": "a   \n*.log\t\n"},
		"carriage":  {".gitignore": "\ufeff*.log\r\n!keep.log\r\n"},
		"double":    {".gitignore": "**/z\ndeep/**/c\nfoo/**\n!foo/baz\n"},
		"inside":    {".gitignore": "star/**\n!star/x\n!star/x/keep\n"},
		"contents":  {".gitignore": "dirs/*\n!dirs/keep\n"},
		"middle":    {".gitignore": "mid/**/end\n"},
		"stars":     {".gitignore": "docs/***/a.txt\nx**/y\n"},
		"classes":   {".gitignore": "class/[!ab]1\n"},
		"ranges":    {".gitignore": "class/[a-b]1\nclass/[]]1\n"},
		"posix":     {".gitignore": "class/[[:alpha:]]1\nclass/[[:digit:]-]1\n"},
		"broken":    {".gitignore": "class/[ab\n[a-\nx\\\n"},
		"bytes":     {".gitignore": "q/?\n"},
		"two bytes": {".gitignore": "q/??\n"},
		"excluded":  {".gitignore": "b/\n!b/keep.log\n"},
		"nested":    {".gitignore": "*.o\n", "nested/.gitignore": "!n.o\n/m.o\n", "nested/in/.gitignore": "!k.o\n"},
		"deeper":    {"b/.gitignore": "/c\n*.log\n", "foo/.gitignore": "bar/\n/foo\n"},
		"all":       {".gitignore": "*\n!*/\n!*.log\n!.gitignore\n"},
		"exclude":   {".git/info/exclude": "*.log\n", ".gitignore": "!keep.log\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			git := func(args ...string) string {
				cmd := exec.CommandContext(t.Context(), "git", args...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+dir+"/home")
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, string(out))
				return string(out)
			}
			git("init", "-q")
			for _, f := range files {
				writeFile(t, filepath.Join(dir, f), "x")
			}
			for f, content := range ignore {
				writeFile(t, filepath.Join(dir, f), content)
			}
			list := func(flags string) []string {
				names := strings.FieldsFunc(git("ls-files", flags, "--exclude-standard", "-z"), func(r rune) bool { return r == 0 })
				slices.Sort(names)
				return names
			}
			want := list("-co")
			got, _ := find(t, dir)
			require.Equal(t, want, got)

			below := filepath.Join(dir, "b")
			var inside []string
			for _, name := range want {
				if rest, ok := strings.CutPrefix(name, "b/"); ok {
					inside = append(inside, rest)
				}
			}
			if name == "excluded" {
				return // git lists nothing in an ignored directory; whoever names it wants its files
			}
			got, _ = find(t, below)
			require.Equal(t, inside, got, "a directory of the repository")

			git("add", "-f", "a.log", "b/keep.log", "build/out", "deep/a/b/c/z", "star/x/y", "dirs/keep/f")
			got, _ = find(t, dir, list("-ci")...)
			require.Equal(t, list("-co"), got, "ignored files that are tracked")
		})
	}
}

func TestFind_conclaveignore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, f := range []string{"a.txt", "a.log", "keep.log", "sub/b.log", "sub/c.txt", ".git/config", "sub/.git"} {
		writeFile(t, filepath.Join(dir, f), "x")
	}
	writeFile(t, filepath.Join(dir, ".gitignore"), "*.log\n")
	writeFile(t, filepath.Join(dir, ".conclaveignore"), "!keep.log\n!.git/\n*ignore\n")
	writeFile(t, filepath.Join(dir, "sub/.conclaveignore"), "c.txt\n")
	names, left := find(t, dir)
	require.Equal(t, []string{".conclaveignore", "a.txt", "keep.log"}, names)
	require.Empty(t, left)
}

// Files that git tracks are listed although .gitignore matches them, but not with their ignored
// neighbours; .conclaveignore leaves them out.
func TestFind_tracked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, f := range []string{"a.log", "b.log", "build/keep/a", "build/keep/b", "build/c", "own/a", "sub/b.log"} {
		writeFile(t, filepath.Join(dir, f), "x")
	}
	writeFile(t, filepath.Join(dir, ".gitignore"), "*.log\nbuild/\nown/\n")
	writeFile(t, filepath.Join(dir, ".conclaveignore"), "b.log\nown/\n")
	writeFile(t, filepath.Join(dir, "build/keep/.gitignore"), "!b\n")
	names, left := find(t, dir, "a.log", "b.log", "build/keep/a", "own/a", "sub/b.log", "gone/c")
	require.Equal(t, []string{".conclaveignore", ".gitignore", "a.log", "build/keep/a"}, names)
	require.Empty(t, left)
}

func TestFind_kinds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a-b"), "x")
	writeFile(t, filepath.Join(dir, "latin\xe9\n"), "x")
	writeFile(t, filepath.Join(dir, strings.Repeat("é", 100)), "a name too long for a key")
	writeFile(t, filepath.Join(dir, "peers/agent1/x"), "x")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	require.NoError(t, os.Symlink("a-b", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	names, left := find(t, dir)
	require.Equal(t, []string{"a", "a-b", "latin\xe9\n", "link", strings.Repeat("é", 100)}, names)
	require.ElementsMatch(t, []string{"fifo", "out", "peers"}, left)
}

// Directories whose names can be listed, but not opened, are named and left out.
func TestFind_unreadable(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	dir := t.TempDir()
	for _, name := range []string{"closed/a", "listed/a", "open/a"} {
		writeFile(t, filepath.Join(dir, name), "x")
	}
	for name, mode := range map[string]os.FileMode{"closed": 0, "listed": 0o444} {
		require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
		t.Cleanup(func() { require.NoError(t, os.Chmod(filepath.Join(dir, name), 0o700)) })
	}
	names, left := find(t, dir)
	require.Equal(t, []string{"open/a"}, names)
	require.Equal(t, "closed", left[0])
	require.Len(t, left, 2)
}

func TestFind_limits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "big"), "")
	require.NoError(t, os.Truncate(filepath.Join(dir, "big"), artifact.MaxBaseFileBytes+1))
	_, _, err := artifact.Find(t.Context(), dir, artifact.Git{})
	require.ErrorContains(t, err, "MB in a file")
	require.ErrorContains(t, err, ".conclaveignore")

	writeFile(t, filepath.Join(dir, ".gitignore"), "big\n")
	for i := range artifact.MaxBaseBytes/artifact.MaxBaseFileBytes + 1 {
		name := filepath.Join(dir, strings.Repeat("x", i+1))
		writeFile(t, name, "")
		require.NoError(t, os.Truncate(name, artifact.MaxBaseFileBytes))
	}
	_, _, err = artifact.Find(t.Context(), dir, artifact.Git{})
	require.ErrorContains(t, err, "more than 2.0 GB")
}

// The stage of an apply that was killed stays at home.
func TestFind_interruptedApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, ".conclave-apply/new0"), "x")
	writeFile(t, filepath.Join(dir, "sub/.conclave-apply"), "x")
	names, left := find(t, dir)
	require.Empty(t, names)
	require.Equal(t, []string{".conclave-apply", "sub/.conclave-apply"}, left)
}
