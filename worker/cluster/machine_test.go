package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/worker/cluster"
)

func TestUserDir(t *testing.T) {
	t.Setenv("HOME", "/home/u")
	for variable, want := range map[string]string{
		"":           "/home/u/.local/state/conclave",
		"relative":   "/home/u/.local/state/conclave",
		"/var/state": "/var/state/conclave",
	} {
		t.Setenv("XDG_STATE_HOME", variable)
		dir, err := cluster.UserDir("XDG_STATE_HOME", ".local", "state")
		require.NoError(t, err)
		require.Equal(t, want, dir)
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	_, err := cluster.UserDir("XDG_STATE_HOME", ".local", "state")
	require.Error(t, err)
}

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:80": true, "127.8.0.1:80": true, "::1": true, "[::1]": true, "[::1]:80": true,
		"localhost": true, "LocalHost:80": true,
		"": false, ":80": false, "0.0.0.0:80": false, "10.0.0.1": false, "localhost.example.com": false, "127.0.0.1.example.com:80": false,
	} {
		require.Equal(t, want, cluster.IsLoopback(address), address)
	}
}
