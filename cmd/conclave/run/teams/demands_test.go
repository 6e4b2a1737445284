package teams

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
)

func TestDemands(t *testing.T) {
	for name, tt := range map[string]struct {
		team string
		want []string
	}{
		"the built-in server": {`agent: {id: a, backend: {model: m}, tools: {shell: true}}`, nil},
		"the type's own key":  {`agent: {id: a, backend: {model: m, api_key_env: OPENAI_API_KEY}}`, nil},
		"a provider":          {`agent: {id: a, backend: {provider: house, model: m}}`, nil},
		"a named MCP server":  {`agent: {id: a, backend: {model: m}, mcp_servers: [browser]}`, nil},
		"no model":            {`agent: {id: a, backend: {type: offline}}`, nil},
		"another key": {
			`agent: {id: a, backend: {model: m, api_key_env: GITHUB_TOKEN}}`,
			[]string{"send the key in GITHUB_TOKEN to https://api.openai.com/v1 (a)"},
		},
		"a type with an address": {`agent: {id: a, backend: {type: anthropic, model: m}}`, nil},
		"the own keys of types": {
			`agents: [{id: a, backend: {type: anthropic, model: m, api_key_env: ANTHROPIC_API_KEY}}, {id: b, backend: {type: gemini, model: m, api_key_env: GOOGLE_API_KEY}}]`, nil,
		},
		"an evaluator with a model of its own": {
			"agent: {id: a, backend: {model: m}}\n" + `orchestrator: {voting_sensitivity: checklist_gated, coordination: {round_evaluator_before_checklist: true, ` +
				`orchestrator_managed_round_evaluator: true, round_evaluator: {backend: {model: m, base_url: "http://h/v1"}}}}`,
			[]string{"send prompts and answers to http://h/v1 (round_evaluator)"},
		},
		"a server on this machine": {`agent: {id: a, backend: {type: ollama, model: m}}`, nil},
		"the key of another type": {
			`agent: {id: a, backend: {type: anthropic, model: m, api_key_env: OPENAI_API_KEY}}`,
			[]string{"send the key in OPENAI_API_KEY to https://api.anthropic.com/v1 (a)"},
		},
		"a type's own key to an address": {
			`agent: {id: a, backend: {type: anthropic, model: m, base_url: "http://h/v1", api_key_env: ANTHROPIC_API_KEY}}`,
			[]string{"send prompts and answers, and the key in ANTHROPIC_API_KEY, to http://h/v1 (a)"},
		},
		"a key to a server on this machine": {
			`agent: {id: a, backend: {type: ollama, model: m, api_key_env: OPENAI_API_KEY}}`,
			[]string{"send the key in OPENAI_API_KEY to http://127.0.0.1:11434/v1 (a)"},
		},
		"an address": {
			`agent: {id: a, backend: {model: m, base_url: "http://h/v1"}}`,
			[]string{"send prompts and answers to http://h/v1 (a)"},
		},
		"the type's own key to an address": {
			`agent: {id: a, backend: {model: m, base_url: "http://h/v1", api_key_env: OPENAI_API_KEY}}`,
			[]string{"send prompts and answers, and the key in OPENAI_API_KEY, to http://h/v1 (a)"},
		},
		"one address of two agents": {
			`agents: [{id: a, backend: {model: m, base_url: "http://h/v1"}}, {id: b, backend: {model: n, base_url: "http://h/v1"}}, {id: c, backend: {model: n}}]`,
			[]string{"send prompts and answers to http://h/v1 (a, b)"},
		},
		"an MCP server by url": {
			`agent: {id: a, backend: {type: offline}, mcp_servers: [{name: docs, url: "https://d/mcp?q=secret"}]}`,
			[]string{"connect to 'https://d/mcp?…' as the MCP server docs (a)"},
		},
		"an MCP server by command": {
			`agent: {id: a, backend: {type: offline}, mcp_servers: [{name: x, command: /bin/sh, args: [-c, "id > /tmp/x"], env: {B: "${GITHUB_TOKEN}", A: "1 2"}}]}`,
			[]string{"run, outside the sandbox, `A='1 2' B=\"$GITHUB_TOKEN\" /bin/sh -c 'id > /tmp/x'` as the MCP server x (a)"},
		},
		"characters that hide": {
			`agent: {id: a, backend: {type: offline}, mcp_servers: [{name: x, command: sh, args: ["a\u202eb\nc\e[2J"]}]}`,
			[]string{"run, outside the sandbox, `sh \"a\\u202eb\\nc\\x1b[2J\"` as the MCP server x (a)"},
		},
		"more than a screen": {
			`agent: {id: a, backend: {type: offline}, mcp_servers: [{name: x, command: sh, args: ["` + strings.Repeat("é", 300) + `", evil]}]}`,
			[]string{"run, outside the sandbox, `sh '" + strings.Repeat("é", 200) + "'… (600 bytes) evil` as the MCP server x (a)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OPENAI_BASE_URL", "")
			team, err := config.Parse("team.yaml", []byte(strings.Replace(tt.team, "agent:", "agents:", 1)), config.Local)
			if strings.HasPrefix(tt.team, "agent:") {
				team, err = config.ParseSingle("team.yaml", []byte(tt.team))
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, TrustDemands(team))
			require.Empty(t, TrustDemands(team.Offline()), "the built-in model needs no consent")
		})
	}
}

// Keys that are sent to the server of the environment are shown with its address.
func TestDemands_resolvesTheServer(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")
	team, err := config.ParseSingle("team.yaml", []byte(`agent: {backend: {model: m, api_key_env: GITHUB_TOKEN}}`))
	require.NoError(t, err)
	require.Equal(t, []string{"send the key in GITHUB_TOKEN to http://127.0.0.1:11434/v1 (the agent)"}, TrustDemands(team))
}
