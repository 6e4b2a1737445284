package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The launcher runs the program of its platform's package with its arguments, and passes on the exit code.
func TestLauncher(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node")
	}
	dir := t.TempDir()
	launcher, err := os.ReadFile("release/launcher.js")
	require.NoError(t, err)
	script := filepath.Join(dir, "conclave.js")
	require.NoError(t, os.WriteFile(script, launcher, 0o600))
	var out bytes.Buffer
	run := func() int {
		out.Reset()
		cmd := exec.CommandContext(t.Context(), node, script, "list", "--json")
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // its exit code is checked
		return cmd.ProcessState.ExitCode()
	}
	require.Equal(t, 1, run())
	require.Contains(t, out.String(), "there is no package conclave-")

	platform, err := exec.CommandContext(t.Context(), node, "-p", "`conclave-${process.platform}-${process.arch}`").Output()
	require.NoError(t, err)
	bin := filepath.Join(dir, "node_modules", strings.TrimSpace(string(platform)), "bin")
	require.NoError(t, os.MkdirAll(bin, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "conclave"), []byte("#!/bin/sh\necho \"given $*\"; exit 3\n"), 0o755))
	require.Equal(t, 3, run())
	require.Equal(t, "given list --json\n", out.String())
}
