package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// instruction is an instruction of a Dockerfile, on one line.
type instruction struct{ name, rest string }

type dockerfile []instruction

func readDockerfile(t *testing.T) dockerfile {
	t.Helper()
	data, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	text := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(string(data), "")
	text = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text, "")
	var d dockerfile
	for line := range strings.Lines(text) {
		if name, rest, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			d = append(d, instruction{name, strings.TrimSpace(rest)})
		}
	}
	return d
}

// all returns the arguments of the instructions of that name.
func (d dockerfile) all(name string) []string {
	var all []string
	for _, i := range d {
		if i.name == name {
			all = append(all, i.rest)
		}
	}
	return all
}

// build returns the shell command that builds the worker.
func (d dockerfile) build(t *testing.T) string {
	t.Helper()
	for _, line := range d.all("RUN") {
		line = regexp.MustCompile(`--mount=\S+\s+`).ReplaceAllString(line, "")
		if strings.Contains(line, "go build") {
			return line
		}
	}
	require.Fail(t, "no go build in the Dockerfile")
	return ""
}

// copyContext copies the build context into dir.
func copyContext(t *testing.T, dir string) {
	t.Helper()
	rules, err := os.ReadFile("Dockerfile.dockerignore")
	require.NoError(t, err)
	kept := 0
	for line := range strings.Lines(string(rules)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "!")
		if !ok {
			continue
		}
		kept++
		source, target := filepath.Join("..", path), filepath.Join(dir, path)
		info, err := os.Stat(source)
		require.NoError(t, err, "the build context has %s", path)
		require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o700))
		if info.IsDir() {
			require.NoError(t, os.CopyFS(target, os.DirFS(source)))
			continue
		}
		data, err := os.ReadFile(source)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(target, data, 0o600))
	}
	require.Positive(t, kept, "everything is ignored but what is named")
}

// goVersion returns the version of Go in go.mod.
func goVersion(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "go.mod"))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(data)
	require.NotNil(t, m)
	return string(m[1])
}
