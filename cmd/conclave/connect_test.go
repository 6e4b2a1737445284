package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/workflows/drive"
)

func TestWithoutAnAddressTheTargetIsTheDataDirectory(t *testing.T) {
	s := newShell(t)
	for name, tt := range map[string]struct{ flag, xdg, want string }{
		"home":               {"", "", filepath.Join(s.home, ".local/share/conclave")},
		"XDG":                {"", "/xdg", "/xdg/conclave"},
		"XDG relative":       {"", "xdg", filepath.Join(s.home, ".local/share/conclave")},
		"flag":               {"/there", "/xdg", "/there"},
		"flag made absolute": {"there", "", filepath.Join(s.home, "there")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_DATA_HOME", tt.xdg)
			got, err := (&cli{dataDir: tt.flag}).target()
			require.NoError(t, err)
			require.False(t, got.cluster)
			require.Equal(t, tt.want, got.dataDir)
		})
	}
	t.Setenv("TEMPORAL_NAMESPACE", "of-a-cluster")
	got, err := (&cli{}).target()
	require.NoError(t, err, "a namespace is not an address")
	require.False(t, got.cluster)
}

func TestAnAddressMakesItACluster(t *testing.T) {
	s := newShell(t)
	s.file("temporal.toml", `
[profile.default]
address = "default:7233"
[profile.prod]
address = "prod:7233"
namespace = "agents"
api_key = "secret"
`)
	for name, tt := range map[string]struct {
		cli             cli
		env             map[string]string
		host, namespace string
	}{
		"flag":                    {cli{address: "flag:7233"}, nil, "flag:7233", "default"},
		"environment":             {cli{}, map[string]string{"TEMPORAL_ADDRESS": "env:7233", "TEMPORAL_NAMESPACE": "n"}, "env:7233", "n"},
		"flag before environment": {cli{address: "flag:7233", namespace: "f"}, map[string]string{"TEMPORAL_ADDRESS": "env:7233", "TEMPORAL_NAMESPACE": "n"}, "flag:7233", "f"},
		"file":                    {cli{}, map[string]string{"TEMPORAL_CONFIG_FILE": "temporal.toml"}, "default:7233", "default"},
		"profile":                 {cli{}, map[string]string{"TEMPORAL_CONFIG_FILE": "temporal.toml", "TEMPORAL_PROFILE": "prod"}, "prod:7233", "agents"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			got, err := tt.cli.target()
			require.NoError(t, err)
			require.True(t, got.cluster)
			require.Equal(t, tt.host, got.options.HostPort)
			require.Equal(t, tt.namespace, got.options.Namespace)
		})
	}
	t.Setenv("TEMPORAL_PROFILE", "gone")
	_, err := (&cli{}).target()
	require.ErrorContains(t, err, "gone")
	require.ErrorContains(t, err, "temporal.toml")
}

func TestNoHomeNamesTheFlag(t *testing.T) {
	newShell(t)
	require.NoError(t, os.Unsetenv("HOME"))
	_, err := (&cli{}).target()
	require.ErrorContains(t, err, "--data-dir")
}

func TestAgainLeadsBackToTheSamePlace(t *testing.T) {
	t.Parallel()
	require.Equal(t, "conclave watch s1", (&cli{queue: drive.TaskQueue}).again("watch", "s1"))
	require.Equal(t, "conclave list --data-dir '/my data/it'\\''s'", (&cli{queue: drive.TaskQueue, dataDir: "/my data/it's"}).again("list", ""))
	require.Equal(t, "conclave status s1 --address h:1 --namespace n --bucket b --prefix p --task-queue q",
		(&cli{queue: "q", address: "h:1", namespace: "n", bucket: "b", prefix: "p"}).again("status", "s1"))
}
