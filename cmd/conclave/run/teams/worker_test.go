package teams

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/engine/config"
)

func TestWorker_servesTeams(t *testing.T) {
	s := newShell(t)
	s.File("unknown.yaml", "agent: {id: agent_a, backend: {type: offline}, mcp_servers: [browser]}\n")
	s.File("provider.yaml", "agent: {id: agent_a, backend: {provider: house, model: m}}\n")
	s.File("worker.yaml", `providers: {house: {base_url: "http://127.0.0.1:1/v1"}}`)
	team, err := Read("unknown.yaml", config.Local)
	require.NoError(t, err)
	paid, err := Read("provider.yaml", config.Local)
	require.NoError(t, err)

	here := cli.Target{DataDir: t.TempDir()}
	w, err := OpenWorker(&cli.CLI{}, here)
	require.NoError(t, err)
	require.Error(t, w.Serves(t.Context(), team.Offline(), team))
	require.NoError(t, w.Serves(t.Context(), team.Offline()), "the built-in model uses none")
	require.EqualError(t, w.Serves(t.Context(), paid), `agent agent_a: this worker has no provider "house"; it has none; an operator defines providers in the file of --worker-config`)

	w, err = OpenWorker(&cli.CLI{WorkerConfig: "worker.yaml"}, here)
	require.NoError(t, err)
	require.NoError(t, w.Serves(t.Context(), paid))

	w, err = OpenWorker(&cli.CLI{}, cli.Target{Cluster: true})
	require.NoError(t, err)
	require.NoError(t, w.Serves(t.Context(), team, paid), "a cluster's workers have their own")
}

func TestOpenWorker_refuses(t *testing.T) {
	s := newShell(t)
	s.File("bad.yaml", "provider: {}\n")
	_, err := OpenWorker(&cli.CLI{WorkerConfig: "bad.yaml"}, cli.Target{})
	require.EqualError(t, err, "bad.yaml:1:1: provider: unknown key; did you mean providers?")
	_, err = OpenWorker(&cli.CLI{WorkerConfig: "missing.yaml"}, cli.Target{})
	require.ErrorContains(t, err, "read the worker configuration: open missing.yaml")
	_, err = OpenWorker(&cli.CLI{WorkerConfig: "worker.yaml"}, cli.Target{Cluster: true})
	require.ErrorContains(t, err, "a cluster has workers of its own")
}
