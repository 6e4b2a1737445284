package massgen

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
)

// Each case of testdata/teams.txt is a document, the team and the notes.
func TestImport_translatesTeams(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/teams.txt")
	require.NoError(t, err)
	cases := strings.Split(string(data), "=== ")[1:]
	require.NotEmpty(t, cases)
	for _, c := range cases {
		name, rest, _ := strings.Cut(c, "\n")
		document, want, ok := strings.Cut(rest, ">>>\n")
		require.True(t, ok, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Import("team", []byte(document))
			require.NoError(t, err)
			require.NoError(t, got.Invalid)
			require.Equal(t, want, report(got))
			require.NotContains(t, report(got), "planted", "a literal key is not repeated")

			_, err = config.Parse("team", got.YAML, config.Local)
			require.NoError(t, err)
		})
	}
}

func TestImport_keepsATeamOfConclave(t *testing.T) {
	t.Parallel()
	got, err := Import("team", config.Starter(nil))
	require.NoError(t, err)
	require.NoError(t, got.Invalid)
	require.Empty(t, got.Notes)
	team, err := config.Parse("team", got.YAML, config.Local)
	require.NoError(t, err)
	require.Equal(t, config.Default().WithShell(config.AutoShell), team)
}

// A problem that cannot be solved by removing keys is reported with the translation.
func TestImport_returnsTheProblemsThatAreLeft(t *testing.T) {
	t.Parallel()
	got, err := Import("team", []byte("agents: [{id: a, backend: {type: openai, model: m}}]\norchestrator: {coordination_mode: decomposition, coordination: {task_decomposer: {enabled: false}}}\n"))
	require.NoError(t, err)
	require.ErrorContains(t, got.Invalid, "team:2:5: agents[0].subtask: missing")
	require.Contains(t, string(got.YAML), "coordination_mode: decomposition")

	got, err = Import("team", []byte("agents: ["+strings.Repeat("{id: a, backend: {type: openai, model: m}},", 27)+"]"))
	require.NoError(t, err)
	require.ErrorContains(t, got.Invalid, "27 agents are too many")
}

func TestImport_refusesOtherDocuments(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		"":                             "the file is empty",
		"- a":                          "a mapping with the key agents or agent",
		"a: [":                         "not valid YAML",
		"gemini: {default: {rpm: 7}}":  "so it is not a team configuration",
		"models: [gpt-4]\nagents: []":  "the first version of MassGen's format",
		"agents: {a: b}":               "line 1: agents is not a list",
		"agent: x":                     "line 1: agent is not a mapping",
		"agents: []\nagent: {id: x}":   "the file has both agents and agent",
		"agents: &a [*a]":              "",
		strings.Repeat("[", 100) + "a": "",
		"x: &x [1,1,1,1,1,1,1,1,1,1]\ny: &y [*x,*x,*x,*x,*x,*x,*x,*x,*x,*x]\nz: &z [*y,*y,*y,*y,*y,*y,*y,*y,*y,*y]\nagents: [*z,*z,*z,*z,*z,*z,*z,*z,*z,*z,*z,*z,*z,*z,*z,*z,*z,*z,*z,*z]": "more than 10000 values",
	} {
		_, err := Import("team", []byte(document))
		require.ErrorContains(t, err, want, document)
	}
}

func TestImport_survivesOddDocuments(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		"agents: [null, 3, [], {}, {id: []}, {id: {a: b}, backend: 7}, {backend: {type: {}, model: [], mcp_servers: 5, reasoning: high, text: loud, params: [x]}}]",
		"agents: [{id: a, backend: {type: ag2}}, {id: b, backend: {type: ag2, agent_config: [1], group_config: 3}}]",
		"agents: [{id: a, backend: {type: openai, model: m, mcp_servers: [3, {}, {name: 5}, {name: x, command: y, args: z, env: [1]}]}}]",
		"agents: []\norchestrator: [1]\ntimeout_settings: 5\nui:\n",
		"agents: [{id: a, backend: {type: openai, model: m, api_key: {a: b}, base_url: [x], allowed_tools: {x: y}}}]\norchestrator: {coordination: 3, timeout: [x]}",
		"? [a, b]\n: c\nagents: []",
	} {
		got, err := Import("team", []byte(document))
		if err == nil {
			require.NotEmpty(t, got.YAML, document)
		}
	}
}

func TestRecognize(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]bool{
		"agents: [{id: a, backend: {type: claude, model: m}}]":                                      true,
		"agents: [{id: a, backend: {type: openai, model: m, cwd: w}}]":                              true,
		"agent: {id: a, backend: {type: openai, model: m, temperature: 1}}":                         true,
		"agents: [{id: a, backend: {model: m}}]\nui: {display_type: simple}":                        true,
		"agents: [{id: a, backend: {model: m}}]\norchestrator: {snapshot_storage: x}":               true,
		"agents: [{id: a, backend: {model: m}}]\norchestrator: {pacing: rouns}":                     false,
		"agents: [{id: a, backend: {type: gemini, model: m, param: {temperature: 1}}, tools: [x]}]": false,
		"providers: {}": false,
		"a: [":          false,
	} {
		require.Equal(t, want, Recognize([]byte(document)), document)
	}
}

func report(t Translation) string {
	var b strings.Builder
	b.Write(t.YAML)
	b.WriteString("---\n")
	for _, n := range t.Notes {
		b.WriteString(n.String() + "\n")
	}
	return b.String()
}

// Two keys of the document may translate to the same key. Params are merged. Otherwise the earlier
// key is used, or the one of Azure, and a note names the other.
func TestImport_namesTheKeysWithoutAPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		backend, rest string
		here          []string // lines of the team
		left, by      string   // keys of the document
	}{
		"params before":   {"type: anthropic, model: m, params: {temperature: 0.5}, max_tokens: 9", "", []string{"temperature: 0.5", "max_tokens: 9"}, "", ""},
		"params after":    {"type: anthropic, model: m, max_tokens: 9, params: {temperature: 0.5}", "", []string{"temperature: 0.5", "max_tokens: 9"}, "", ""},
		"a param twice":   {"type: anthropic, model: m, top_p: 0.1, params: {top_p: 0.2}", "", []string{"top_p: 0.1"}, "agents[0].backend.params.top_p", "agents[0].backend.top_p"},
		"reasoning":       {"type: openai, model: m, reasoning: {effort: low}, reasoning_effort: high", "", []string{"reasoning_effort: low"}, "agents[0].backend.reasoning_effort", "agents[0].backend.reasoning.effort"},
		"keys":            {"type: openai, model: m, api_key: '${A_KEY}', api_key_env: B_KEY", "", []string{"api_key_env: A_KEY"}, "agents[0].backend.api_key_env", "agents[0].backend.api_key"},
		"keys, swapped":   {"type: openai, model: m, api_key_env: B_KEY, api_key: '${A_KEY}'", "", []string{"api_key_env: B_KEY"}, "agents[0].backend.api_key", "agents[0].backend.api_key_env"},
		"deployment":      {"type: azure_openai, azure_endpoint: 'https://a.example', model: m, azure_deployment: d", "", []string{"model: d"}, "agents[0].backend.model", "agents[0].backend.azure_deployment"},
		"endpoint":        {"type: azure_openai, azure_endpoint: 'https://a.example', base_url: 'https://b.example', model: m", "", []string{"base_url: https://a.example/openai/v1"}, "agents[0].backend.base_url", "agents[0].backend.azure_endpoint"},
		"restarts":        {"type: openai, model: m", "orchestrator: {coordination: {max_orchestration_restarts: 1}, max_orchestration_restarts: 2}", []string{"max_orchestration_restarts: 1"}, "orchestrator.max_orchestration_restarts", "orchestrator.coordination.max_orchestration_restarts"},
		"timeouts":        {"type: openai, model: m", "timeout_settings: {orchestrator_timeout_seconds: 60}\norchestrator: {timeout: {orchestrator_timeout_seconds: 70}}", []string{"orchestrator_timeout_seconds: 60"}, "orchestrator.timeout.orchestrator_timeout_seconds", "timeout_settings.orchestrator_timeout_seconds"},
		"the same values": {"type: azure_openai, azure_endpoint: 'https://a.example', model: d, azure_deployment: d", "", []string{"model: d"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Import("team", []byte("agents: [{id: a, backend: {"+c.backend+"}}]\n"+c.rest))
			require.NoError(t, err)
			require.NoError(t, got.Invalid)
			for _, line := range c.here {
				require.Contains(t, string(got.YAML), line+"\n")
			}
			if c.left == "" {
				require.NotContains(t, report(got), "not carried over")
				return
			}
			require.Contains(t, report(got), c.left+": not carried over: "+c.by+" sets the same key here, and is used")
			require.NotContains(t, report(got), c.left+": moved")
		})
	}
}
