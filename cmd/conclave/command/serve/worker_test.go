package serve

import (
	"testing"

	"conclave/cmd/conclave/cli"
	"conclave/worker"
	"conclave/worker/cluster"

	"github.com/stretchr/testify/require"
)

const providers = `
providers:
  house: {base_url: "http://127.0.0.1:1/v1", api_key_env: HOUSE_KEY}
`

func TestWorker_refusesConfiguration(t *testing.T) {
	s := newShell(t)
	s.File("broken.yaml", "providers:\n  house: {base_url: nowhere}\n")
	s.File("providers.yaml", providers)
	s.File("complete.yaml", providers+"teams:\n  default: {agent: {id: agent_a, backend: {provider: house, model: m}}}\n")
	s.File("inline.yaml", "agent: {id: agent_a, backend: {model: m, base_url: \"http://127.0.0.1:1/v1\"}}\n")
	s.File("program.yaml", "agent: {id: agent_a, backend: {model: m}, mcp_servers: [{name: id, command: id}]}\n")
	s.File("hotel.yaml", "agent: {id: agent_a, backend: {provider: hotel, model: m}}\n")
	s.File("unpriced.yaml", providers+"teams:\n  cheap: {agent: {id: agent_a, backend: {provider: house, model: m}}, orchestrator: {budget: {max_cost_usd: 1}}}\n")
	s.File("limit.yaml", "agent: {id: agent_a, backend: {model: m, base_url: \"http://127.0.0.1:1/v1\"}}\norchestrator: {budget: {max_cost_usd: 1}}\n")
	cluster := []string{"worker", "--address", "127.0.0.1:1", "--bucket", "sessions"}
	for name, tt := range map[string]struct {
		line []string
		says string
	}{
		"a broken file":                 {[]string{"worker", "--worker-config", "broken.yaml"}, "broken.yaml:2:21: providers.house.base_url: not an http or https URL"},
		"two default teams":             {[]string{"worker", "--worker-config", "complete.yaml", "--config", "hotel.yaml"}, "leave out --config or teams.default"},
		"no such provider":              {[]string{"worker", "--worker-config", "providers.yaml", "--config", "hotel.yaml"}, `agent agent_a: this worker has no provider "hotel"; it has: house`},
		"no provider at all":            {append(cluster, "--config", "hotel.yaml"), `this worker has no provider "hotel"; it has none`},
		"an address on a cluster":       {append(cluster, "--config", "inline.yaml"), "inline.yaml:1:52: agents[0].backend.base_url: not accepted here"},
		"a program on a cluster":        {append(cluster, "--config", "program.yaml"), "agents[0].mcp_servers[0]: not accepted here"},
		"no key and nothing else":       {cluster, "OPENAI_API_KEY"},
		"a limit without a price":       {append(cluster, "--worker-config", "unpriced.yaml", "--offline"), "use the team cheap: agent agent_a: a limit in dollars is set"},
		"the same on this machine":      {[]string{"worker", "--config", "limit.yaml"}, "use the team default: agent agent_a: a limit in dollars is set"},
		"the same of dev":               {[]string{"dev", "--config", "limit.yaml"}, "agent agent_a: a limit in dollars is set, but the price of the model m is unknown"},
		"a deployment of one machine":   {[]string{"worker", "--offline", "--deployment", "d"}, "--deployment belongs to a cluster's worker"},
		"no such format of a log":       {append(cluster, "--offline", "--log-format", "xml"), `--log-format is "xml"; it takes text or json`},
		"all is well but the cluster":   {append(cluster, "--worker-config", "complete.yaml"), "connect to Temporal at 127.0.0.1:1"},
		"the offline team needs no key": {append(cluster, "--offline"), "connect to Temporal at 127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
			code, stdout, stderr := s.Run(tt.line...)
			require.Equal(t, cli.ExitUsage, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, tt.says)
			s.StartedNothing()
		})
	}
}

// A worker without a file has the settings that an empty one would have, the sandbox's level and
// limits among them.
func TestWorkerSettings_default(t *testing.T) {
	t.Parallel()
	for _, t2 := range []cli.Target{{}, {Cluster: true}} {
		w, err := readWorker(&cli.CLI{Bucket: "sessions"}, t2, cluster.WorkerFlags{})
		require.NoError(t, err)
		require.Equal(t, worker.DefaultSettings(), w.Settings)
		require.NotEmpty(t, w.Settings.Sandbox.Level)
	}
}
