package teams

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/engine/config"
	"conclave/worker"
)

func TestParseAssignment(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][2]string{
		"A_KEY=abc":                    {"A_KEY", "abc"},
		"  export A_KEY = abc \r\n":    {"A_KEY", "abc"},
		`A_KEY="a b # c" # of the lab`: {"A_KEY", "a b # c"},
		"A_KEY='a\"b'":                 {"A_KEY", `a"b`},
		"A_KEY=abc # of the lab":       {"A_KEY", "abc"},
		"A_KEY=a#b=c":                  {"A_KEY", "a#b=c"},
		"A_KEY=":                       {"A_KEY", ""},
		`A_KEY="`:                      {"A_KEY", ""},
		"# A_KEY=abc":                  {"# A_KEY", "abc"},
		"A_KEY":                        {"A_KEY", ""},
		"":                             {"", ""},
	} {
		name, value := parseAssignment(line)
		require.Equal(t, want, [2]string{name, value}, "%q", line)
	}
}

const envFile = `
export GROQ_API_KEY="gsk-of-the-project" # free tier
OPENAI_API_KEY=sk-of-the-project
OPENAI_BASE_URL=http://127.0.0.1:9/v1
MY_SERVER_KEY=k-of-the-project
ANOTHER_KEY=another
GITHUB_TOKEN=ghp-of-the-project
AWS_SECRET_ACCESS_KEY=aws
HTTPS_PROXY=http://127.0.0.1:9
`

// of is a team of one model.
func of(b config.Backend) config.Team {
	b.Model = "m"
	return config.TeamOf([]config.Backend{b})
}

// A trusted .env gives the keys of known services and those that the team names: no address, no other
// variable, nothing to the environment of a process. The environment comes first.
func TestFindKeys(t *testing.T) {
	s := newShell(t)
	s.File(KeyFile, envFile)
	own := of(config.Backend{Type: config.OpenAI, BaseURL: "http://127.0.0.1:1/v1", APIKeyEnv: "MY_SERVER_KEY"})
	w := &Worker{}
	require.NoError(t, w.FindKeys(&cli.CLI{}, own))
	require.Empty(t, w.Models.Keys, "it is not trusted")
	require.ErrorContains(t, w.Startable(own), `the environment variable MY_SERVER_KEY is not set; it holds the API key of agent_a.
.env was found and is not trusted; it would
  take the key in GROQ_API_KEY for groq
  take the key in MY_SERVER_KEY for the team
  take the key in OPENAI_API_KEY for openai
`+"`conclave config trust .env` trusts it until it changes\n")
	require.NotContains(t, w.Startable(own).Error(), "of-the-project")

	code, stdout, stderr := s.Run("config", "trust", KeyFile)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, ".env is trusted until it changes; it may\n  hold keys of the services that a team uses, and of those that it names\n")
	t.Setenv("GROQ_API_KEY", "gsk-of-the-user")
	w = &Worker{}
	require.NoError(t, w.FindKeys(&cli.CLI{}, of(config.Backend{Type: "groq"})))
	require.Empty(t, w.Models.Keys, "the environment has what the team needs")
	require.NoError(t, w.FindKeys(&cli.CLI{}, own))
	require.Equal(t, map[string]string{"OPENAI_API_KEY": "sk-of-the-project", "MY_SERVER_KEY": "k-of-the-project"}, w.Models.Keys)
	require.NoError(t, w.FindKeys(&cli.CLI{}, of(config.Backend{Type: config.OpenAI, BaseURL: "http://127.0.0.1:1/v1", APIKeyEnv: "ANOTHER_KEY"})))
	require.Len(t, w.Models.Keys, 3, "a second team finds its key, too")
	require.NoError(t, w.Startable(own))
	require.Equal(t, "https://api.openai.com/v1", w.Resolve(config.Default()).Agents[0].Backend.BaseURL, "an address is never read")
	require.Empty(t, os.Getenv("MY_SERVER_KEY"))

	watching := &Worker{}
	watching.findTrustedKeys(&cli.CLI{})
	require.Equal(t, map[string]string{"OPENAI_API_KEY": "sk-of-the-project"}, watching.Models.Keys)
	s.File(KeyFile, envFile+"# changed\n")
	watching = &Worker{}
	watching.findTrustedKeys(&cli.CLI{})
	require.Empty(t, watching.Models.Keys, "trust is of the file as it was")
}

// Keys that were found decide which service a model without a kind is of.
func TestLocal_keyFile(t *testing.T) {
	s := newShell(t)
	s.File(KeyFile, "ANTHROPIC_API_KEY=sk-of-the-project\n")
	_, err := RememberTrust(file(KeyFile, "ANTHROPIC_API_KEY=sk-of-the-project\n"))
	require.NoError(t, err)
	team, source, err := Local(&cli.CLI{Models: []string{"claude"}}, &Worker{}, false)
	require.NoError(t, err)
	require.Equal(t, "--model", source)
	require.Equal(t, config.Backend{Type: "anthropic", Model: "claude", BaseURL: "https://api.anthropic.com/v1", APIKeyEnv: "ANTHROPIC_API_KEY", Wire: "messages"}, team.Agents[2].Backend)
	_, _, err = Local(&cli.CLI{}, &Worker{fileless: true}, false)
	require.ErrorContains(t, err, "OPENAI_API_KEY is not set; it holds the API key of agent_a, agent_b, agent_c.\nANTHROPIC_API_KEY is set: `conclave run --model anthropic:NAME …`")

	require.NoError(t, os.Remove(KeyFile))
	require.NoError(t, os.Mkdir(KeyFile, 0o700))
	var errs strings.Builder
	_, _, err = Local(&cli.CLI{Models: []string{"anthropic:claude"}, Stderr: &errs}, &Worker{}, false)
	require.ErrorContains(t, err, "ANTHROPIC_API_KEY is not set")
	require.Contains(t, errs.String(), "no key is read from .env: .env is a directory")
}

// What a message says: services whose key is set, in the order of the types, then local servers that
// answer.
func TestFindReachable(t *testing.T) {
	t.Parallel()
	at := worker.Models{Getenv: func(name string) string {
		return map[string]string{"ANTHROPIC_API_KEY": "k", "GOOGLE_API_KEY": "k", "AZURE_OPENAI_API_KEY": "k"}[name]
	}}
	asked := make(chan string, 10)
	found := findReachable(t.Context(), at.Services(), func(_ context.Context, kind string) ([]worker.ListedModel, error) {
		asked <- kind
		switch kind {
		case "ollama":
			return []worker.ListedModel{{ID: "llama3.2:3b"}, {ID: "qwen3"}}, nil
		case "vllm":
			return nil, nil
		}
		return nil, errors.New("no response")
	})
	require.Equal(t, []Reachable{
		{"anthropic", "ANTHROPIC_API_KEY is set: `conclave run --model anthropic:NAME …`; `conclave models list anthropic` lists the names"},
		{"gemini", "GOOGLE_API_KEY is set: `conclave run --model gemini:NAME …`; `conclave models list gemini` lists the names"},
		{"ollama", "ollama answers at http://127.0.0.1:11434/v1: `conclave run --model ollama:llama3.2:3b …`"},
		{"vllm", "vllm answers at http://127.0.0.1:8000/v1: `conclave run --model vllm:NAME …`"},
	}, found)
	close(asked)
	var kinds []string
	for kind := range asked {
		kinds = append(kinds, kind)
	}
	require.ElementsMatch(t, []string{"ollama", "vllm", "sglang", "lmstudio", "llamacpp"}, kinds, "no service is asked")
}

// A team of --model needs no file, and a found one is not read.
func TestLoad_models(t *testing.T) {
	s := newShell(t)
	s.File(ProjectFile, "agents: [{id: agent_a, backend: {model: m}, mcp_servers: [{name: x, command: evil}]}]\n")
	t.Setenv("GROQ_API_KEY", "k")
	team, source, err := Load(&cli.CLI{Models: []string{"llama-70b"}, Agents: 2}, config.Local, false)
	require.NoError(t, err)
	require.Equal(t, "--model", source)
	require.Equal(t, config.TeamOf([]config.Backend{{Type: "groq", Model: "llama-70b"}, {Type: "groq", Model: "llama-70b"}}), team)
	t.Setenv("XAI_API_KEY", "k")
	team, _, err = Load(&cli.CLI{Models: []string{"llama-70b"}}, config.Local, false)
	require.NoError(t, err)
	require.Equal(t, config.OpenAI, team.Agents[0].Backend.Type, "two services have keys")
	team, _, err = Load(&cli.CLI{Models: []string{"house:llama3.2:3b"}}, config.Cluster, false)
	require.NoError(t, err)
	require.Equal(t, config.Backend{Type: config.OpenAI, Provider: "house", Model: "llama3.2:3b"}, team.Agents[0].Backend)
	team, _, err = Load(&cli.CLI{Models: []string{"a", "b"}}, config.Local, true)
	require.NoError(t, err)
	require.Equal(t, config.Default().Offline().Agents[:2], team.Agents)

	for says, c := range map[string]*cli.CLI{
		"--model excludes --config and --team":                                    {Models: []string{"m"}, Config: "team.yaml"},
		"--agents is the size of a team of one model":                             {Agents: 2},
		`--model: "" names no model`:                                              {Models: []string{""}},
		"2 models for a team of 3; name one model, or one for each member":        {Models: []string{"a,b"}, Agents: 3},
		"the address of azure is your own, which a file names: `conclave config ": {Models: []string{"azure:m"}},
	} {
		_, _, err := Load(c, config.Local, false)
		require.ErrorContains(t, err, says)
	}
	require.ErrorContains(t, CheckFlags(&cli.CLI{Models: []string{"m"}}, "reviewers"), "--model excludes")
}
