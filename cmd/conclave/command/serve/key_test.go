package serve

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
)

// The file never has a key, only its hash.
func TestKey(t *testing.T) {
	shell := stage.NewShell(t, func(c *cli.CLI) []*cobra.Command { return Commands(c, nil, nil) })
	code, line, said := shell.Run("serve", "key", "alice", "--teams", "default,reviewers", "--requests-per-minute", "30", "--usd-per-day", "2.5")
	require.Equal(t, cli.ExitOK, code, said)
	require.Regexp(t, `^alice:[0-9a-f]{64}:default,reviewers:30:2.5\n$`, line)
	_, key, found := strings.Cut(strings.TrimSpace(said), "shown only now: ")
	require.True(t, found, said)
	require.NotContains(t, line, key)

	file := filepath.Join(shell.Home, "keys")
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	keys, err := access.LoadKeys(file)
	require.NoError(t, err)
	caller, ok := keys.Find(key)
	require.True(t, ok)
	require.Equal(t, access.Caller{Name: "alice", Teams: []string{"default", "reviewers"}, PerMinute: 30, USDPerDay: 2.5}, caller)

	code, out, said := shell.Run("serve", "key", "ci", "--json")
	require.Equal(t, cli.ExitOK, code)
	require.Empty(t, said)
	var made madeKey
	require.NoError(t, json.Unmarshal([]byte(out), &made))
	require.NotEmpty(t, made.Key)
	require.Contains(t, made.Line, "ci:")
}

func TestKey_refuses(t *testing.T) {
	shell := stage.NewShell(t, func(c *cli.CLI) []*cobra.Command { return Commands(c, nil, nil) })
	for want, args := range map[string][]string{
		"needs NAME":             {},
		`the name "a:b"`:         {"a:b"},
		`the team "x:y"`:         {"alice", "--teams", "x:y"},
		"a limit is below 0":     {"alice", "--usd-per-day", "-1"},
		"invalid argument \"x\"": {"alice", "--requests-per-minute", "x"},
	} {
		code, _, said := shell.Run(append([]string{"serve", "key"}, args...)...)
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, said, want)
	}
}

// A server that others can reach is refused before anything starts.
func TestServe_refuses(t *testing.T) {
	shell := stage.NewShell(t, func(c *cli.CLI) []*cobra.Command { return Commands(c, nil, nil) })
	for want, args := range map[string][]string{
		"name a file of keys with --keys": {"--offline", "--listen", "0.0.0.0:8333"},
		"give the address as HOST:PORT":   {"--offline", "--listen", "8333"},
		"conclave serve key NAME >> none": {"--offline", "--keys", "none"},
		"--bucket":                        {"--offline", "--address", "127.0.0.1:1"},
		"OPENAI_API_KEY":                  {},
	} {
		code, _, said := shell.Run(append([]string{"serve"}, args...)...)
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, said, want)
	}
}
