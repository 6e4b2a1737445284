//go:build e2e

package deploy_test

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests of this file run one after the other: the second build finds the packages of the first.

func TestDockerfile_buildsAStaticWorkerThatAcceptsTheCommandLine(t *testing.T) {
	source, out := t.TempDir(), t.TempDir()
	copyContext(t, source)
	build := exec.CommandContext(t.Context(), "sh", "-euc", strings.ReplaceAll(readDockerfile(t).build(t), "/out/", out+"/"))
	build.Dir, build.Env = source, append(os.Environ(), "GOFLAGS=-mod=readonly")
	said, err := build.CombinedOutput()
	require.NoError(t, err, string(said))

	binary := filepath.Join(out, "conclave-worker")
	file, err := elf.Open(binary)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	require.False(t, slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }), "nothing is linked at run time")
	info, err := os.Stat(binary)
	require.NoError(t, err)
	t.Logf("conclave-worker: %.1f MB", float64(info.Size())/1e6)
	require.Less(t, info.Size(), int64(100e6), "no server is linked in")

	// It gets as far as the connection to a Temporal service that does not exist.
	code, stderr := run(t, binary, readCompose(t).Services["worker"])
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "connect to Temporal at")
	require.Contains(t, stderr, "the server cannot be reached")
}

// run runs a worker with the command line of a service of compose.yaml, without its
// cluster.
func run(t *testing.T, binary string, s service) (code int, stderr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := listener.Addr().String()
	require.NoError(t, listener.Close())

	args := slices.Clone(s.Command)
	for _, v := range s.Volumes { // the files are not where the container has them
		source, target, _ := strings.Cut(v, ":")
		target, _, _ = strings.Cut(target, ":")
		i := slices.Index(args, target)
		require.GreaterOrEqual(t, i, 0, "the command line names %s", target)
		args[i], err = filepath.Abs(source)
		require.NoError(t, err)
	}
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Stderr = t.TempDir(), &out
	for name, value := range s.Environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "HOME="+t.TempDir(), "TEMPORAL_ADDRESS="+nobody)
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// build returns the shell command that builds the worker.
func (d dockerfile) build(t *testing.T) string {
	t.Helper()
	for _, line := range d.all("RUN") {
		line = regexp.MustCompile(`--mount=\S+\s+`).ReplaceAllString(line, "")
		if strings.Contains(line, "go build") {
			return line
		}
	}
	require.Fail(t, "no go build in the Dockerfile")
	return ""
}

// copyContext copies the build context into dir.
func copyContext(t *testing.T, dir string) {
	t.Helper()
	rules, err := os.ReadFile("Dockerfile.dockerignore")
	require.NoError(t, err)
	kept := 0
	for line := range strings.Lines(string(rules)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "!")
		if !ok {
			continue
		}
		kept++
		source, target := filepath.Join("..", path), filepath.Join(dir, path)
		info, err := os.Stat(source)
		require.NoError(t, err, "the build context has %s", path)
		require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o700))
		if info.IsDir() {
			require.NoError(t, os.CopyFS(target, os.DirFS(source)))
			continue
		}
		data, err := os.ReadFile(source)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(target, data, 0o600))
	}
	require.Positive(t, kept, "everything is ignored but what is named")
}

// The release of one command for another platform has an archive with its checksum, and the formula
// and the npm packages name the archive.
func TestRelease(t *testing.T) {
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
