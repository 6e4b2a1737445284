package deploy_test

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The release of one command for another platform has an archive with its checksum, and the formula
// and the npm packages name the archive.
func TestRelease(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a binary")
	}
	dist := filepath.Join(t.TempDir(), "dist")
	release := exec.CommandContext(t.Context(), "sh", "deploy/release/release.sh")
	release.Dir = ".."
	release.Env = append(os.Environ(), "DIST="+dist, "VERSION=v1.2.3", "TARGETS=linux/amd64", "COMMANDS=conclave-worker")
	said, err := release.CombinedOutput()
	require.NoError(t, err, string(said))

	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = dist
	said, err = check.CombinedOutput()
	require.NoError(t, err, string(said))
	const name = "conclave_1.2.3_linux_amd64"
	listed, err := exec.CommandContext(t.Context(), "tar", "-tzf", filepath.Join(dist, name+".tar.gz")).Output()
	require.NoError(t, err)
	for _, file := range []string{"LICENSE", "README.md", "CHANGELOG.md", "conclave-worker", "conclave-worker.cdx.json"} {
		require.Contains(t, string(listed), name+"/"+file+"\n")
	}

	requireBill(t, dist, name)
	sums, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	require.NoError(t, err)
	sum, _, _ := strings.Cut(string(sums), " ")
	formula, err := os.ReadFile(filepath.Join(dist, "conclave.rb"))
	require.NoError(t, err)
	require.Contains(t, string(formula), "/v1.2.3/"+name+".tar.gz\"\n      sha256 \""+sum+"\"")
	require.NotContains(t, string(formula), "@", "every placeholder is filled in")

	var launcher struct {
		Version  string
		Bin      map[string]string
		Optional map[string]string `json:"optionalDependencies"`
	}
	data, err := os.ReadFile(filepath.Join(dist, "npm/conclave/package.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &launcher))
	require.Equal(t, map[string]string{"conclave-linux-x64": "1.2.3"}, launcher.Optional)
	require.FileExists(t, filepath.Join(dist, "npm/conclave", launcher.Bin["conclave"]))
	require.FileExists(t, filepath.Join(dist, "npm/conclave-linux-x64/package.json"))
}

// requireBill checks that the archive's bill of materials has every module in its binary.
func requireBill(t *testing.T, dist, name string) {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(dist, name+".tar.gz"), "--strip-components=1", "-C", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var bill struct {
		Format     string `json:"bomFormat"`
		Spec       string `json:"specVersion"`
		Components []struct{ Name, Version, PURL string }
		Metadata   struct{ Component struct{ Name string } }
	}
	data, err := os.ReadFile(filepath.Join(dir, "conclave-worker.cdx.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &bill))
	require.Equal(t, "CycloneDX 1.6 conclave", bill.Format+" "+bill.Spec+" "+bill.Metadata.Component.Name)
	listed := map[string]string{}
	for _, c := range bill.Components {
		require.True(t, strings.HasPrefix(c.PURL, "pkg:golang/"+c.Name), c.PURL)
		listed[c.Name] = c.Version
	}
	require.Len(t, listed, len(bill.Components), "each module stands there once")
	built, err := buildinfo.ReadFile(filepath.Join(dir, "conclave-worker"))
	require.NoError(t, err)
	require.Equal(t, built.GoVersion, listed["std"])
	commit, err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Output()
	if git, none := os.Stat("../.git"); err == nil && none == nil && git.IsDir() { // Go finds no commit in a linked work tree, whose .git is a file
		require.Contains(t, built.Settings, debug.BuildSetting{Key: "vcs.revision", Value: strings.TrimSpace(string(commit))})
	}
	for _, dep := range built.Deps {
		require.Contains(t, listed, dep.Path)
	}
	require.Len(t, listed, len(built.Deps)+1)
	require.Contains(t, listed, "go.temporal.io/sdk")
}

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
