package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/workflows"
)

func TestTarget_dataDirectory(t *testing.T) {
	s := stage.NewShell(t, nil)
	for name, tt := range map[string]struct{ flag, xdg, want string }{
		"home":               {"", "", filepath.Join(s.Home, ".local/share/conclave")},
		"XDG":                {"", "/xdg", "/xdg/conclave"},
		"XDG relative":       {"", "xdg", filepath.Join(s.Home, ".local/share/conclave")},
		"flag":               {"/there", "/xdg", "/there"},
		"flag made absolute": {"there", "", filepath.Join(s.Home, "there")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_DATA_HOME", tt.xdg)
			got, err := (&cli.CLI{DataDir: tt.flag}).Target()
			require.NoError(t, err)
			require.False(t, got.Cluster)
			require.Equal(t, tt.want, got.DataDir)
		})
	}
	t.Setenv("TEMPORAL_NAMESPACE", "of-a-cluster")
	got, err := (&cli.CLI{}).Target()
	require.NoError(t, err, "a namespace is not an address")
	require.False(t, got.Cluster)
}

func TestTarget_cluster(t *testing.T) {
	s := stage.NewShell(t, nil)
	s.File("temporal.toml", `
[profile.default]
address = "default:7233"
[profile.prod]
address = "prod:7233"
namespace = "agents"
api_key = "secret"
`)
	for name, tt := range map[string]struct {
		cli             cli.CLI
		env             map[string]string
		host, namespace string
	}{
		"flag":                    {cli.CLI{Address: "flag:7233"}, nil, "flag:7233", "default"},
		"environment":             {cli.CLI{}, map[string]string{"TEMPORAL_ADDRESS": "env:7233", "TEMPORAL_NAMESPACE": "n"}, "env:7233", "n"},
		"flag before environment": {cli.CLI{Address: "flag:7233", Namespace: "f"}, map[string]string{"TEMPORAL_ADDRESS": "env:7233", "TEMPORAL_NAMESPACE": "n"}, "flag:7233", "f"},
		"file":                    {cli.CLI{}, map[string]string{"TEMPORAL_CONFIG_FILE": "temporal.toml"}, "default:7233", "default"},
		"profile":                 {cli.CLI{}, map[string]string{"TEMPORAL_CONFIG_FILE": "temporal.toml", "TEMPORAL_PROFILE": "prod"}, "prod:7233", "agents"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			got, err := tt.cli.Target()
			require.NoError(t, err)
			require.True(t, got.Cluster)
			require.Equal(t, tt.host, got.Options.HostPort)
			require.Equal(t, tt.namespace, got.Options.Namespace)
		})
	}
	t.Setenv("TEMPORAL_PROFILE", "gone")
	_, err := (&cli.CLI{}).Target()
	require.ErrorContains(t, err, "gone")
	require.ErrorContains(t, err, "temporal.toml")
}

func TestTarget_noHomeNamesTheFlag(t *testing.T) {
	stage.NewShell(t, nil)
	require.NoError(t, os.Unsetenv("HOME"))
	_, err := (&cli.CLI{}).Target()
	require.ErrorContains(t, err, "--data-dir")
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "conclave watch s1", (&cli.CLI{Queue: workflows.TaskQueue}).CommandLine("watch", "s1"))
	require.Equal(t, "conclave list --data-dir '/my data/it'\\''s'", (&cli.CLI{Queue: workflows.TaskQueue, DataDir: "/my data/it's"}).CommandLine("list"))
	require.Equal(t, "conclave status s1 --address h:1 --namespace n --bucket b --prefix p --task-queue q",
		(&cli.CLI{Queue: "q", Address: "h:1", Namespace: "n", Bucket: "b", Prefix: "p"}).CommandLine("status", "s1"))
}
