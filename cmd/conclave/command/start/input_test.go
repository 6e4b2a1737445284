package start

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/worker"
)

const mixedTeam = `
agents:
  - id: agent_a
    backend: {type: openai, model: m}
  - id: agent_b
    backend: {type: openai, model: m, base_url: "http://127.0.0.1:1/v1"}
  - id: agent_c
    backend: {type: openai, model: m, base_url: "http://127.0.0.1:1/v1", api_key_env: VLLM_API_KEY}
`

func TestNewOrder_clusterTeamInline(t *testing.T) {
	s := newShell(t)
	cluster := cli.Target{Cluster: true}

	got, err := newSessionOrder(&cli.CLI{}, cluster, &teams.Worker{}, sessionFlags{}, "Why?")
	require.NoError(t, err, "keys are the workers' business")
	parsed, err := config.Parse("inline", got.input.Config, config.Cluster)
	require.NoError(t, err)
	require.Equal(t, config.Default(), parsed)
	require.Empty(t, got.input.Team)

	got, err = newSessionOrder(&cli.CLI{}, cluster, &teams.Worker{}, sessionFlags{offline: true}, "Why?")
	require.NoError(t, err)
	parsed, err = config.Parse("inline", got.input.Config, config.Cluster)
	require.NoError(t, err)
	require.Equal(t, config.Offline, parsed.Agents[0].Backend.Type)

	got, err = newSessionOrder(&cli.CLI{}, cluster, &teams.Worker{}, sessionFlags{team: "reviewers"}, "Why?")
	require.NoError(t, err)
	require.Equal(t, "reviewers", got.input.Team)
	require.Empty(t, got.input.Config)

	s.File("local.yaml", mixedTeam)
	_, err = newSessionOrder(&cli.CLI{Config: "local.yaml"}, cluster, &teams.Worker{}, sessionFlags{}, "Why?")
	require.ErrorContains(t, err, "local.yaml:6", "a cluster accepts no base_url of ours")
}

func TestNewOrder_criteria(t *testing.T) {
	s := newShell(t)
	s.File("criteria.json", `[{"text":"It is short."}]`)
	s.File("bad.json", `[{"txt":"?"}]`)
	got, err := newSessionOrder(&cli.CLI{}, cli.Target{Cluster: true}, &teams.Worker{}, sessionFlags{criteria: "criteria.json"}, "Why?")
	require.NoError(t, err)
	require.JSONEq(t, `[{"text":"It is short."}]`, string(got.input.EvalCriteria))
	_, err = newSessionOrder(&cli.CLI{}, cli.Target{Cluster: true}, &teams.Worker{}, sessionFlags{criteria: "bad.json"}, "Why?")
	require.ErrorContains(t, err, "bad.json")

	s.File("odd.json", `[{"text":"It is short.","verify_by":["Count."]}]`)
	var stderr strings.Builder
	_, err = newSessionOrder(&cli.CLI{Stderr: &stderr}, cli.Target{Cluster: true}, &teams.Worker{}, sessionFlags{criteria: "odd.json"}, "Why?")
	require.NoError(t, err)
	require.Equal(t, "conclave: odd.json:1:37: [0].verify_by: ignored: expected a string, found a list\n", stderr.String())
}

func TestNewOrder_defaultTeamByName(t *testing.T) {
	newShell(t)
	here := cli.Target{DataDir: t.TempDir()}
	_, err := teams.DefaultWorker(&cli.Connection{CLI: &cli.CLI{}, Target: here}, config.Default().Offline())
	require.NoError(t, err)
	got, err := newSessionOrder(&cli.CLI{}, here, &teams.Worker{}, sessionFlags{team: activities.DefaultTeam}, "Why?")
	require.NoError(t, err)
	require.Equal(t, config.Default().Offline().Hash(), got.team.Hash())
}

// The team comes from --config, else from --team and the file of --worker-config, else it
// is that file's default.
func TestNewOrder_teamsOfAWorkerConfiguration(t *testing.T) {
	s := newShell(t)
	s.File("worker.yaml", `
providers:
  house: {base_url: "http://127.0.0.1:1/v1", api_key_env: HOUSE_KEY}
teams:
  default: {agents: [{id: solo, backend: {type: offline}}]}
  paid: {agents: [{id: guest, backend: {provider: house, model: m}}]}
`)
	s.File("own.yaml", "agents: [{id: mine, backend: {type: offline}}]\n")
	here := cli.Target{DataDir: t.TempDir()}
	order := func(c *cli.CLI, f sessionFlags) (sessionOrder, error) {
		c.WorkerConfig = "worker.yaml"
		w, err := teams.OpenWorker(c, here)
		require.NoError(t, err)
		return newSessionOrder(c, here, w, f, "Why?")
	}
	got, err := order(&cli.CLI{}, sessionFlags{})
	require.NoError(t, err)
	require.Equal(t, "solo", got.team.Agents[0].ID)
	require.Equal(t, "default of worker.yaml", got.source)
	got, err = order(&cli.CLI{Config: "own.yaml"}, sessionFlags{})
	require.NoError(t, err)
	require.Equal(t, "mine", got.team.Agents[0].ID)

	_, err = order(&cli.CLI{}, sessionFlags{team: "paid"})
	require.ErrorContains(t, err, "the environment variable HOUSE_KEY is not set")
	t.Setenv("HOUSE_KEY", "k")
	got, err = order(&cli.CLI{}, sessionFlags{team: "paid"})
	require.NoError(t, err)
	require.Equal(t, "house", got.team.Agents[0].Backend.Provider)
	_, err = order(&cli.CLI{}, sessionFlags{team: "nobody"})
	require.ErrorContains(t, err, `there is no team "nobody" here, only "default", "paid"; "default" is that of`)
}

// Models of --model in place of a file: on a cluster a kind is one of its workers' providers.
func TestOrder_models(t *testing.T) {
	s := newShell(t)
	s.File("conclave.yaml", "not read")
	s.File("workers.yaml", "teams: {default: {agents: [{id: agent_a, backend: {type: offline}}]}}\n")
	s.File("p.yaml", `
start: write
agents: [{id: writer}, {id: own, backend: {type: offline}}]
steps:
  - {name: write, kind: agent, next: ask}
  - {name: ask, kind: session, next: known}
  - {name: known, kind: session, team: default}
`)
	t.Setenv("GROQ_API_KEY", "k")
	c := &cli.CLI{Models: []string{"house:llama3.2:3b"}, Stderr: io.Discard}
	got, err := newSessionOrder(c, cli.Target{Cluster: true}, &teams.Worker{}, sessionFlags{continues: "s1"}, "Why?")
	require.NoError(t, err)
	require.Contains(t, string(got.input.Config), `"provider":"house","model":"llama3.2:3b"`)
	p, err := newPipelineOrder(c, cli.Target{Cluster: true}, &teams.Worker{}, pipelineFlags{}, "p.yaml", "q")
	require.NoError(t, err)
	require.Equal(t, "house", p.file.Agents[0].Backend.Provider)
	require.Equal(t, got.team, *p.file.Steps[1].Config)
	require.Equal(t, "default", p.file.Steps[2].Team)

	w, err := teams.ReadWorker("workers.yaml", config.Local)
	require.NoError(t, err)
	c.Models = []string{"llama-70b"}
	got, err = newSessionOrder(c, cli.Target{}, w, sessionFlags{}, "Why?")
	require.NoError(t, err)
	require.Equal(t, config.Backend{Type: "groq", Model: "llama-70b", BaseURL: "https://api.groq.com/openai/v1", APIKeyEnv: "GROQ_API_KEY"}, got.team.Agents[2].Backend)
	p, err = newPipelineOrder(c, cli.Target{DataDir: t.TempDir()}, w, pipelineFlags{}, "p.yaml", "q")
	require.NoError(t, err)
	require.Equal(t, got.team.Agents[0].Backend, p.file.Agents[0].Backend)
	require.Equal(t, config.Offline, p.file.Agents[1].Backend.Type)
	require.Equal(t, got.team, *p.file.Steps[1].Config)
	require.Len(t, p.file.Steps[2].Config.Agents, 1, "a step's own team")

	one, err := newStepOrder(c, stepFlags{dir: "d"}, "q")
	require.NoError(t, err)
	require.Empty(t, one.team.Agents[0].ID, "the next free one of the directory")
	require.Equal(t, got.team.Agents[0].Backend, one.team.Agents[0].Backend)
}

// A team without a file that works on a base has a shell where commands are confined. The flags overrule
// that, and files that this command reads; they do not reach teams that it only names.
func TestNewOrder_shell(t *testing.T) {
	s := newShell(t)
	s.File("on.yaml", "agent: {id: a, backend: {model: m}, tools: {shell: true}}\n")
	order := func(config, team, continued string, args ...string) (sessionOrder, error) {
		c := &cli.CLI{Config: config}
		f := sessionFlags{team: team, continues: continued}
		set := pflag.NewFlagSet("run", pflag.ContinueOnError)
		f.material.Add(set)
		teams.ShellFlags(c, set, "the agents")
		if err := set.Parse(args); err != nil {
			return sessionOrder{}, err
		}
		return newSessionOrder(c, cli.Target{Cluster: true}, &teams.Worker{}, f, "Why?")
	}
	for name, tt := range map[string]struct {
		config string
		args   []string
		want   config.Shell
	}{
		"no base": {want: config.ShellOff}, "a base": {args: []string{"--base", "."}, want: config.AutoShell},
		"asked for":       {args: []string{"--shell"}, want: config.ShellOn},
		"refused":         {args: []string{"--base", ".", "--no-shell"}, want: config.ShellOff},
		"a file":          {config: "on.yaml", args: []string{"--base", "."}, want: config.ShellOn},
		"a file, refused": {config: "on.yaml", args: []string{"--no-shell"}, want: config.ShellOff},
	} {
		o, err := order(tt.config, "", "", tt.args...)
		require.NoError(t, err, name)
		require.Equal(t, tt.want, o.team.Agents[0].Tools.Shell, name)
	}
	_, err := order("", "reviewers", "", "--shell")
	require.ErrorContains(t, err, "the cluster's team reviewers has tools.shell of its own")
	_, err = order("", "", "s1", "--no-shell")
	require.ErrorContains(t, err, "the team of session s1 has tools.shell of its own")
	_, err = order("", "", "", "--shell", "--no-shell")
	require.ErrorContains(t, err, "exclude each other")
}

// The line says before the start, and to nobody who did not ask, that nothing can be run.
func TestNoteShell(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	c := &cli.CLI{Stderr: &stderr}
	settings := worker.DefaultSettings()
	settings.Sandbox.Level = "off"
	w := &teams.Worker{Tools: worker.NewTools(settings)}
	w.NoteShell(t.Context(), c, config.Default(), config.Default().WithShell(config.ShellOff))
	(&teams.Worker{}).NoteShell(t.Context(), c, config.Default().WithShell(config.AutoShell))
	require.Empty(t, stderr.String())
	w.NoteShell(t.Context(), c, config.Default(), config.Default().WithShell(config.AutoShell))
	require.Equal(t, "agents cannot run commands, so nothing will be run: sandbox.level is off, and commands run on their own only where they are confined\n", stderr.String())
}
