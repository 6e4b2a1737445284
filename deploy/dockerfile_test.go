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

// goVersion returns the version of Go in go.mod.
func goVersion(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "go.mod"))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(data)
	require.NotNil(t, m)
	return string(m[1])
}
