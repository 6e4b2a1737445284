package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"conclave/activities/sandbox"
)

const (
	python = "/usr/bin/python3"

	// raceMemory leaves room for the race detector, with which the child briefly runs under the
	// limit.
	raceMemory = 1 << 30
)

// remove is a Python function that keeps an open file of 1 MiB without a name.
const remove = `import tempfile,time as clock
def removed():
  f=tempfile.TemporaryFile(buffering=0); f.write(b"x"*(1<<20)); clock.sleep(0.01); return f
`

// headless returns a process whose first thread ends while another one runs do.
func headless(do string) string {
	return python + ` -c 'import ctypes,threading,time,platform
def run():
  time.sleep(0.5)
  ` + strings.ReplaceAll(do, "\n", "\n  ") + `
threading.Thread(target=run).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)'`
}

// eat returns a process that uses the given number of bytes of memory.
func eat(bytes string) string {
	return python + ` -c 'x=bytearray(` + bytes + `); import time; time.sleep(60)'`
}

// endings are commands that exceed a limit.
var endings = []struct {
	name   string
	limits sandbox.Limits
	script string
	want   string
}{
	{"time", sandbox.Limits{Time: 300 * time.Millisecond}, `sleep 60`, "time"},
	{"time, of processes that left", sandbox.Limits{Time: 300 * time.Millisecond}, `setsid sleep 60 & sleep 60`, "time"},
	{"processor time of one process", sandbox.Limits{CPU: time.Second, Time: 5 * time.Minute}, `while :; do :; done`, "cpu"},
	{
		"processor time of several",
		sandbox.Limits{CPU: time.Second, Time: 5 * time.Minute},
		`for i in 1 2 3 4; do (while :; do :; done) & done; wait`, "cpu",
	},
	{
		"processor time of short ones",
		sandbox.Limits{CPU: 500 * time.Millisecond, Time: 5 * time.Minute},
		`while :; do /bin/true; done`, "cpu",
	},
	{
		"memory of several processes",
		sandbox.Limits{Memory: raceMemory, Time: 5 * time.Minute},
		strings.ReplaceAll(`for i in 1 2 3 4; do EAT & done; wait`, "EAT", eat("400<<20")), "memory",
	},
	{
		"memory of processes whose first thread has ended",
		sandbox.Limits{Memory: raceMemory, Time: 5 * time.Minute},
		strings.ReplaceAll(`for i in 1 2 3 4; do EAT & done; wait; sleep 60`, "EAT", headless(`x=bytearray(400<<20); time.sleep(60)`)), "memory",
	},
	{
		"disk by files that were removed",
		sandbox.Limits{Disk: 8 << 20, Time: 5 * time.Minute},
		python + ` -c '` + remove + `keep=[removed() for i in range(16)]; clock.sleep(60)'`, "disk",
	},
	{
		"disk by files that were removed, of a process whose first thread has ended",
		sandbox.Limits{Disk: 8 << 20, Time: 5 * time.Minute},
		headless(remove+`keep=[removed() for i in range(16)]; clock.sleep(60)`) + `; sleep 60`, "disk",
	},
	{
		"disk by files that were removed, of a process that hides",
		sandbox.Limits{Disk: 64 << 20, Time: 5 * time.Minute},
		`cp ` + python + ` hidden && chmod 111 hidden && ./hidden -c '` + remove + `keep=[removed() for i in range(80)]; clock.sleep(60)'`, "disk",
	},
	{
		"disk by files that were removed, of a process that wants no looks",
		sandbox.Limits{Disk: 8 << 20, Time: 5 * time.Minute},
		python + ` -c 'import ctypes; ctypes.CDLL(None).prctl(4,0,0,0,0)` + "\n" + remove + `keep=[removed() for i in range(16)]; clock.sleep(60)'`, "disk",
	},
	{
		"disk by many files",
		sandbox.Limits{Disk: 8 << 20, Time: 5 * time.Minute},
		`i=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); sleep 0.02; done`, "disk",
	},
	{
		"disk by files with holes",
		sandbox.Limits{Disk: 8 << 20, Time: 5 * time.Minute},
		`truncate -s 8M a; truncate -s 8M b; sleep 60`, "disk",
	},
	{
		"disk by files with holes, of a command that is quicker than the measurements",
		sandbox.Limits{Disk: 8 << 20, Time: 5 * time.Minute},
		`truncate -s 8M a; truncate -s 8M b`, "disk",
	},
	{
		"disk in the temporary directory",
		sandbox.Limits{Disk: 8 << 20, Time: 5 * time.Minute},
		`i=0; while :; do head -c 1000000 /dev/zero > $TMPDIR/f$i; i=$((i+1)); sleep 0.02; done`, "disk",
	},
	{
		"disk in a shut directory",
		sandbox.Limits{Disk: 8 << 20, Time: 5 * time.Minute},
		`mkdir d; cd d; for i in 1 2 3 4 5 6 7 8 9 10; do head -c 1000000 /dev/zero > f$i; done; chmod 000 .; sleep 60`, "disk",
	},
	{
		"many files",
		sandbox.Limits{Files: 500, Time: 5 * time.Minute},
		`i=0; while :; do : > f$i; i=$((i+1)); done`, "files",
	},
	{
		"many directories in each other",
		sandbox.Limits{Files: 100_000, Time: 5 * time.Minute},
		`i=0; while :; do mkdir d && cd d; done`, "files",
	},
	{"output", sandbox.Limits{Output: 100_000, Time: 5 * time.Minute}, `yes`, "output"},
	{"output to both", sandbox.Limits{Output: 100_000, Time: 5 * time.Minute}, `yes >&2 & yes`, "output"},
}

func TestLimits_endACommand(t *testing.T) {
	t.Parallel()
	for _, test := range endings {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(test.script, python) {
				needs(t, python)
			}
			perLevel(t, func(t *testing.T, level sandbox.Level) {
				b := openBox(t, level, limitedTo(test.limits))
				exit, out := b.sh(t, test.script)
				require.Equal(t, test.want, exit.Ended, "%+v %.500s", exit, out)
				if test.limits.Output > 0 {
					require.Len(t, out, int(test.limits.Output))
				}
			})
		})
	}
}

func TestLimits_excessCanBeRemoved(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]sandbox.Limits{"bytes": {Disk: 8 << 20}, "files": {Files: 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			perLevel(t, func(t *testing.T, level sandbox.Level) {
				b := openBox(t, level, limitedTo(limits), func(o *sandbox.Options) {
					for i := range 40 {
						require.NoError(t, os.WriteFile(filepath.Join(o.Workspace, fmt.Sprint(i)), make([]byte, 1<<20), 0o600))
					}
				})
				b.must(t, `for f in *; do rm $f; sleep 0.05; done`) // long enough to be measured
				exit, _ := b.sh(t, `i=0; while [ $i -lt 60 ]; do head -c 1M /dev/zero > f$i; i=$((i+1)); done; sleep 60`)
				require.NotEmpty(t, exit.Ended)
			})
		})
	}
}

func TestLimits_memoryOfOneProcess(t *testing.T) {
	t.Parallel()
	needs(t, python)
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level, limitedTo(sandbox.Limits{Memory: raceMemory}))
		exit, out := b.sh(t, python+` -c 'x=bytearray(4<<30)'`)
		require.NotZero(t, exit.Code)
		require.Contains(t, out, "MemoryError")
	})
}

func TestLimits_memoryWithoutAProcessIsDenied(t *testing.T) {
	t.Parallel()
	needs(t, python)
	if host().Cgroup != "" {
		t.Skip("a memory group counts it")
	}
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level, limitedTo(sandbox.Limits{Memory: raceMemory}))
		exit, out := b.sh(t, python+` -c 'import os; os.memfd_create("x")'`)
		require.NotZero(t, exit.Code)
		require.Contains(t, out, "Function not implemented")
	})
}

func TestLimits_sizeOfOneFile(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level, limitedTo(sandbox.Limits{Disk: 4 << 20}))
		_, out := b.sh(t, `exec dd if=/dev/zero of=big bs=1M count=64`)
		info, err := os.Stat(filepath.Join(b.workspace, "big"))
		require.NoError(t, err, out)
		require.LessOrEqual(t, info.Size(), int64(4<<20))
	})
}

func TestLimits_processes(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level, limitedTo(sandbox.Limits{Processes: 40, Time: 5 * time.Minute}))
		exit, out := b.sh(t, `
			i=0; while [ $i -lt 3000 ]; do sleep 30 & i=$((i+1)); echo $i; done`)
		require.NotZero(t, exit.Code)
		if exit.Ended == "" { // The kernel refuses: the shell gives up at the first refusal.
			require.Contains(t, out, "ork", "cannot fork")
			require.LessOrEqual(t, strings.Count(out, "\n"), 40+16)
			return
		}
		require.Equal(t, "processes", exit.Ended)
		require.Less(t, strings.Count(out, "\n"), 1000, "the guard saw them")
	})
}

// Threads never exceed the limit, however fast they are made.
func TestLimits_threads(t *testing.T) {
	t.Parallel()
	needs(t, python)
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level, limitedTo(sandbox.Limits{Processes: 40, Time: 5 * time.Minute}))
		exit, out := b.sh(t, python+` -c 'import threading,time
for i in range(300):
  threading.Thread(target=time.sleep,args=(30,),daemon=True).start(); print(i,flush=True)'`)
		require.NotZero(t, exit.Code)
		require.Contains(t, out, "can't start new thread")
		require.LessOrEqual(t, strings.Count(out, "\n"), 40+16+20) // and Python's message
	})
}

// A shell's children end while it starts others; their signals must not disturb it.
func TestLimits_pipelinesDoNotFail(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level, limitedTo(sandbox.Limits{Processes: 200}))
		b.must(t, `set -e; i=0; while [ $i -lt 300 ]; do : | : | : | :; i=$((i+1)); done`)
	})
}

// All commands of a worker run as one user, but each has its own limit.
func TestLimits_processesOfOtherSandboxesDoNotCount(t *testing.T) {
	t.Parallel()
	versions := map[sandbox.Level][]int{sandbox.Full: {1, host().Landlock}, sandbox.Landlock: {host().Landlock}}
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		for _, version := range versions[level] {
			var boxes []box
			for range 3 {
				boxes = append(boxes, openBox(t, level, limitedTo(sandbox.Limits{Processes: 60, Time: 2 * time.Minute}), func(o *sandbox.Options) { o.Host.Landlock = version }))
			}
			var runs errgroup.Group
			for _, b := range boxes {
				runs.Go(func() error {
					var out bytes.Buffer
					exit, err := b.Run(t.Context(), sandbox.Command{Stdout: &out, Stderr: &out, Args: []string{"/bin/sh", "-c", `
						for i in $(seq 50); do sleep 120 & done
						: > ready; while [ ! -e go ]; do sleep 0.1; done
						for i in $(seq 20); do /bin/true || exit 3; done`}})
					if err == nil && exit.Code != 0 {
						err = fmt.Errorf("%+v: %s", exit, out.String())
					}
					return err
				})
			}
			for _, name := range []string{"ready", "go"} {
				for _, b := range boxes {
					if file := filepath.Join(b.workspace, name); name == "go" {
						require.NoError(t, os.WriteFile(file, nil, 0o600))
					} else {
						require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, 2*time.Minute, 50*time.Millisecond)
					}
				}
			}
			require.NoError(t, runs.Wait())
		}
	})
}

// The bomb is bounded and ends by itself if no limit stops it.
func TestLimits_forkBomb(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level, limitedTo(sandbox.Limits{Processes: 40, Time: 5 * time.Minute}))
		exit, _ := b.sh(t, `f() { echo x >> count; if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & fi; sleep 1; }; f 8; sleep 1`)
		count, err := os.ReadFile(filepath.Join(b.workspace, "count"))
		require.NoError(t, err)
		require.Greater(t, len(count), 20)
		if exit.Ended == "" {
			require.Less(t, len(count), 2*2*(40+16), "%+v", exit)
		} else {
			require.Equal(t, "processes", exit.Ended)
		}
		require.Empty(t, processesOf(t, b.workspace))
	})
}

func TestLimits_cannotBeLifted(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level, limitedTo(sandbox.Limits{Processes: 40, Memory: 1 << 30, Disk: 1 << 20, CPU: time.Minute}))
		for _, script := range []string{"ulimit -p 4000 || ulimit -u 4000", "ulimit -d unlimited", "ulimit -f unlimited", "ulimit -t unlimited"} {
			exit, _ := b.sh(t, script)
			require.NotZero(t, exit.Code, script)
		}
	})
}

func TestRun_endOfTheContextEndsTheCommand(t *testing.T) {
	t.Parallel()
	for _, level := range append(confining(t), sandbox.Off) {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			b := openBox(t, level)
			why := errors.New("the step is over")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			out := &watchful{until: "ready\n", then: func() { cancel(why) }}
			_, err := b.Run(ctx, sandbox.Command{Args: []string{"/bin/sh", "-c", "echo ready; exec sleep 60"}, Stdout: out})
			require.ErrorIs(t, err, why)
			require.Empty(t, processesOf(t, b.workspace))
		})
	}
}

// watchful calls a function once a text was written.
type watchful struct {
	bytes.Buffer
	until string
	then  func()
}

func (w *watchful) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.until) {
		w.then()
	}
	return n, err
}

func TestRun_errorOfTheWriterEndsTheCommand(t *testing.T) {
	t.Parallel()
	for _, level := range append(confining(t), sandbox.Off) {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			_, err := openBox(t, level).Run(t.Context(), sandbox.Command{Args: []string{"yes"}, Stdout: broken{}})
			require.ErrorIs(t, err, os.ErrClosed)
		})
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestRun_exit(t *testing.T) {
	t.Parallel()
	for _, level := range append(confining(t), sandbox.Off) {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			b := openBox(t, level)
			require.NoError(t, os.Mkdir(filepath.Join(b.workspace, "sub"), 0o700))
			exit, _ := b.sh(t, "exit 3")
			require.Equal(t, 3, exit.Code)
			exit, _ = b.sh(t, "kill -TERM $$")
			require.Equal(t, 128+15, exit.Code)
			require.Equal(t, "SIGTERM", exit.Signal)
			for code, args := range map[int][]string{127: {"no-such-program"}, 126: {"./sub"}} {
				var out bytes.Buffer
				exit, err := b.Run(t.Context(), sandbox.Command{Args: args, Stderr: &out})
				require.NoError(t, err)
				require.Equal(t, code, exit.Code, out.String())
				require.NotEmpty(t, out.String())
			}
			var out bytes.Buffer
			_, err := b.Run(t.Context(), sandbox.Command{Args: []string{"pwd"}, Dir: "sub", Stdout: &out})
			require.NoError(t, err)
			inside, err := filepath.EvalSymlinks(b.workspace)
			require.NoError(t, err)
			if level == sandbox.Full {
				inside = "/workspace"
			}
			require.Equal(t, inside+"/sub\n", out.String())
			_, err = b.Run(t.Context(), sandbox.Command{Args: []string{"pwd"}, Dir: "../.."})
			require.ErrorContains(t, err, "not inside the workspace")
		})
	}
}
