//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Bad input is refused before anything starts: exit code 1, a message with the position and the
// remedy, and an empty home. The tests of package main have all kinds of it.
func TestBadInput(t *testing.T) {
	t.Parallel()
	nobody := freeAddress(t)
	tests := []struct {
		name, config string
		args         []string
		says         []string
	}{
		{name: "no key", args: []string{"run", "Why?"}, says: []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "--offline"}},
		{name: "unknown key", config: "agents:\n  - id: agent_a\n    bakend: x\n", says: []string{"team.yaml:3", "backend"}},
		{name: "literal key", config: "agents:\n  - id: agent_a\n    backend: {model: m, api_key: sk-verysecret}\n", says: []string{"team.yaml:3", "api_key_env"}},
		{name: "unreachable address", args: []string{"start", "--offline", "--address", nobody, "Why?"}, says: []string{nobody}},
		{name: "unknown session", args: []string{"status", "never-started"}, says: []string{"never-started"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCLI(t)
			args := tt.args
			if tt.config != "" {
				args = []string{"run", "--config", c.file("team.yaml", tt.config), "Why?"}
			}
			out := c.conclave(args...)
			require.Equal(t, 1, out.code)
			for _, text := range tt.says {
				require.Contains(t, out.stderr, text)
			}
			require.NotContains(t, out.stderr, "goroutine")
			require.NotContains(t, out.stderr, "sk-verysecret")
			if tt.name != "unknown session" {
				_, err := os.Stat(filepath.Join(c.home, ".local"))
				require.ErrorIs(t, err, os.ErrNotExist, "nothing was started")
			}
			c.gone()
		})
	}
}
