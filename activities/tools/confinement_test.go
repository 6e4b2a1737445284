package tools_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// every is each tool aimed at one path.
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

func TestNothingOutsideIsReached(t *testing.T) {
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
		for tool, told := range b.every(path) {
			if path == "" && (tool == "list_files" || tool == "search_files") {
				continue // their path has a default
			}
			require.True(t, strings.HasPrefix(told, "error: "), "%s %q: %s", tool, path, told)
			require.NotContains(t, told, "secret\n")
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

func TestPeersAreReadOnly(t *testing.T) {
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

// Opening a FIFO waits for a writer, and a device may do anything.
func TestSpecialFilesAreRefusedWithoutWaiting(t *testing.T) {
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

func TestHardLinkKeepsItsContent(t *testing.T) {
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
	require.Equal(t, "changed", b.get("e"))
	require.Equal(t, "mine", b.get("c"))
}

func TestDirectoriesAndFilesAreNotMistaken(t *testing.T) {
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
