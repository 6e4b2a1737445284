package sandbox_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
)

// daemon leaves background processes in all ways that a shell offers; they write to a file.
const daemon = `
tick() { while :; do echo x >> ticks; sleep 0.05; done; }
tick & (tick &) ; (trap '' HUP TERM INT; tick) &
setsid sh -c 'while :; do echo x >> ticks; sleep 0.05; done' >/dev/null 2>&1 &
while [ ! -s ticks ]; do sleep 0.02; done
`

func TestRun_leavesNoProcess(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level)
		start := time.Now()
		b.must(t, daemon)
		require.Less(t, time.Since(start), time.Minute, "a process that holds the output open does not block the call")
		silent(t, b.workspace)
	})
}

func TestRun_commandCannotKillItsGuard(t *testing.T) {
	t.Parallel()
	needs(t, python)
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		versions := []int{host().Landlock}
		if level == sandbox.Landlock {
			versions = append(versions, 2) // the filter has to replace the kernel's rule
		}
		for _, version := range versions {
			b := openBox(t, level, limitedTo(sandbox.Limits{Time: 2 * time.Minute}), func(o *sandbox.Options) { o.Host.Landlock = min(version, o.Host.Landlock) })
			exit, out := b.sh(t, daemon+`export GUARD=$PPID
				`+python+` -c '
import os, signal, ctypes, platform
guard = int(os.environ["GUARD"])
tgkill, tkill = {"x86_64": (234, 200), "aarch64": (131, 130)}[platform.machine()]
call = ctypes.CDLL(None).syscall
for s in signal.SIGSTOP, signal.SIGKILL:
    for send in [os.kill, os.killpg] if guard > 1 else [os.kill]:
        try: send(guard, s)
        except OSError: pass
    call(tkill, guard, s)
    for tid in range(guard, guard+20): call(tgkill, guard, tid, s)
'
				echo still here`)
			require.Contains(t, out, "still here")
			require.Equal(t, sandbox.Exit{}, sandbox.Exit{Code: exit.Code, Signal: exit.Signal, Ended: exit.Ended}, out)
			silent(t, b.workspace)
		}
	})
}

func TestClose_endsCommands(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level)
		out := &watchful{until: "ready\n", then: func() { go func() { _ = b.Close() }() }}
		_, err := b.Run(t.Context(), sandbox.Command{Args: []string{"/bin/sh", "-c", daemon + "echo ready; sleep 60"}, Stdout: out})
		require.ErrorContains(t, err, "closed")
		silent(t, b.workspace)
		_, err = b.Run(t.Context(), sandbox.Command{Args: []string{"true"}})
		require.ErrorContains(t, err, "closed")
	})
}

func TestRun_nothingSurvivesAKilledWorker(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "workspace"), 0o700))
		self, err := os.Executable()
		require.NoError(t, err)
		worker := exec.CommandContext(t.Context(), self)
		worker.Env = append(os.Environ(), holder+"="+string(level), "SANDBOX_DIR="+dir,
			"SANDBOX_LANDLOCK="+strconv.Itoa(host().Landlock))
		worker.Stderr = os.Stderr
		out, err := worker.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, worker.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
		workspace := filepath.Join(dir, "workspace")
		require.NotEmpty(t, processesOf(t, workspace))
		require.NoError(t, worker.Process.Signal(syscall.SIGKILL))
		require.Error(t, worker.Wait())
		require.Eventually(t, func() bool { return len(processesOf(t, workspace)) == 0 }, time.Minute, 20*time.Millisecond)
		silent(t, workspace)
	})
}

// hold is the killed worker: it runs a command without an end.
func hold() {
	dir := os.Getenv("SANDBOX_DIR")
	landlock, err := strconv.Atoi(os.Getenv("SANDBOX_LANDLOCK"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	level := sandbox.Level(os.Getenv(holder))
	s, err := sandbox.Open(sandbox.Options{
		Workspace: filepath.Join(dir, "workspace"), Temp: dir, Level: level,
		Host: sandbox.Host{Level: level, Landlock: landlock},
	})
	if err == nil {
		_, err = s.Run(context.Background(), sandbox.Command{
			Args: []string{"/bin/sh", "-c", daemon + "echo ready; sleep 600"}, Stdout: os.Stdout, Stderr: os.Stderr,
		})
	}
	fmt.Println(err)
	os.Exit(1)
}

// silent requires that no process writes to the ticks any more. It waits several of their intervals.
func silent(t *testing.T, workspace string) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(filepath.Join(workspace, "ticks"))
		if err != nil {
			return -1
		}
		return info.Size()
	}
	require.Positive(t, size())
	require.Empty(t, processesOf(t, workspace))
	before := size()
	require.Never(t, func() bool { now := size(); return now >= 0 && now != before }, 300*time.Millisecond, 50*time.Millisecond)
}

// processesOf lists the host's processes with a workspace as their working directory, by its real path or
// by a mount in a namespace.
func processesOf(t *testing.T, workspace string) []string {
	t.Helper()
	var want syscall.Stat_t
	require.NoError(t, syscall.Stat(workspace, &want))
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	var found []string
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		var st syscall.Stat_t
		if syscall.Stat("/proc/"+entry.Name()+"/cwd", &st) != nil || st.Ino != want.Ino || st.Dev != want.Dev {
			continue
		}
		cmdline, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		found = append(found, strings.ReplaceAll(string(cmdline), "\x00", " "))
	}
	return found
}

func owner(t *testing.T, path string) int {
	t.Helper()
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(path, &st))
	return int(st.Uid)
}

// A program with the child's name, but without its pipes or with an environment, runs as usual.
func TestChild_needsMoreThanItsName(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*exec.Cmd){
		"with an environment": func(cmd *exec.Cmd) { cmd.Env = []string{"A=B"} },
		"without pipes":       func(*exec.Cmd) {},
		"with files": func(cmd *exec.Cmd) {
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, null.Close()) })
			cmd.ExtraFiles = []*os.File{null, null}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
			cmd.Args, cmd.Env = []string{childName}, []string{}
			change(cmd)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err)
			require.Equal(t, "no child\n", string(out))
		})
	}
}
