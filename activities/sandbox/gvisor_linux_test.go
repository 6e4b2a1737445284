package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
)

// runsc stands in for the program of gVisor, which the tests do not start. It records its command lines
// and the configuration of the container.
type runsc struct{ path, records string }

// newRunsc returns a stand-in whose command run executes a script. The script finds the log in $log.
func newRunsc(t *testing.T, script string) runsc {
	t.Helper()
	r := runsc{path: filepath.Join(t.TempDir(), "runsc"), records: t.TempDir()}
	require.NoError(t, os.WriteFile(r.path, []byte(`#!/bin/sh
echo "$*" >> `+r.records+`/lines
for word; do
	case $word in
	--bundle=*) cp "${word#--bundle=}/config.json" `+r.records+` ;;
	--log=*) log=${word#--log=} ;;
	run | delete) command=$word ;;
	esac
done
test "$command" = run || exit 0
`+script+"\n"), 0o700))
	return r
}

func (r runsc) lines(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.records, "lines"))
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// host is one on which only gVisor is known to be there.
func (r runsc) host() sandbox.Host { return sandbox.Host{Level: sandbox.Off, Gvisor: r.path} }

func (r runsc) open(t *testing.T, change ...func(*sandbox.Options)) box {
	t.Helper()
	return openBox(t, sandbox.Off, append([]func(*sandbox.Options){func(o *sandbox.Options) { o.Level, o.Host = sandbox.Gvisor, r.host() }}, change...)...)
}

// container is the part of a container's configuration that the tests read.
type container struct {
	Process struct {
		Args, Env       []string
		Cwd             string
		Capabilities    map[string][]string
		NoNewPrivileges bool
		Rlimits         []struct {
			Type       string
			Soft, Hard int64
		}
	}
	Root struct {
		Path     string
		Readonly bool
	}
	Mounts []struct {
		Destination, Source string
		Options             []string
	}
	Linux struct{ Namespaces []struct{ Type string } }
}

func (r runsc) container(t *testing.T) (c container, mounts map[string]string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.records, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &c))
	mounts = map[string]string{}
	for _, m := range c.Mounts {
		mounts[m.Destination] = m.Source + " " + strings.Join(m.Options, ",")
	}
	return c, mounts
}

func TestGvisor_container(t *testing.T) {
	t.Parallel()
	r := newRunsc(t, "echo out; echo err >&2; exit 7")
	limits := sandbox.Limits{Processes: 20, Disk: 1 << 20, Memory: 64 << 20}
	b := r.open(t, within(limits), func(o *sandbox.Options) { o.ReadOnly = []string{"peers", "linked", "none"} })
	require.NoError(t, os.MkdirAll(filepath.Join(b.workspace, "peers"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(b.workspace, "sub"), 0o700))
	require.NoError(t, os.Symlink("/etc", filepath.Join(b.workspace, "linked")))
	var stdout, stderr bytes.Buffer
	exit, err := b.Run(t.Context(), sandbox.Command{
		Args: []string{"sh", "-c", "make test"}, Dir: "sub", Env: map[string]string{"A": "b"}, Stdout: &stdout, Stderr: &stderr,
	})
	require.NoError(t, err)
	require.Equal(t, "out\n", stdout.String())
	require.Equal(t, "err\n", stderr.String())
	require.Equal(t, 7, exit.Code)
	require.Empty(t, exit.Signal+exit.Ended)

	c, mounts := r.container(t)
	require.Regexp(t, `^/(usr/)?bin/sh$`, c.Process.Args[0])
	require.Equal(t, []string{"-c", "make test"}, c.Process.Args[1:])
	require.Equal(t, "/workspace/sub", c.Process.Cwd)
	require.Contains(t, c.Process.Env, "A=b")
	require.Contains(t, c.Process.Env, "HOME=/tmp/home")
	require.Empty(t, c.Process.Capabilities)
	require.True(t, c.Process.NoNewPrivileges && c.Root.Readonly)
	rlimits := map[string]int64{}
	for _, l := range c.Process.Rlimits {
		require.Equal(t, l.Soft, l.Hard)
		rlimits[l.Type] = l.Hard
	}
	require.Equal(t, map[string]int64{"RLIMIT_CORE": 0, "RLIMIT_NOFILE": 4096, "RLIMIT_NPROC": 20, "RLIMIT_FSIZE": 1 << 20}, rlimits)
	require.Equal(t, b.workspace+" rbind,nosuid,nodev", mounts["/workspace"])
	require.Equal(t, b.workspace+"/peers rbind,nosuid,nodev,ro", mounts["/workspace/peers"])
	require.Equal(t, "/usr rbind,nosuid,nodev,ro", mounts["/usr"])
	require.Contains(t, mounts["/dev/shm"], "size=16777216")
	require.NotContains(t, mounts, "/workspace/linked", "a link leads elsewhere")
	require.NotContains(t, mounts, "/workspace/none")
	for _, m := range c.Mounts {
		require.False(t, m.Source == "/" || strings.HasPrefix(m.Source, "/home") || m.Source == "/etc", m.Source)
	}

	lines := r.lines(t)
	require.Len(t, lines, 1, "runsc has removed the container itself")
	for _, flag := range []string{"--network=none", "--overlay2=none", " run --bundle="} {
		require.Contains(t, lines[0], flag)
	}
	require.Equal(t, os.Geteuid() != 0, strings.Contains(lines[0], "--rootless"))
	left, err := filepath.Glob(filepath.Join(b.temp, "gvisor-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestGvisor_ends(t *testing.T) {
	t.Parallel()
	const sh = "/bin/sh"
	for name, tt := range map[string]struct {
		script, program string
		limits          sandbox.Limits
		code            int
		ended, says     string
		err             string
		removed         bool // the container's state
	}{
		"the command's own 128": {script: "exit 128", code: 128},
		"gVisor fails":          {script: `printf '{"msg":"no platform","level":"error"}\n' > "$log"; exit 128`, err: "gVisor could not run the command: no platform"},
		"no such program":       {script: "exit 0", program: "no-such-program", code: 127, says: "no-such-program"},
		"too long":              {script: "sleep 60", limits: sandbox.Limits{Time: 200 * time.Millisecond}, ended: "time", removed: true},
		"too much processor":    {script: "while :; do :; done", limits: sandbox.Limits{CPU: 300 * time.Millisecond}, ended: "cpu", removed: true},
		"too much output":       {script: "yes; sleep 60", limits: sandbox.Limits{Output: 1 << 10}, ended: "output", removed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunsc(t, tt.script)
			b := r.open(t, within(tt.limits))
			if tt.program == "" {
				tt.program = sh
			}
			var out bytes.Buffer
			exit, err := b.Run(t.Context(), sandbox.Command{Args: []string{tt.program}, Stdout: &out, Stderr: &out})
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.ended, exit.Ended)
			require.Contains(t, out.String(), tt.says)
			if !tt.removed {
				require.Equal(t, tt.code, exit.Code)
				return
			}
			lines := r.lines(t)
			run, id := strings.Fields(lines[0]), ""
			id = run[len(run)-1]
			require.Len(t, lines, 2)
			require.True(t, strings.HasSuffix(lines[1], " delete --force "+id), lines[1])
		})
	}
}

func TestGvisor_cancelled(t *testing.T) {
	t.Parallel()
	r := newRunsc(t, "echo ready; sleep 60")
	b := r.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := b.Run(ctx, sandbox.Command{Args: []string{"sh"}, Stdout: &watchful{until: "ready\n", then: cancel}})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, r.lines(t), 2)
}

func TestGvisor_refused(t *testing.T) {
	t.Parallel()
	none := sandbox.Host{Level: sandbox.Full}
	_, err := sandbox.Open(sandbox.Options{Workspace: t.TempDir(), Temp: t.TempDir(), Level: sandbox.Gvisor, Host: none})
	require.ErrorContains(t, err, `sandbox level "gvisor", but this host gives "full": there is no program runsc on the PATH`)
	require.ErrorContains(t, none.Try(t.Context(), sandbox.Gvisor), "no program runsc")

	require.NoError(t, newRunsc(t, "exit 0").host().Try(t.Context(), sandbox.Gvisor))
	require.ErrorContains(t, newRunsc(t, "echo read it").host().Try(t.Context(), sandbox.Gvisor), "an attack succeeded: read it")
	require.ErrorContains(t, newRunsc(t, "exit 3").host().Try(t.Context(), sandbox.Gvisor), "/bin/true ended with 3")

	_, err = sandbox.Open(sandbox.Options{
		Workspace: t.TempDir(), Temp: t.TempDir(), Level: sandbox.Gvisor, Host: newRunsc(t, "").host(),
		Network: sandbox.Network{Serve: func(*os.File) io.Closer { return nil }},
	})
	require.ErrorContains(t, err, `cannot have a network at level "gvisor"`)
}
