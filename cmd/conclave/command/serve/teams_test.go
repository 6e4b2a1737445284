package serve

import (
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/callers"
	"conclave/cmd/conclave/test/stage"
)

func writeFile(t *testing.T, file, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
}

// choosing returns a shell in which serve chooses its teams and starts nothing.
func choosing(t *testing.T) (shell stage.Shell, chosen *servedTeams) {
	t.Helper()
	chosen = &servedTeams{}
	return stage.NewShell(t, func(c *cli.CLI) []*cobra.Command {
		cmd := serveCommand(c, nil, nil)
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			to, err := c.Target()
			if err != nil {
				return err
			}
			offline, err := cmd.Flags().GetBool("offline")
			if err == nil {
				*chosen, err = chooseTeams(cmd.Context(), c, to, offline, false)
			}
			return err
		}
		return []*cobra.Command{cmd}
	}), chosen
}

// names returns the names of the teams and how many agents each has.
func (t servedTeams) names() map[string]int {
	all := map[string]int{}
	for name, of := range t.named {
		all[name] = len(of.Agents)
	}
	return all
}

const (
	duo     = `{"agents":[{"id":"agent_a","backend":{"type":"offline"}},{"id":"agent_b","backend":{"type":"offline"}}]}`
	workers = `{"teams":{"reviewers":` + duo + `}}`
)

func TestChooseTeams(t *testing.T) {
	shell, chosen := choosing(t)
	shell.File("team.json", duo)
	shell.File("workers.json", workers)
	shell.File("default.json", `{"teams":{"default":`+duo+`}}`)
	for _, tc := range []struct {
		args   []string
		names  map[string]int
		source string
	}{
		{[]string{"--offline"}, map[string]int{"default": 3}, "from the built-in team"},
		{[]string{"--config", "team.json"}, map[string]int{"default": 2}, "from team.json"},
		{[]string{"--config", "team.json", "--worker-config", "workers.json"}, map[string]int{"default": 2, "reviewers": 2}, "from team.json"},
		{[]string{"--worker-config", "default.json"}, map[string]int{"default": 2}, "default"},
		{[]string{"--offline", "--worker-config", "default.json"}, map[string]int{"default": 2}, "default"},
		// The workers of a cluster have the teams.
		{[]string{"--address", "127.0.0.1:1", "--bucket", "b"}, map[string]int{"default": 0}, "that of the cluster's workers"},
		{[]string{"--address", "127.0.0.1:1", "--bucket", "b", "--worker-config", "workers.json"}, map[string]int{"default": 0, "reviewers": 0}, "that of the cluster's workers"},
		{[]string{"--address", "127.0.0.1:1", "--bucket", "b", "--config", "team.json"}, map[string]int{"default": 2}, "from team.json"},
	} {
		code, _, said := shell.Run(append([]string{"serve"}, tc.args...)...)
		require.Equal(t, cli.ExitOK, code, said)
		require.Equal(t, tc.names, chosen.names(), tc.args)
		require.Contains(t, chosen.source, tc.source)
	}
	shell.StartedNothing()
}

func TestChooseTeams_refuses(t *testing.T) {
	shell, _ := choosing(t)
	shell.File("team.json", duo)
	shell.File("default.json", `{"teams":{"default":`+duo+`}}`)
	for want, args := range map[string][]string{
		"leave out --config or teams.default": {"--config", "team.json", "--worker-config", "default.json"},
		"in a bucket: name it with --bucket":  {"--address", "127.0.0.1:1"},
		"no such file":                        {"--config", "none.json"},
		"none-workers.json":                   {"--worker-config", "none-workers.json"},
		"cluster.json":                        {"--address", "127.0.0.1:1", "--bucket", "b", "--worker-config", "cluster.json"},
		"OPENAI_API_KEY is not set":           {},
	} {
		code, _, said := shell.Run(append([]string{"serve"}, args...)...)
		require.Equal(t, cli.ExitUsage, code, "%s", args)
		require.Contains(t, said, want)
	}
	shell.StartedNothing()
}

// Each team is offered as a model, under the name that callers use.
func TestOffer(t *testing.T) {
	shell, chosen := choosing(t)
	shell.File("team.json", duo)
	shell.File("workers.json", workers)
	code, _, said := shell.Run("serve", "--address", "127.0.0.1:1", "--bucket", "b", "--config", "team.json", "--worker-config", "workers.json")
	require.Equal(t, cli.ExitOK, code, said)
	offered, err := OfferTeams(callers.New(t).Connection(t), chosen.named)
	require.NoError(t, err)
	var models []string
	for _, o := range offered {
		models = append(models, modelOf(o))
	}
	require.Equal(t, []string{"conclave", "conclave/reviewers", "conclave/single"}, models)
	require.True(t, offered[0].Offline, "its agents are the built-in model")
	require.False(t, offered[1].Offline, "the workers know what plays it")
}

// A launcher that takes --config for its own names the team in the environment.
func TestMCP_configVariable(t *testing.T) {
	shell := stage.NewShell(t, func(c *cli.CLI) []*cobra.Command { return []*cobra.Command{mcpCommand(c)} })
	t.Setenv(configVariable, "nowhere.yaml")
	code, _, stderr := shell.Run("mcp")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "nowhere.yaml")
	_, _, stderr = shell.Run("mcp", "--config", "flagged.yaml")
	require.Contains(t, stderr, "flagged.yaml", "the flag comes first")
}
