//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/stage"
)

// A person whose pipeline or session is parked sees the reason and the command that
// continues it. The run ends with its result once they have entered that command
// elsewhere.
func TestTerminal_parked(t *testing.T) {
	t.Parallel()
	refused := fails(http.StatusUnauthorized)
	model := newModelServer(t, map[string][]reply{
		"model-a": {says("Written.")},
		"model-b": {refused, says("Exported.")},
		"model-c": {refused, answer("An answer."), vote("agent1", "Mine.")},
	})
	c := newCLI(t)
	graph := c.file("p.yaml", model.pipeline("start: main\nsteps:\n  - {name: main, agent: agent_a, next: export}\n  - {name: export, agent: agent_b}\n"))
	team := c.file("team.yaml", model.teamWith(orchestrator(map[string]any{"on_agent_failure": "park"}), "agent_c"))
	for _, tt := range []struct {
		id, failed, answer string
		args               []string
	}{
		{"p1", "parked: export failed, AuthFailed", "Exported.\n", []string{"pipeline", "run", "--session-id", "p1", graph, "Write."}},
		{"s1", "parked: agent_c failed, AuthFailed", "An answer.\n", []string{"run", "--session-id", "s1", "--config", team, "Who?"}},
	} {
		term := stage.NewTerminal(t)
		var stdout bytes.Buffer
		run := c.onTerminal(term, tt.args...)
		run.Stdout = &stdout
		require.NoError(t, run.Start())
		shows(t, run, term, tt.failed)
		shows(t, run, term, "`conclave retry "+tt.id+"`")
		var state struct{ Status, Parked string }
		require.NoError(t, json.Unmarshal([]byte(c.conclave("status", "--json", tt.id).stdout), &state))
		require.Equal(t, "parked", state.Status)
		require.NotEmpty(t, state.Parked)
		require.Contains(t, c.conclave("status", tt.id).stdout, "parked")
		require.Equal(t, 0, c.conclave("retry", tt.id).code)
		require.NoError(t, run.Wait(), term.Shown())
		require.Equal(t, tt.answer, stdout.String())
	}
}

// shows waits until the terminal of a command has shown a text.
func shows(t *testing.T, run *exec.Cmd, term *stage.Terminal, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(term.Shown(), text) }, time.Minute, 10*time.Millisecond, "%s: waiting for %q", run, text)
}
