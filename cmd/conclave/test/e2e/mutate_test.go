//go:build e2e

package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// library is the source of a public package with its tests.
type library struct {
	name    string
	dir     string   // of the source
	sources []string // the files that get bugs; names, relative to dir
	test    []string // the command that runs the tests
	env     []string // further variables of that command
}

// bug is one mutated line of a library, with its neighbours, as they are and as they were.
type bug struct{ file, broken, right string }

// operators are replacements within a line, each of which usually changes its meaning.
var operators = [][2]string{
	{" == ", " != "},
	{" != ", " == "},
	{" === ", " !== "},
	{" !== ", " === "},
	{" < ", " >= "},
	{" > ", " <= "},
	{" <= ", " > "},
	{" >= ", " < "},
	{" && ", " || "},
	{" || ", " && "},
	{" and ", " or "},
	{" or ", " and "},
	{" + 1", " - 1"},
	{"+1", "-1"},
	{" - 1", " + 1"},
	{"++", "--"},
	{"return true", "return false"},
	{"return false", "return true"},
	{"if not ", "if "},
	{" not in ", " in "},
	{"true;", "false;"},
	{"false;", "true;"},
}

// sites returns all mutations of a source, without those in comments.
func sites(file, source string) []bug {
	var found []bug
	lines := strings.SplitAfter(source, "\n")
	for i := 1; i+1 < len(lines); i++ {
		if code := strings.TrimSpace(lines[i]); strings.HasPrefix(code, "//") || strings.HasPrefix(code, "#") || strings.HasPrefix(code, "*") {
			continue
		}
		for _, o := range operators {
			if strings.Count(lines[i], o[0]) != 1 {
				continue
			}
			broken := lines[i-1] + strings.Replace(lines[i], o[0], o[1], 1) + lines[i+1]
			right := lines[i-1] + lines[i] + lines[i+1]
			if strings.Count(source, right) == 1 && !strings.Contains(source, broken) {
				found = append(found, bug{file: file, broken: broken, right: right})
			}
		}
	}
	return found
}

// bugs returns the first n mutations, in an order that is the same every time, with which the
// library's tests fail.
func (l library) bugs(t *testing.T, n int) []bug {
	t.Helper()
	var all []bug
	for _, file := range l.sources {
		source, err := os.ReadFile(filepath.Join(l.dir, file))
		require.NoError(t, err)
		all = append(all, sites(file, string(source))...)
	}
	order := rand.New(rand.NewPCG(19, 20))
	order.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var found []bug
	for _, b := range all {
		dir := t.TempDir()
		l.place(t, dir, b)
		if passes, out := l.passes(t, dir); !passes && !strings.Contains(out, "[build failed]") && !strings.Contains(out, "SyntaxError") {
			if found = append(found, b); len(found) == n {
				return found
			}
		}
	}
	require.Fail(t, "too few mutations make a test of "+l.name+" fail")
	return nil
}

// place copies the library, with the bug, into an empty directory.
func (l library) place(t *testing.T, dir string, b bug) {
	t.Helper()
	require.NoError(t, os.CopyFS(dir, os.DirFS(l.dir)))
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error { // the module cache is read-only
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		return os.Chmod(path, info.Mode().Perm()|0o200)
	}))
	name := filepath.Join(dir, b.file)
	source, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, []byte(strings.Replace(string(source), b.right, b.broken, 1)), 0o644))
}

// testTime bounds the tests of a library: a bug may make them go on for ever.
const testTime = 2 * time.Minute

// passes reports whether the tests of a copy of the library pass.
func (l library) passes(t *testing.T, dir string) (bool, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.test[0], l.test[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, slices.Concat(os.Environ(), l.env), time.Second
	out, err := cmd.CombinedOutput()
	return err == nil, string(out)
}
