package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// If a model does not call tools, the remedy depends on its server.
func TestToolsRemedy(t *testing.T) {
	t.Parallel()
	for _, known := range BackendTypes() {
		b := Backend{Type: known.Name}
		require.NotEmpty(t, b.ToolsRemedy(), known.Name)
		if known.Tools != "" {
			require.Equal(t, known.Tools, b.ToolsRemedy())
		}
		if known.Local {
			require.NotEmpty(t, known.Tools, "%s: a server of one's own can be configured", known.Name)
		}
	}
	for says, b := range map[string]Backend{
		"choose a model that can call tools":    {Type: OpenAI},
		"check that its server passes tools on": {Type: OpenAI, BaseURL: "http://127.0.0.1:9000/v1"},
		"--enable-auto-tool-choice":             {Type: "vllm", BaseURL: "http://gpu:8000/v1"},
		"the capability tools":                  {Type: "ollama"},
	} {
		require.Contains(t, b.ToolsRemedy(), says)
	}
	require.Equal(t, "choose a model that can call tools", Backend{}.ToolsRemedy(), "the default type is openai")
	require.Equal(t, "choose a model that can call tools", Backend{Type: OpenAI, BaseURL: Backend{Type: OpenAI}.Known().BaseURL}.ToolsRemedy())
}

// The program of every step is looked up, and errors have the position that names it.
func TestValidatePipeline_programs(t *testing.T) {
	t.Parallel()
	const text = `start: a
agents:
  - id: one
    backend: {model: m}
    mcp_servers: [{name: notes, command: notes-server}, named]
steps:
  - {name: a, kind: agent, agent: one, mcp_servers: [{name: shop, command: shop-server}]}
  - name: b
    kind: session
    config:
      agents:
        - {id: two, backend: {model: m}, mcp_servers: [{name: wiki, command: wiki-server}]}
`
	var looked []string
	_, _, err := ValidatePipeline("p.yaml", []byte(text), Local, func(s MCPServer) error {
		if s.Command != "" {
			looked = append(looked, s.Command)
		}
		return nil
	})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"notes-server", "shop-server", "wiki-server"}, looked)

	_, _, err = ValidatePipeline("p.yaml", []byte(strings.Replace(text, "start: a", "start: c", 1)), Local, func(s MCPServer) error {
		if s.Command == "" {
			return nil
		}
		return fmt.Errorf("there is no program %q in PATH", s.Command)
	})
	require.Error(t, err)
	for _, want := range []string{
		`p.yaml:1:8: start: "c" is not a step`,
		`p.yaml:5`, `agents[0].mcp_servers[0]`, `"notes-server"`,
		`p.yaml:7`, `steps[0].mcp_servers[0]`, `"shop-server"`,
		`p.yaml:12`, `steps[1].config.agents[0].mcp_servers[0]`, `"wiki-server"`,
	} {
		require.ErrorContains(t, err, want)
	}
	_, _, err = ValidatePipeline("p.yaml", []byte("steps: ["), Local, func(MCPServer) error { return errors.New("not reached") })
	require.Error(t, err)
	require.NotContains(t, err.Error(), "not reached")
}

// rack is a configuration with servers of the operator.
type rack struct {
	Servers map[string]racked `json:"mcp_servers"`
}

type racked struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	URL     string            `json:"url"`
	Type    string            `json:"type"`
	Allowed []string          `json:"allowed_tools"`
	Token   string            `json:"token_env"`
}

func decodeRack(text string) (rack, error) {
	return Decode("worker.yaml", []byte(text), Local, func(r rack, d *Decoder) {
		for name, server := range r.Servers {
			d.Server(d.Key("mcp_servers", name), MCPServer{
				Name: name, Command: server.Command, Args: server.Args, Env: server.Env, URL: server.URL, Type: server.Type, AllowedTools: server.Allowed,
			}, server.Token)
		}
	})
}

// An operator's servers and the names of their tokens are validated like those of a team.
func TestDecoder_server(t *testing.T) {
	t.Parallel()
	secret := "sk-" + strings.Repeat("Ab3", 16)
	for server, says := range map[string]string{
		`a: {command: notes}`: "",
		`a: {url: "https://mcp.example.com/mcp", token_env: NOTES_TOKEN}`:    "",
		`a: {command: notes, token_env: NOTES_TOKEN}`:                        "a token without a url to send it to; give a program its secrets by env",
		`a: {url: "https://mcp.example.com/mcp", token_env: ` + secret + `}`: "token_env",
		`"a b": {command: notes}`:                                            "not ",
		`a: {command: ./notes}`:                                              "a relative path that names no file beside this one; begin it with ./",
		`a: {command: notes, url: "https://mcp.example.com/mcp"}`:            "both a command and a url",
		`a: {}`: "neither a command nor a url",
		`a: {url: "https://mcp.example.com/mcp", args: [x]}`:             "arguments without a command",
		`a: {url: "https://mcp.example.com/mcp", env: {A: b}}`:           "an environment without a command",
		`a: {url: "https://mcp.example.com/mcp", type: stdio}`:           "stdio is the type of a program",
		`a: {command: notes, type: streamable-http}`:                     "streamable-http is the type of an address",
		`a: {url: "https://mcp.example.com/mcp#top"}`:                    "the URL has a fragment, which no server sees",
		`a: {url: "https://mcp.example.com/mcp?api_key=` + secret + `"}`: "the URL seems to contain a key (not shown)",
		`a: {command: notes, env: {"1A": b}}`:                            "not the name of an environment variable",
		`a: {command: notes, args: ["` + secret + `"]}`:                  "this looks like an API key (not shown)",
		`a: {command: notes, env: {DB_PASSWORD: hunter2}}`:               "a literal secret (not shown)",
		`a: {command: notes, env: {PGPASSWORD: "1234"}}`:                 "write ${NAME} as the value",
		`a: {command: notes, env: {api_key: local-abc}}`:                 "a literal secret",
		`a: {command: notes, env: {NOTES_TOKEN: "x-${NOTES_TOKEN}"}}`:    "a literal secret",
		`a: {command: notes, env: {URL: "postgres://me:hunter2@h/db"}}`:  "a literal secret",
		`a: {command: notes, env: {NOTES_TOKEN: "${NOTES_TOKEN}", SSH_KEY: /home/me/key, CACHE_KEY: "", USE_TOKEN: "true", URL: "postgres://me@h/db", MODE: fast}}`: "",
		`a: {command: "no\0tes"}`:                            "a NUL character, which no program accepts",
		`a: {command: notes, allowed_tools: [mcp__a__read]}`: "without mcp__a__; write read",
		`a: {command: notes, allowed_tools: [" "]}`:          "empty; it takes the name of a tool",
	} {
		_, err := decodeRack("mcp_servers:\n  " + server + "\n")
		if says == "" {
			require.NoError(t, err, server)
			continue
		}
		require.ErrorContains(t, err, says, server)
		require.ErrorContains(t, err, "worker.yaml:2:", server)
		require.NotContains(t, err.Error(), secret)
	}
}

// A key that has a default, set to nothing, and keys that are one letter away from one in another
// place.
func TestParse_nearMisses(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"orchestrator: {voting_sensitivity: null}":                 "orchestrator.voting_sensitivity: nothing (null); leave the key out for the default, lenient",
		"orchestrator: {max_revotes: }":                            "orchestrator.max_revotes: nothing (null); leave the key out for the default, 1",
		"orchestrator: {early_agreement: ~}":                       "nothing (null); leave the key out for the default, false",
		"max_orchestration_restart: 1":                             "unknown key; did you mean orchestrator.max_orchestration_restarts?",
		"orchestrator: {coordination: {max_new_answer_global: 3}}": "did you mean orchestrator.max_new_answers_global?",
	} {
		_, err := Parse("team.yaml", []byte("agents: [{id: a, backend: {model: m}}]\n"+text+"\n"), Local)
		require.ErrorContains(t, err, says)
	}
	_, err := Parse("team.yaml", []byte("agents: [{id: a, backend: {model: m, temperatur: 1}}]\n"), Local)
	require.ErrorContains(t, err, "agents[0].backend.temperatur: unknown key; parameters of the API are under params: {temperature: …}")
	_, err = Parse("team.yaml", []byte("agents: [{id: a, backend: {model: m, params: null, api_key_env: null}}]\norchestrator: {presenter_agent: null, budget: null}\n"), Local)
	require.NoError(t, err, "keys without a default")
}
