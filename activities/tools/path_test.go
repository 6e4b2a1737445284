//go:build unix

package tools_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/llm"
)

// every calls each tool on one path.
func (b bench) every(path string) map[string]string {
	return map[string]string{
		"read_file":      b.run("read_file", "path", path),
		"write_file":     b.run("write_file", "path", path, "content", "mine"),
		"edit_file":      b.run("edit_file", "path", path, "old_string", "secret", "new_string", "mine"),
		"list_files":     b.run("list_files", "path", path),
		"search_files":   b.run("search_files", "path", path, "pattern", "secret"),
		"copy_path from": b.run("copy_path", "from", path, "to", "stolen"),
		"copy_path to":   b.run("copy_path", "from", "a.txt", "to", path),
	}
}

func TestFiles_nothingOutsideIsReached(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "f"), []byte("secret"), 0o644))
	b := workspace(t, "a.txt", "harmless", "dir/b.txt", "harmless")
	require.NoError(t, os.Symlink(outside, b.at("out")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "f"), b.at("outfile")))
	require.NoError(t, os.Symlink("../../..", b.at("dir/up")))
	rel, err := filepath.Rel(b.dir, outside)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(rel+"/f", b.at("relative")))

	for _, path := range []string{
		"..", "../x", "dir/../../x", "/etc/passwd", outside + "/f", "out/f", "out/new", "outfile", "relative",
		"dir/up/etc/passwd", "", " ", "a\x00b",
	} {
		for tool, result := range b.every(path) {
			if path == "" && (tool == "list_files" || tool == "search_files") {
				continue // their path has a default
			}
			require.True(t, strings.HasPrefix(result, "error: "), "%s %q: %s", tool, path, result)
			require.NotContains(t, result, "secret\n")
		}
	}
	content, err := os.ReadFile(filepath.Join(outside, "f"))
	require.NoError(t, err)
	require.Equal(t, "secret", string(content))
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoFileExists(t, b.at("stolen"))

	require.Equal(t, "[no matches in .]", b.run("search_files", "pattern", "secret"), "links are not followed")
	require.Contains(t, b.run("list_files", "glob", "**"), "outfile -> ")
}

func TestFiles_peersAreReadOnly(t *testing.T) {
	t.Parallel()
	b := workspace(t, "peers/agent2/answer.md", "theirs", "a.txt", "mine")
	require.NoError(t, os.Symlink("peers/agent2", b.at("theirs")))
	require.NoError(t, os.Symlink("peers/agent2/answer.md", b.at("link.md")))
	for _, path := range []string{
		"peers/agent2/answer.md", "peers/agent2/new.md", "peers/new", "peers", "./peers/x", "a/../peers/x", "Peers/x",
		"theirs/answer.md", "theirs/new.md", "link.md",
	} {
		require.Contains(t, b.run("write_file", "path", path, "content", "x"), "error: ", path)
		require.Contains(t, b.run("edit_file", "path", path, "old_string", "theirs", "new_string", "x"), "error: ", path)
		require.Contains(t, b.run("copy_path", "from", "a.txt", "to", path), "error: ", path)
	}
	require.Equal(t, "theirs", b.get("peers/agent2/answer.md"))
	entries, err := os.ReadDir(b.at("peers/agent2"))
	require.NoError(t, err)
	require.Len(t, entries, 1)

	require.Contains(t, b.run("write_file", "path", "peers/x", "content", "x"), "peers/ holds the files of the answers shown; copy_path")
	require.Equal(t, "theirs", b.run("read_file", "path", "peers/agent2/answer.md"))
	require.Equal(t, "theirs", b.run("read_file", "path", "link.md"), "reading by a link inside is fine")
}

// Opening a FIFO blocks until there is a writer, and opening a device may have any effect.
func TestFiles_specialFilesAreRefusedWithoutBlocking(t *testing.T) {
	t.Parallel()
	b := workspace(t, "a.txt", "x")
	require.NoError(t, syscall.Mkfifo(b.at("fifo"), 0o644))
	socket, err := net.Listen("unix", b.at("s"))
	if err == nil {
		t.Cleanup(func() { _ = socket.Close() })
	}
	require.NoError(t, os.Symlink("fifo", b.at("to_fifo")))

	require.Contains(t, b.run("read_file", "path", "fifo"), "not a regular file")
	require.Contains(t, b.run("read_file", "path", "to_fifo"), "not a regular file")
	require.Contains(t, b.run("write_file", "path", "fifo", "content", "x"), "not a regular file")
	require.Contains(t, b.run("edit_file", "path", "fifo", "old_string", "x", "new_string", "y"), "not a regular file")
	require.Contains(t, b.run("copy_path", "from", "fifo", "to", "y"), "not a regular file")
	require.Contains(t, b.run("copy_path", "from", "a.txt", "to", "fifo"), "not a regular file")
	require.Contains(t, b.run("search_files", "path", "fifo", "pattern", "x"), "not a regular file")
	require.Equal(t, "a.txt:1: x\n", b.run("search_files", "pattern", "x"))
	require.Contains(t, b.run("list_files"), "fifo (not a regular file)\n")
}

func TestFiles_writesKeepTheContentOfHardLinks(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(outside, []byte("original"), 0o644))
	b := workspace(t, "a.txt", "mine")
	for _, name := range []string{"w", "e", "c"} {
		require.NoError(t, os.Link(outside, b.at(name)))
	}
	b.run("write_file", "path", "w", "content", "changed")
	b.run("edit_file", "path", "e", "old_string", "original", "new_string", "changed")
	b.run("copy_path", "from", "a.txt", "to", "c")

	content, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "original", string(content))
	require.Equal(t, "changed", b.get("w"))
	require.Equal(t, "original", b.get("e"), "an unreadable file cannot be edited")
	require.Equal(t, "mine", b.get("c"))
}

// A file with several names may also lie outside of the workspace. Commands in the sandbox cannot make such
// files, but programs outside can.
func TestFiles_hardLinksAreNotRead(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o644))
	b := workspace(t, "a.txt", "mine", "dir/b.txt", "x")
	require.NoError(t, os.Link(outside, b.at("dir/link")))
	require.NoError(t, os.Link(b.at("a.txt"), b.at("both")))

	for _, path := range []string{"dir/link", "a.txt", "both"} {
		for tool, call := range map[string]string{
			"read": b.run("read_file", "path", path), "search": b.run("search_files", "path", path, "pattern", "."),
			"copy": b.run("copy_path", "from", path, "to", "new"), "edit": b.run("edit_file", "path", path, "old_string", "s", "new_string", "t"),
		} {
			require.Contains(t, call, path+" has several names (hard links)", tool)
			require.Contains(t, call, "with cp", "a way out")
		}
	}
	require.Equal(t, "[no matches in .]", b.run("search_files", "pattern", "secret|mine"))
	require.Contains(t, b.run("copy_path", "from", "dir", "to", "copies"), "several names")
	require.NoFileExists(t, b.at("new"))

	require.NoError(t, os.Remove(b.at("both")))
	require.Equal(t, "mine", b.run("read_file", "path", "a.txt"), "a file with one name is readable")
}

// The files of a step are readable: restoring them makes no hard links, not even to the cache.
func TestFiles_restoredFilesHaveOneName(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	cached, err := artifact.NewCache(store, t.TempDir(), 1<<20)
	require.NoError(t, err)
	layout := artifact.InBucket("s1")
	from := workspace(t, "a.txt", "text")
	m, _, err := artifact.OpenWorkingCopy(cached, layout, from.dir, "").Seal(t.Context())
	require.NoError(t, err)

	b := workspace(t)
	for _, dir := range []string{"peers/agent1", "peers/agent2", "mine"} {
		require.NoError(t, m.Tree(nil).Restore(t.Context(), cached, layout, b.at(dir), strings.HasPrefix(dir, "peers")))
		require.Equal(t, "text", b.run("read_file", "path", dir+"/a.txt"))
	}
	t.Cleanup(func() { require.NoError(t, filelock.RemoveTree(b.at("peers"))) })
}

// Files of /proc have the size 0 and content of any length.
func TestFiles_withoutASizeAreBounded(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/kallsyms"); err != nil {
		t.Skip("no /proc here")
	}
	proc, err := tools.Open(t.Context(), "/proc", tools.Set{Files: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = proc.Close() })
	out, err := proc.Run(t.Context(), llm.ToolCall{Name: "read_file", Arguments: `{"path": "kallsyms"}`})
	require.NoError(t, err)
	require.NotEmpty(t, out.Text)
	require.Less(t, len(out.Text), 50<<10)
}

// Reading a growing file ends at the limit of a result.
func TestFiles_growingFileIsBounded(t *testing.T) {
	t.Parallel()
	b := workspace(t, "log", numbered(10))
	grow, err := os.OpenFile(b.at("log"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = grow.WriteString(strings.Repeat("more\n", 1000))
			}
		}
	}()
	result := b.run("read_file", "path", "log")
	close(stop)
	<-stopped
	require.NoError(t, grow.Close())
	require.True(t, strings.HasPrefix(result, "line 1\n"))
	require.LessOrEqual(t, strings.Count(result, "\n"), 2001)
}

func TestFiles_directoryInsteadOfFile(t *testing.T) {
	t.Parallel()
	b := workspace(t, "dir/f", "x", "a.txt", "y")
	require.Contains(t, b.run("read_file", "path", "dir"), "dir is a directory; list_files")
	require.Contains(t, b.run("write_file", "path", "dir", "content", ""), "dir is a directory")
	require.Contains(t, b.run("write_file", "path", "new/", "content", ""), "names a directory")
	require.Contains(t, b.run("write_file", "path", ".", "content", ""), "the workspace itself")
	require.Contains(t, b.run("edit_file", "path", "dir", "old_string", "a", "new_string", "b"), "dir is a directory")
	require.Contains(t, b.run("write_file", "path", "a.txt/b", "content", ""), "a.txt is a file")
	require.Contains(t, b.run("read_file", "path", "a.txt/b"), "error: ")
	require.Contains(t, b.run("read_file", "path", "nowhere/b"), "there is no nowhere/b; list_files")
	require.Contains(t, b.run("read_file", "path", strings.Repeat("x", 300)), "too long")
	require.Equal(t, "a.txt (1 bytes)\n", b.run("list_files", "path", "a.txt"))
}
