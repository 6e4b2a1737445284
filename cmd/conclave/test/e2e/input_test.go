//go:build e2e

package e2e

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"math/rand/v2"
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

// A large picture of the question is shown in each call. The history, the journal and the transcript only refer to it.
func TestPictures(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	noise := image.NewNRGBA(image.Rect(0, 0, 1100, 1100))
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise.Pix)
	var drawn bytes.Buffer
	require.NoError(t, png.Encode(&drawn, noise))
	require.Greater(t, drawn.Len(), 4<<20)
	picture := c.file("lamp.png", drawn.String())
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("A lamp."), vote("agent1", "Mine.")}, "model-b": {answer("Noise."), vote("agent1", "It is one.")}, "model-c": {answer("Snow."), vote("agent1", "It is.")},
	})
	out := c.conclave("run", "--session-id", "seen", "--config", c.file("team.yaml", model.team("agent_a", "agent_b", "agent_c")), "--image", picture, "What is this?")
	require.Equal(t, 0, out.code, out.stderr)
	shown := `"url":"data:image/png;base64,` + base64.StdEncoding.EncodeToString(drawn.Bytes())
	for _, name := range []string{"model-a", "model-b", "model-c"} {
		for n := range 2 {
			require.Contains(t, model.request(name, n+1), shown)
			require.Contains(t, model.request(name, n+1), "With it comes a picture, shown below this text: lamp.png.")
		}
	}
	dir := filepath.Join(c.home, "pulled")
	require.Equal(t, 0, c.conclave("pull", "seen", dir).code)
	for _, agent := range []string{"agent_a", "agent_b", "agent_c"} {
		info, err := os.Stat(filepath.Join(dir, "agents", agent, "001", "transcript.jsonl"))
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(100_000))
	}
	require.Equal(t, 1, c.conclave("run", "--offline", "--image", c.file("note.txt", "text"), "What is this?").code)
}
