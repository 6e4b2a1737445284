//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A configuration of MassGen is translated and decides a session.
func TestImportedTeam(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{"model-a": {answer("Two."), vote("agent1", "Only one.")}})
	c := newCLI(t, "E2E_API_KEY=very-secret-value")
	foreign := c.file("massgen.yaml", `agent:
  id: Model 4.5
  backend: {type: chatcompletion, model: model-a, base_url: "`+model.URL+`/v1", api_key: "${E2E_API_KEY}", temperature: 0.25, cwd: w}
  system_message: Count twice.
ui: {display_type: simple}
`)
	refused := c.conclave("config", "validate", foreign)
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, "`conclave config import "+foreign)

	translated := c.conclave("config", "import", foreign)
	require.Equal(t, 0, translated.code)
	require.Contains(t, translated.stderr, "agent.backend.cwd: ")
	out := c.conclave("run", "--automation", "--config", c.file("team.yaml", translated.stdout), "How many moons has Mars?")
	require.Equal(t, 0, out.code)
	result := out.result(t, "consensus")
	require.Equal(t, "model_4_5", result.Winner)
	require.Contains(t, model.request("model-a", 1), `"temperature":0.25`)
	require.Contains(t, model.request("model-a", 1), "Count twice.")
}
