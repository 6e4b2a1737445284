package tools_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCopy(t *testing.T) {
	t.Parallel()
	b := workspace(t, "peers/agent2/answer.md", "theirs", "peers/agent2/src/run.sh", "echo", "answer.md", "mine", "kept", "kept", "dir/f", "x")
	require.NoError(t, os.Chmod(b.at("peers/agent2/src/run.sh"), 0o555))
	require.NoError(t, os.Symlink("src/run.sh", b.at("peers/agent2/go")))

	require.Equal(t, "copied 3 files from peers/agent2 to . (10 bytes)", b.run("copy_path", "from", "peers/agent2", "to", "."))
	require.Equal(t, "theirs", b.get("answer.md"))
	require.Equal(t, "kept", b.get("kept"))
	require.Equal(t, "echo", b.get("src/run.sh"))
	target, err := os.Readlink(b.at("go"))
	require.NoError(t, err)
	require.Equal(t, "src/run.sh", target)
	info, err := os.Stat(b.at("src/run.sh"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm(), "a copy can be changed and still be run")
	require.Contains(t, b.run("edit_file", "path", "src/run.sh", "old_string", "echo", "new_string", "true"), "edited")
	require.Equal(t, "echo", b.get("peers/agent2/src/run.sh"))

	require.Contains(t, b.run("copy_path", "from", "peers/agent2", "to", "."), "copied 3 files", "a second time, too")
	require.Equal(t, "copied answer.md to new/a.md (6 bytes)", b.run("copy_path", "from", "answer.md", "to", "new/a.md"))
	require.Equal(t, "copied answer.md to dir/answer.md (6 bytes)", b.run("copy_path", "from", "answer.md", "to", "dir"))
	require.Equal(t, "copied answer.md to other/answer.md (6 bytes)", b.run("copy_path", "from", "answer.md", "to", "other/"))
	require.Equal(t, "copied peers/agent2/answer.md to answer.md (6 bytes)", b.run("copy_path", "from", "peers/agent2/answer.md", "to", "."))
}

func TestCopy_refuses(t *testing.T) {
	t.Parallel()
	b := workspace(t, "a.txt", "x", "dir/sub/f", "x", "clash/dir", "a file", "peers/agent1/peers/f", "x")
	require.NoError(t, os.Mkdir(b.at("void"), 0o755))
	for says, pair := range map[string][2]string{
		"onto itself":              {"a.txt", "./a.txt"},
		"onto itself ":             {"a.txt", "."},
		"into itself":              {"dir", "dir"},
		"dir cannot be copied":     {"dir", "dir/sub/copy"},
		". cannot be copied":       {".", "dir"},
		"there is no nowhere":      {"nowhere", "x"},
		"no files to copy in void": {"void", "x"},
		"dir is a directory":       {"clash", "."},
		"peers/f is read-only":     {"peers/agent1", "."},
		"leads out":                {"a.txt", "../x"},
		"a.txt is a file":          {"dir", "a.txt"},
	} {
		result := b.run("copy_path", "from", pair[0], "to", pair[1])
		require.Regexp(t, "^error: ", result)
		require.Contains(t, result+" ", says)
	}
}

func TestCopy_leavesOutLinksToTheOutside(t *testing.T) {
	t.Parallel()
	b := workspace(t, "peers/agent1/f", "x", "secret", "s")
	for name, target := range map[string]string{"abs": "/etc/passwd", "up": "../../secret", "out": "../../../x", "self": "."} {
		require.NoError(t, os.Symlink(target, b.at("peers/agent1/"+name)))
	}
	result := b.run("copy_path", "from", "peers/agent1", "to", "copy")
	require.Equal(t, "copied 1 file from peers/agent1 to copy (1 bytes); left out 4 that are not files inside it: "+
		"peers/agent1/abs, peers/agent1/out, peers/agent1/self, peers/agent1/up", result)
	entries, err := os.ReadDir(b.at("copy"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestCopy_refusedCopyLeavesNoPart(t *testing.T) {
	t.Parallel()
	b := workspace(t, "tree/a", "x", "tree/z", "x", "to/z/in_the_way", "x")
	require.Contains(t, b.run("copy_path", "from", "tree", "to", "to"), "to/z is a directory")
	require.NoFileExists(t, b.at("to/a"))
}
