package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/worker"
	"conclave/worker/cluster"
)

func alone(t *testing.T) (home string) {
	t.Helper()
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "TEMPORAL_") || strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "OPENAI_") || strings.HasPrefix(name, "XDG_") {
			t.Setenv(name, "") // restores the value after the test
			require.NoError(t, os.Unsetenv(name))
		}
	}
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Chdir(home)
	return home
}

func does(t *testing.T, args ...string) (int, error) {
	t.Helper()
	cmd := newCommand(&bytes.Buffer{})
	cmd.SetArgs(append([]string{}, args...))
	err := cmd.ExecuteContext(t.Context())
	return exitCode(t.Context(), err), err
}

func TestCommand_wrongUsageStartsNothing(t *testing.T) {
	home := alone(t)
	file := func(name, text string) string {
		path := filepath.Join(home, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	broken := file("broken.yaml", "providers:\n  openai: {base_ulr: https://h/v1}\n")
	inline := file("inline.yaml", "teams:\n  default:\n    agent: {id: agent_a, backend: {model: m, base_url: http://127.0.0.1:1/v1}}\n")
	program := file("program.yaml", "teams:\n  default:\n    agent: {id: agent_a, backend: {model: m}, mcp_servers: [{name: sh, command: /bin/sh}]}\n")
	shell := file("shell.yaml", "sandbox: {level: landlock, toolchains: [/no/such/directory]}\nteams:\n  default:\n    agent: {id: agent_a, backend: {type: offline}, tools: {shell: true}}\n")
	unpriced := file("unpriced.yaml", "providers:\n  house: {base_url: http://127.0.0.1:1/v1}\nteams:\n  cheap:\n    agent: {id: agent_a, backend: {provider: house, model: m}}\n    orchestrator: {budget: {max_cost_usd: 1}}\n")
	for _, tt := range []struct {
		line []string
		says string
	}{
		{[]string{"--worker-config", unpriced}, "use the team cheap: agent agent_a: a limit in dollars is set"},
		{[]string{"--address", "x:1", "--bucket", "b", "--worker-config", shell}, "use the default team: agent agent_a: no shell: "},
		{nil, "no address of a Temporal service; give --address, TEMPORAL_ADDRESS"},
		{[]string{"work"}, "unknown command"},
		{[]string{"--data-dir", "x"}, "unknown flag: --data-dir"},
		{[]string{"--address", "x:1"}, "--bucket"},
		{[]string{"--address", "x:1", "--bucket", "b", "--max-concurrent-steps", "-1"}, "at least 1"},
		{[]string{"--log-format", "xml"}, `--log-format is "xml"; it takes text or json`},
		{[]string{"--log-level", "loud"}, `--log-level is "loud"; it takes debug, info, warn or error`},
		{[]string{"--worker-config", "none.yaml"}, "read the worker configuration: open none.yaml"},
		{[]string{"--worker-config", broken}, "broken.yaml:2:12: providers.openai.base_ulr: unknown key; did you mean base_url?"},
		{[]string{"--worker-config", inline}, "inline.yaml:3:56: teams.default.agents[0].backend.base_url: not accepted here"},
		{[]string{"--worker-config", program}, "teams.default.agents[0].mcp_servers[0]: not accepted here"},
	} {
		got, err := does(t, tt.line...)
		require.Equal(t, exitUsage, got, "%v", tt.line)
		require.ErrorContains(t, err, tt.says, "%v", tt.line)
	}
}

func TestCommand_unreachableCluster(t *testing.T) {
	alone(t)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := listener.Addr().String()
	require.NoError(t, listener.Close())

	t.Setenv("TEMPORAL_ADDRESS", nobody)
	got, err := does(t, "--bucket", "sessions", "--offline")
	require.Equal(t, exitUsage, got)
	require.ErrorContains(t, err, "connect to Temporal at "+nobody)
	require.Contains(t, cluster.Explain(err), "cannot be reached")
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.Equal(t, exitStopped, exitCode(t.Context(), nil))
	require.Equal(t, exitStopped, exitCode(stopped, context.Canceled))
	require.Equal(t, exitUsage, exitCode(t.Context(), errors.New("whatever")))
	require.Equal(t, exitEnded, exitCode(t.Context(), fmt.Errorf("%w: the namespace is gone", worker.ErrEnded)))
}

func TestConfig_defaultTeam(t *testing.T) {
	home := alone(t)
	path := filepath.Join(home, "worker.yaml")
	require.NoError(t, os.WriteFile(path, []byte("providers: {p: {base_url: http://h/v1}}\nmax_concurrent_steps: 4\nmetrics_address: 127.0.0.1:0\n"+
		"teams: {default: {agent: {id: agent_x, backend: {provider: p, model: m}}}}\n"), 0o600))
	// A file that happens to lie where a worker is started is not its team.
	require.NoError(t, os.WriteFile(filepath.Join(home, "conclave.yaml"), []byte("agent: {id: agent_y, backend: {model: m}}\n"), 0o600))

	cfg, err := flags{}.workerConfig()
	require.NoError(t, err)
	require.Equal(t, config.Default(), cfg.Teams.Named["default"], "the built-in team of three")
	require.Nil(t, cfg.Metrics, "nothing is counted without an address")

	cfg, err = flags{WorkerFlags: cluster.WorkerFlags{Settings: path}}.workerConfig()
	require.NoError(t, err)
	require.Equal(t, "agent_x", cfg.Teams.Named["default"].Agents[0].ID)
	require.Equal(t, 4, cfg.MaxConcurrentSteps)
	require.Contains(t, cfg.Models.Providers, "p")
	require.NotNil(t, cfg.Metrics)
	require.Equal(t, "127.0.0.1:0", cfg.MetricsAddress)

	cfg, err = flags{WorkerFlags: cluster.WorkerFlags{Settings: path, Offline: true, MaxSteps: 2}}.workerConfig()
	require.NoError(t, err)
	require.Equal(t, config.Offline, cfg.Teams.Named["default"].Agents[0].Backend.Type)
	require.Equal(t, 2, cfg.MaxConcurrentSteps, "a flag comes before the file")
}

func TestBinary_linksNoServer(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	deps := string(out)
	require.Contains(t, deps, "go.temporal.io/sdk/worker\n", "the list is one of dependencies")
	for _, unwanted := range []string{"go.temporal.io/server", "github.com/temporalio/ui-server", "github.com/versity/versitygw", "conclave/cmd/conclave/"} {
		require.NotContains(t, deps, unwanted)
	}
}
