package patch_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/files/patch"
)

// tree is files by path.
type tree map[string]patch.File

func (t tree) files() []patch.File {
	var files []patch.File
	for _, path := range slices.Sorted(maps.Keys(t)) {
		f := t[path]
		f.Path = path
		files = append(files, f)
	}
	return files
}

func regular(content string) patch.File {
	return patch.File{Mode: patch.Regular, Content: []byte(content)}
}

func executable(content string) patch.File {
	return patch.File{Mode: patch.Executable, Content: []byte(content)}
}

var folder = patch.File{Mode: patch.Dir} // an empty directory

func link(target string) patch.File { return patch.File{Mode: patch.Link, Content: []byte(target)} }

// place writes the tree into an empty directory.
func (t tree) place(tb require.TestingT, dir string) {
	for path, f := range t {
		name := filepath.Join(dir, path)
		require.NoError(tb, os.MkdirAll(filepath.Dir(name), 0o700))
		switch f.Mode {
		case patch.Dir:
			require.NoError(tb, os.MkdirAll(name, 0o700))
		case patch.Link:
			require.NoError(tb, os.Symlink(string(f.Content), name))
		case patch.Executable:
			require.NoError(tb, os.WriteFile(name, f.Content, 0o700)) //nolint:gosec // executable
		default:
			require.NoError(tb, os.WriteFile(name, f.Content, 0o600))
		}
	}
}

// read returns the tree in a directory.
func read(tb require.TestingT, dir string) tree {
	t := tree{}
	require.NoError(tb, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		path, _ := filepath.Rel(dir, name)
		if err == nil && d.IsDir() {
			entries, err := os.ReadDir(name)
			if len(entries) == 0 && path != "." {
				t[path] = folder
			}
			return err
		}
		require.NoError(tb, err)
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(name)
			t[path] = link(target)
			return err
		}
		info, err := d.Info()
		require.NoError(tb, err)
		content, err := os.ReadFile(name)
		t[path] = regular(string(content))
		if info.Mode()&0o100 != 0 {
			t[path] = executable(string(content))
		}
		return err
	}))
	return t
}

func written(tb require.TestingT, changes []patch.Change) []byte {
	var b bytes.Buffer
	require.NoError(tb, patch.Write(&b, changes, patch.Style{}))
	return b.Bytes()
}

// run runs a program in dir with the patch as its standard input.
func run(tb require.TestingT, dir string, input []byte, program string, args ...string) {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(tb, err, "%s\n%s", out, input)
}

var before = tree{
	"kept.go": regular("package kept\n"), "main.go": regular("package main\n\nfunc main() {\n\tprintln(1)\n}\n"),
	"no newline": regular("a\nb"), "crlf.txt": regular("a\r\nb\r\nc\r\n"), "run.sh": regular("#!/bin/sh\n"),
	"old/name.go": regular("package name\n\n// One.\n// Two.\n// Three.\n"), "gone.txt": regular("gone\n"), "empty": regular(""),
	"picture.png": regular("\x89PNG\x00\x01\x02"), "nä\"me\n.txt": regular("x\n"), "link": link("kept.go"), "becomes-link": regular("kept.go"),
}

var after = tree{
	"kept.go": regular("package kept\n"), "main.go": regular("package main\n\nfunc main() {\n\tprintln(2)\n}\n"),
	"no newline": regular("a\nb\nc"), "crlf.txt": regular("a\r\nB\r\nc\r\n"), "run.sh": executable("#!/bin/sh\n"),
	"new/name.go": regular("package name\n\n// One.\n// Two.\n// Four.\n"), "new file": regular("new\n"), "new-empty": regular(""),
	"picture.png": regular("\x89PNG\x00\x03"), "nä\"me\n.txt": regular("y\n"), "link": link("main.go"), "becomes-link": link("kept.go"),
	"tool": executable("#!/bin/sh\necho\n"), "latin1": regular("caf\xe9\n"),
}

// git apply turns the old tree into the new one, and git apply -R reverts it.
func TestWrite_gitApplies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before.place(t, dir)
	p := written(t, patch.Changes(context.Background(), before.files(), after.files()))
	run(t, dir, p, "git", "apply", "--whitespace=nowarn")
	require.Equal(t, after, read(t, dir))
	run(t, dir, p, "git", "apply", "--whitespace=nowarn", "-R")
	require.Equal(t, before, read(t, dir))
}

// patch -p1 applies all changes except those of binary files.
func TestWrite_patchApplies(t *testing.T) {
	t.Parallel()
	from, to := maps.Clone(before), maps.Clone(after)
	for _, path := range []string{"picture.png"} {
		delete(from, path)
		delete(to, path)
	}
	from["a name"], to["another name"] = regular("one\n"), regular("one\n")
	dir := t.TempDir()
	from.place(t, dir)
	run(t, dir, written(t, patch.Changes(context.Background(), from.files(), to.files())), "patch", "-p1", "--no-backup-if-mismatch", "--binary")
	require.Equal(t, to, read(t, dir))
}

// patch -p1 and git apply accept names with spaces and renames without a changed line.
func TestWrite_namesWithSpaces(t *testing.T) {
	t.Parallel()
	from := tree{"old name": regular("1\n2\n"), "trail ": regular("x\n"), "a mode": regular("y\n"), "an empty one": regular(""), "go ne": regular("z\n")}
	to := tree{"new\tna me": regular("1\n2\n"), "trail ": regular("X\n"), "a mode": executable("y\n"), "new empty": regular(""), " n\u00e9w ": executable("new\n")}
	p := written(t, patch.Changes(context.Background(), from.files(), to.files()))
	require.Contains(t, string(p), "rename from \"old name\"\n")
	for _, program := range [][]string{{"git", "apply", "-p1"}, {"patch", "-p1"}} {
		dir := t.TempDir()
		from.place(t, dir)
		run(t, dir, p, program[0], program[1:]...)
		require.Equal(t, to, read(t, dir), program[0])
	}
}

func TestWrite_text(t *testing.T) {
	t.Parallel()
	from := tree{"a.go": regular("one\ntwo\n"), "b b.go": regular("1\n2\n3\n4\n"), "c": regular("x\n")}
	to := tree{"a.go": executable("one\n2\n"), "d d.go": regular("1\n2\n3\n5\n"), "e": regular("new")}
	require.Equal(t, `diff --git a/a.go b/a.go
old mode 100644
new mode 100755
index 814f4a422927b82f5f8a43f8fab6d3839e3983f2..99b356dcd03dde0755c749bcd4cae4b2b73a8fa8
--- a/a.go
+++ b/a.go
@@ -1,2 +1,2 @@
 one
-two
+2
diff --git a/c b/c
deleted file mode 100644
index 587be6b4c3f93f93c489c0111bba5596147a26cb..0000000000000000000000000000000000000000
--- a/c
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git "a/b b.go" "b/d d.go"
similarity index 75%
rename from "b b.go"
rename to "d d.go"
index 94ebaf900161394059478fd88aec30e59092a1d7..e0d13b09c85b36934c6ed353e8f800a096891351 100644
--- "a/b b.go"
+++ "b/d d.go"
@@ -1,4 +1,4 @@
 1
 2
 3
-4
+5
diff --git a/e b/e
new file mode 100644
index 0000000000000000000000000000000000000000..3e5126c4e761fd09582fc517918a1601b218dff0
--- /dev/null
+++ b/e
@@ -0,0 +1 @@
+new
\ No newline at end of file
`, string(written(t, patch.Changes(context.Background(), from.files(), to.files()))))
}

// git apply turns any tree into any other, and so does patch -p1 without binary files.
func TestWrite_anyTrees(t *testing.T) {
	t.Parallel()
	name := rapid.StringOfN(rapid.SampledFrom([]rune("ab \"\\ä\n\t-+=*?[")), 1, 6, -1)
	line := rapid.SampledFrom([]string{"one", "two", "three", "", "\tx", "a\r", "\xff\xfe", "--- a", "+++ b", "@@ -1 +1 @@", "\\ No newline"})
	content := rapid.Custom(func(t *rapid.T) []byte {
		text := strings.Join(rapid.SliceOfN(line, 0, 12).Draw(t, "lines"), "\n")
		if rapid.Bool().Draw(t, "newline") {
			text += "\n"
		}
		if rapid.IntRange(0, 9).Draw(t, "binary") == 0 {
			text += "\x00\x01" + strings.Repeat("\xfe", rapid.IntRange(0, 200).Draw(t, "bytes"))
		}
		return []byte(text)
	})
	some := rapid.Custom(func(t *rapid.T) tree {
		files := tree{}
		for i := range rapid.IntRange(0, 6).Draw(t, "files") {
			path := fmt.Sprintf("d%d/%s", i%3, strings.Trim(name.Draw(t, "name"), "/")+"x")
			files[path] = patch.File{Mode: rapid.SampledFrom([]patch.Mode{patch.Regular, patch.Executable}).Draw(t, "mode"), Content: content.Draw(t, "content")}
		}
		return files
	})
	root := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		from, to := some.Draw(t, "from"), some.Draw(t, "to")
		for path, f := range from { // some files stay, change or move
			switch rapid.IntRange(0, 4).Draw(t, "what happens") {
			case 0:
				to[path] = f
			case 1:
				to[path] = patch.File{Mode: f.Mode, Content: append(slices.Clone(f.Content), "more\n"...)}
			case 2:
				to[path+"moved"] = f
			}
		}
		programs := [][]string{{"git", "apply", "--whitespace=nowarn"}, {"patch", "-p1", "--binary", "-s"}}
		p := written(t, patch.Changes(context.Background(), from.files(), to.files()))
		switch {
		case len(p) == 0:
			return
		case bytes.Contains(p, []byte("\nGIT binary patch\n")):
			programs = programs[:1]
		}
		for _, program := range programs {
			runs++
			dir := filepath.Join(root, fmt.Sprint(runs))
			require.NoError(t, os.Mkdir(dir, 0o700))
			from.place(t, dir)
			run(t, dir, p, program[0], program[1:]...)
			require.Equal(t, normal(to), normal(read(t, dir)), program[0])
		}
	})
}

// normal makes empty contents comparable.
func normal(t tree) map[string]string {
	out := map[string]string{}
	for path, f := range t {
		out[path] = string(f.Mode) + string(f.Content)
	}
	return out
}

func TestFormatStats(t *testing.T) {
	t.Parallel()
	got := patch.FormatStats(patch.Stats(patch.Changes(context.Background(), before.files(), after.files())), 60)
	require.Contains(t, got, " main.go                    |     2 +-\n")
	require.Contains(t, got, " picture.png                | Bin 7 -> 6 bytes\n")
	require.Contains(t, got, " old/name.go => new/name.go |     2 +-\n")
	require.Contains(t, got, " 15 files changed, ")
	for line := range strings.Lines(got) {
		require.LessOrEqual(t, len([]rune(line)), 61, line)
	}
}
