package directory

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// session is a session directory on disk.
type sessionDirectory struct {
	t    *testing.T
	dir  string
	root *os.Root
}

// newSession creates a session directory with files by path. A path that ends in "/" is that of a
// directory.
func newSession(t *testing.T, files map[string]string) sessionDirectory {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	s := sessionDirectory{t: t, dir: dir, root: root}
	for name, content := range files {
		s.write(name, content)
	}
	return s
}

func (s sessionDirectory) path(name string) string {
	return filepath.Join(s.dir, filepath.FromSlash(name))
}

func (s sessionDirectory) write(name, content string) {
	s.t.Helper()
	if strings.HasSuffix(name, "/") {
		require.NoError(s.t, os.MkdirAll(s.path(name), 0o755))
		return
	}
	require.NoError(s.t, os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	require.NoError(s.t, os.WriteFile(s.path(name), []byte(content), 0o644))
}

func (s sessionDirectory) link(target, name string) {
	s.t.Helper()
	require.NoError(s.t, os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	require.NoError(s.t, os.Symlink(target, s.path(name)))
}

// read reads the directory and returns the warnings as "path: problem".
func (s sessionDirectory) read() (Directory, []string) {
	s.t.Helper()
	d, warnings, err := Read(s.root)
	require.NoError(s.t, err)
	told := []string{}
	for _, w := range warnings {
		told = append(told, w.String())
	}
	return d, told
}

// clean reads a directory and requires that there are no warnings.
func (s sessionDirectory) clean() Directory {
	s.t.Helper()
	d, warnings := s.read()
	require.Empty(s.t, warnings)
	return d
}

func answerJSON(text string) string { return fmt.Sprintf(`{"answer": %q}`, text) }

// vote returns a vote.json. seen has pairs such as "agent_a:1".
func vote(target string, seen ...string) string {
	var pairs []string
	for _, pair := range seen {
		id, step, _ := strings.Cut(pair, ":")
		pairs = append(pairs, fmt.Sprintf("%q: %s", id, step))
	}
	return fmt.Sprintf(`{"target": %q, "reason": "because", "seen_steps": {%s}}`, target, strings.Join(pairs, ", "))
}

func stop(status string, seen ...string) string {
	v := vote("x", seen...)
	return fmt.Sprintf(`{"status": %q, "summary": "done", %s`, status, v[strings.Index(v, `"seen_steps"`):])
}

// latest returns the text of an agent's latest answer.
func latest(t *testing.T, d Directory, id string) string {
	t.Helper()
	a, ok := d.Agent(id)
	require.True(t, ok)
	answer, ok := a.newest()
	require.True(t, ok)
	return answer.Text
}

// newest returns the agent's latest answer since the team last restarted.
func (a agent) newest() (answer, bool) {
	if !a.hasAnswered() {
		return answer{}, false
	}
	return a.Answers[len(a.Answers)-1], true
}
