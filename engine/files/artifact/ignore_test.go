package artifact_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

func paths(m artifact.Manifest) []string {
	var paths []string
	for _, f := range m.Files {
		paths = append(paths, f.Path)
	}
	return paths
}

func TestIgnoreFile_defaults(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	dir := t.TempDir()
	for _, name := range []string{
		".git/config", "app/node_modules/left/pad.js", ".venv/bin/python", "src/__pycache__/x.pyc", "src/y.pyc", ".DS_Store",
		"command-output/001.txt", "tool-results/mcp__a__b-1.txt",
	} {
		writeFile(t, filepath.Join(dir, name), "x")
	}
	writeFile(t, filepath.Join(dir, "src/.git"), "a file of that name")
	writeFile(t, filepath.Join(dir, "src/app.py"), "print()")
	writeFile(t, filepath.Join(dir, "src/tool-results/kept"), "the agent's own")
	m, _, warnings := seal(t, d, dir)
	require.Len(t, warnings, 1, "the patterns are of directories")
	require.Equal(t, "src/.git", warnings[0].Path)
	require.Equal(t, []string{"src/app.py", "src/tool-results/kept"}, paths(m))
}

func TestIgnoreFile(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, artifact.IgnoreFile), "# built\n/build/\n*.log\r\n!keep.log\n\n!node_modules/\n")
	for _, name := range []string{"build/out", "sub/build/kept", "a.log", "sub/b.log", "keep.log", "node_modules/kept.js"} {
		writeFile(t, filepath.Join(dir, name), "x")
	}
	m, _, _ := seal(t, d, dir)
	require.Equal(t, []string{artifact.IgnoreFile, "keep.log", "node_modules/kept.js", "sub/build/kept"}, paths(m))
}

// Malformed patterns match nothing.
func TestIgnoreFile_untrusted(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"binary":    "\x00\xff\xfe[[[\n",
		"brackets":  "[a-\n**[\n\\\n!\n/\n",
		"long line": string(make([]byte, 1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDir(t, t.TempDir())
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, artifact.IgnoreFile), content)
			writeFile(t, filepath.Join(dir, "kept"), "x")
			m, _, _ := seal(t, d, dir)
			require.Contains(t, paths(m), "kept")
		})
	}
}

// The ignore file at the top cannot exclude itself.
func TestIgnoreFile_cannotExcludeItself(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"by name": ".conclaveignore\n*.log\n", "by pattern": ".*\n*.log\n", "all": "*\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDir(t, t.TempDir())
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, artifact.IgnoreFile), content)
			writeFile(t, filepath.Join(dir, "sub.log", artifact.IgnoreFile), content)
			writeFile(t, filepath.Join(dir, "a.log"), "x")
			m, _, _ := seal(t, d, dir)
			require.Contains(t, paths(m), artifact.IgnoreFile)
			require.NotContains(t, paths(m), "a.log")
			require.NotContains(t, paths(m), "sub.log/"+artifact.IgnoreFile)
		})
	}
}
