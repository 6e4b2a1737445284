package tools_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	b := workspace(t)
	require.Equal(t, "created src/deep/a.txt (5 bytes)", b.run("write_file", "path", "src/deep/a.txt", "content", "hello"))
	require.Equal(t, "replaced src/deep/a.txt (0 bytes)", b.run("write_file", "path", "src//deep/./a.txt", "content", ""))
	require.Empty(t, b.get("src/deep/a.txt"))
	require.Contains(t, b.run("write_file", "path", "big", "content", strings.Repeat("x", 8<<20+1)), "split it")
	require.Equal(t, `created "with space.md" (1 bytes)`, b.run("write_file", "path", "with space.md", "content", "x"))

	entries, err := os.ReadDir(b.at("src/deep"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
}

func TestWrite_keepsTheMode(t *testing.T) {
	t.Parallel()
	b := workspace(t, "run.sh", "echo a")
	require.NoError(t, os.Chmod(b.at("run.sh"), 0o755))
	b.run("write_file", "path", "run.sh", "content", "echo b")
	b.run("edit_file", "path", "run.sh", "old_string", "b", "new_string", "c")
	info, err := os.Stat(b.at("run.sh"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	require.Equal(t, "echo c", b.get("run.sh"))
}

func TestEdit(t *testing.T) {
	t.Parallel()
	const code = "func a() {\n\treturn 1\n}\n\nfunc b() {\n\treturn 1\n}\n"
	for name, tc := range map[string]struct {
		old, new string
		all      bool
		says     string
		want     string // empty: unchanged
	}{
		"once":               {"func a", "func c", false, "edited f.go (line 1)", strings.Replace(code, "func a", "func c", 1)},
		"several lines":      {"{\n\treturn 1\n}\n\nfunc b", "", false, "(line 1)", "func a() () {\n\treturn 1\n}\n"},
		"all":                {"return 1", "return 2", true, "edited f.go (lines 2, 6)", strings.ReplaceAll(code, "return 1", "return 2")},
		"all of one":         {"func b", "func c", true, "edited f.go (line 5)", strings.Replace(code, "func b", "func c", 1)},
		"not unique":         {"return 1", "return 2", false, "is in f.go 2 times (lines 2, 6); add surrounding text", ""},
		"not there":          {"return 3", "return 2", false, "old_string is not in f.go; read_file it", ""},
		"other white space":  {"func b() {\n    return 1\n}", "x", false, "line 5 differs from it only in spaces or line ends", ""},
		"other line ends":    {"func b() {\r\n\treturn 1\r\n}", "x", false, "line 5 differs from it only in spaces or line ends", ""},
		"only a first line":  {"func b() {\n\treturn 7", "x", false, "its first line is like line 5", ""},
		"nothing to replace": {"", "x", false, "old_string is empty; to write a whole file use write_file", ""},
		"nothing to change":  {"func a", "func a", false, "are the same", ""},
		"too much":           {"r", strings.Repeat("r", 5<<20), true, "would grow over 8.0 MB", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := workspace(t, "f.go", code)
			result := b.run("edit_file", "path", "f.go", "old_string", tc.old, "new_string", tc.new, "replace_all", tc.all)
			require.Contains(t, result, tc.says)
			if tc.want == "" {
				require.True(t, strings.HasPrefix(result, "error: "), result)
				tc.want = code
			}
			require.Equal(t, tc.want, b.get("f.go"))
		})
	}
}

func TestEdit_refusesBinaryAndLargeFiles(t *testing.T) {
	t.Parallel()
	b := workspace(t, "bin", "a\x00b", "big", strings.Repeat("x", 8<<20+1))
	require.Contains(t, b.run("edit_file", "path", "bin", "old_string", "a", "new_string", "b"), "binary file of 3 bytes")
	require.Contains(t, b.run("edit_file", "path", "big", "old_string", "x", "new_string", "b"), "cannot be edited")
	require.Contains(t, b.run("edit_file", "path", "none", "old_string", "x", "new_string", "b"), "there is no none")
}
