package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
	"conclave/activities/tools"
	"conclave/engine/llm"
)

// toolbox is a workspace with opened tools.
type toolbox struct {
	t   *testing.T
	dir string
	set *tools.Opened

	level sandbox.Level
}

func openToolbox(t *testing.T, s tools.Set) toolbox {
	t.Helper()
	d := toolbox{t: t, dir: filepath.Join(t.TempDir(), "work")}
	require.NoError(t, os.Mkdir(d.dir, 0o755))
	var err error
	d.set, err = tools.Open(t.Context(), d.dir, s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.set.Close()) })
	return d
}

func (d toolbox) run(tool string, pairs ...any) string {
	d.t.Helper()
	out, err := d.set.Run(d.t.Context(), llm.ToolCall{ID: "c", Name: tool, Arguments: args(pairs...)})
	require.NoError(d.t, err)
	return out.Text
}

// sh runs a command and returns the description of its end and its output.
func (d toolbox) sh(command string) (end, output string) {
	d.t.Helper()
	end, output, _ = strings.Cut(d.run("run_command", "command", command), "\n")
	return end, output
}

// atEachLevel runs a test with a shell at each level that this host offers.
func atEachLevel(t *testing.T, limits sandbox.Limits, test func(*testing.T, toolbox)) {
	t.Helper()
	available := false
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Landlock} {
		available = available || host().Level == level
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			if !available {
				t.Skipf("this host offers no sandbox of this level: %v", host().Missing)
			}
			d := openToolbox(t, tools.Set{Files: true, Shell: &sandbox.Options{Level: level, Host: host(), Limits: limits}})
			d.level = level
			test(t, d)
		})
	}
}

// generousLimits are limits with room for every test.
func generousLimits() sandbox.Limits {
	return sandbox.Limits{Time: time.Minute, CPU: time.Minute, Memory: 1 << 30, Processes: 128, Disk: 256 << 20}
}

func TestShell_command(t *testing.T) {
	t.Parallel()
	atEachLevel(t, generousLimits(), func(t *testing.T, d toolbox) {
		end, output := d.sh("echo out; echo err >&2; echo again; exit 3")
		require.Regexp(t, `^exit code 3, [0-9.]+ s; output:$`, end)
		require.Equal(t, "out\nerr\nagain\n", output, "both streams, in order")

		end, _ = d.sh("true")
		require.Regexp(t, `^exit code 0, [0-9.]+ s; no output$`, end)
		end, _ = d.sh("kill -9 $$")
		require.Regexp(t, `^exit code 137, killed by SIGKILL`, end)
		end, output = d.sh("no-such-program")
		require.Regexp(t, `^exit code 127`, end)
		require.Contains(t, output, "not found")

		_, output = d.sh("printf '\\033[31mred\\033[0m\\0 caf\\351\\n1%%\\r2%%\\n'")
		require.Equal(t, "red caf\uFFFD\n2%\n", output)
		_, output = d.sh("a=1\nfor i in 1 2; do\n  echo $a $i\ndone")
		require.Equal(t, "1 1\n1 2\n", output, "a script")
	})
}

// Commands and file tools see the same files, including those of earlier commands.
func TestShell_worksInTheWorkspace(t *testing.T) {
	t.Parallel()
	atEachLevel(t, generousLimits(), func(t *testing.T, d toolbox) {
		d.run("write_file", "path", "src/a.txt", "content", "one\n")
		_, output := d.sh("cat src/a.txt; echo two >> src/a.txt; ln -s a.txt src/b.txt; echo tmp > $TMPDIR/x")
		require.Equal(t, "one\n", output)
		require.Equal(t, "one\ntwo\n", d.run("read_file", "path", "src/b.txt"))
		_, output = d.sh("cat $TMPDIR/x; rm -r src; ls -A")
		require.Equal(t, "tmp\n", output)
		require.Equal(t, "[nothing found in .]", d.run("list_files"), "no file of the tools is left")
	})
}

// The state of the shell is the set of temporary files that commands have left.
func TestShell_state(t *testing.T) {
	t.Parallel()
	atEachLevel(t, generousLimits(), func(t *testing.T, d toolbox) {
		state := func() string {
			tools := d.set.Tools()
			require.Equal(t, "run_command", tools[len(tools)-1].Name)
			return tools[len(tools)-1].State
		}
		d.sh("touch report.txt ~/.profile")
		require.Empty(t, state())
		d.sh("touch $TMPDIR/log")
		left := state()
		require.NotEmpty(t, left)
		d.sh("touch $TMPDIR/more")
		require.Equal(t, left, state())
		d.sh("rm $TMPDIR/*o*")
		require.Empty(t, state())
	})
}

func TestShell_peersAreReadOnly(t *testing.T) {
	t.Parallel()
	atEachLevel(t, generousLimits(), func(t *testing.T, d toolbox) {
		peer := filepath.Join(d.dir, "peers", "agent2")
		require.NoError(t, os.MkdirAll(peer, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(peer, "a.txt"), []byte("theirs\n"), 0o644))
		_, output := d.sh("cat peers/agent2/a.txt; cp -r peers/agent2 mine && echo copied")
		require.Equal(t, "theirs\ncopied\n", output)
		for _, command := range []string{"echo x > peers/agent2/a.txt", "rm peers/agent2/a.txt", "touch peers/new", "mv peers/agent2 gone", "rm -rf peers"} {
			end, _ := d.sh(command)
			require.NotContains(t, end, "exit code 0", command)
		}
		content, err := os.ReadFile(filepath.Join(peer, "a.txt"))
		require.NoError(t, err)
		require.Equal(t, "theirs\n", string(content))
	})
}

// Commands can read the base and not change it; its files do not count as theirs.
func TestShell_baseIsReadOnly(t *testing.T) {
	t.Parallel()
	atEachLevel(t, generousLimits(), func(t *testing.T, d toolbox) {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "base"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "base", "a.txt"), []byte("before\n"), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "large"), make([]byte, 3<<20), 0o644))
		require.NoError(t, os.Chmod(filepath.Join(dir, "base"), 0o555))
		limits := generousLimits()
		limits.Disk = 2 << 20
		set, err := tools.Open(t.Context(), dir, tools.Set{Files: true, Shell: &sandbox.Options{Level: d.level, Host: host(), Limits: limits}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, set.Close()) })
		d.dir, d.set = dir, set
		_, output := d.sh("cat base/a.txt; cp base/a.txt mine && echo copied")
		require.Equal(t, "before\ncopied\n", output)
		for _, command := range []string{"echo x > base/a.txt", "rm base/a.txt", "touch base/new", "mv base/a.txt gone"} {
			end, _ := d.sh(command)
			require.NotContains(t, end, "exit code 0", command)
		}
		require.Contains(t, set.Tools()[len(set.Tools())-1].Description, "in which peers/ and base/ are read-only")
	})
}

func TestShell_hidesHostPaths(t *testing.T) {
	t.Parallel()
	atEachLevel(t, generousLimits(), func(t *testing.T, d toolbox) {
		real, err := filepath.EvalSymlinks(filepath.Dir(d.dir))
		require.NoError(t, err)
		_, output := d.sh("pwd; pwd -P; echo $PWD $TMPDIR $HOME; env; readlink -f .; ls no-such-file; python3 -c 'import os; print(os.getcwd())'")
		require.NotEmpty(t, output)
		require.NotContains(t, output, real)
		require.NotContains(t, output, filepath.Dir(d.dir))

		end, output := d.sh("for i in $(seq 5000); do pwd; done")
		require.Contains(t, end, "exit code 0")
		require.NotContains(t, output, real)
		if names := regexp.MustCompile(`command-output/\d+\.txt`).FindString(output); names != "" {
			require.NotContains(t, d.run("read_file", "path", names), real)
		}
	})
}

func TestShell_storesLongOutput(t *testing.T) {
	t.Parallel()
	atEachLevel(t, generousLimits(), func(t *testing.T, d toolbox) {
		end, output := d.sh("seq 20000")
		require.Contains(t, end, "; output, the beginning and the end:")
		require.True(t, strings.HasPrefix(output, "1\n2\n"))
		require.True(t, strings.HasSuffix(output, "\n19999\n20000\n"))
		require.Contains(t, output, "are not shown; the whole is in command-output/001.txt, which is not part of an answer …]")
		require.Less(t, len(output), 34<<10)
		whole, err := os.ReadFile(filepath.Join(d.dir, "command-output/001.txt"))
		require.NoError(t, err)
		require.Equal(t, 20000, strings.Count(string(whole), "\n"))
		require.Equal(t, "10000\n", strings.SplitAfter(d.run("read_file", "path", "command-output/001.txt", "offset", 10000, "limit", 1), "\n")[0])

		_, output = d.sh("grep -rc 19999 .; seq 20000")
		require.True(t, strings.HasPrefix(output, "./command-output/001.txt:1\n"), "a command does not find its own output")
		require.Contains(t, output, "command-output/002.txt")
		require.NoError(t, os.Remove(filepath.Join(d.dir, "command-output/002.txt")))
		_, output = d.sh("seq 20000")
		require.Contains(t, output, "command-output/003.txt", "no number is used twice")
		for range 20 {
			d.sh("seq 20000")
		}
		left, err := os.ReadDir(filepath.Join(d.dir, "command-output"))
		require.NoError(t, err)
		require.Len(t, left, 20)
		require.Contains(t, d.run("read_file", "path", "command-output/001.txt"), "only the newest outputs are kept")
	})
}

// An agent can replace the directory of outputs.
func TestShell_storesOutputThroughNoLink(t *testing.T) {
	t.Parallel()
	atEachLevel(t, generousLimits(), func(t *testing.T, d toolbox) {
		outside := t.TempDir()
		_, output := d.sh("ln -s " + outside + " command-output; seq 20000")
		require.Contains(t, output, "could not be kept: command-output is a symbolic link")
		entries, err := os.ReadDir(outside)
		require.NoError(t, err)
		require.Empty(t, entries)
		_, output = d.sh("rm command-output; mkdir -p peers; ln -s peers command-output; seq 20000")
		require.Contains(t, output, "could not be kept")
		_, output = d.sh("rm command-output; echo > command-output; seq 20000")
		require.Contains(t, output, "could not be kept: command-output is a file")
	})
}

func TestShell_worksAfterALimit(t *testing.T) {
	t.Parallel()
	limits := sandbox.Limits{Time: time.Minute, Memory: 1 << 30, Processes: 40, Disk: 32 << 20} // the race detector takes a lot
	worksAfter(t, limits, map[string]string{
		`python3 -c "x = [bytearray(1 << 20) for i in range(2000)]; input()"`:  "more than 1.0 GB of memory together",
		"for i in $(seq 200); do sleep 30 & done; wait":                        "processes",
		"for i in 1 2 3 4 5; do head -c 20M /dev/zero > big$i; done; sleep 20": "more than 32.0 MB together; remove unneeded files",
		"yes": "it wrote more than 64.0 MB of output; write less",
	})
	limits.CPU = 2 * time.Second
	worksAfter(t, limits, map[string]string{"while :; do :; done": "ended: it used more than 2 s of processor time; do less at once"})
}

// worksAfter requires that the shell still works after each command, which exceeds the limit named
// by its value.
func worksAfter(t *testing.T, limits sandbox.Limits, commands map[string]string) {
	t.Helper()
	atEachLevel(t, limits, func(t *testing.T, d toolbox) {
		for command, says := range commands {
			end, output := d.sh(command)
			if !strings.HasPrefix(end, "ended") { // a limit may also be an error of the program itself
				require.NotContains(t, end, "exit code 0", "%s: %s", command, output)
				t.Logf("%s: %s\n%.300s", command, end, output)
			} else {
				require.Contains(t, end, says, command)
			}
			end, output = d.sh("rm -f big*; echo fine")
			require.Contains(t, end, "exit code 0", "after %s: %s", command, output)
			require.Equal(t, "fine\n", output, "after %s", command)
		}
	})
}

func TestShell_timeLimit(t *testing.T) {
	t.Parallel()
	limits := generousLimits()
	limits.Time = 10 * time.Second
	atEachLevel(t, limits, func(t *testing.T, d toolbox) {
		begun := time.Now()
		said := d.run("run_command", "command", "echo begun; sleep 600", "timeout_seconds", 5)
		require.Equal(t, "ended after 5 s, its time limit; give it more with timeout_seconds (at most 10), or do less at once; output:\nbegun\n", said)
		said = d.run("run_command", "command", "echo begun; sleep 600", "timeout_seconds", 1e12)
		require.Equal(t, "ended after 10 s, its time limit; do less at once; output:\nbegun\n", said)
		require.Less(t, time.Since(begun), 5*time.Minute)
	})
}

// Background processes end with their command.
func TestShell_endsBackgroundProcesses(t *testing.T) {
	t.Parallel()
	atEachLevel(t, generousLimits(), func(t *testing.T, d toolbox) {
		end, output := d.sh("(while :; do date +%N > alive; sleep 0.05; done) >/dev/null 2>&1 & sleep 0.3; echo started")
		require.Contains(t, end, "exit code 0")
		require.Equal(t, "started\n", output)
		before := d.run("read_file", "path", "alive")
		d.sh("sleep 0.3")
		require.Equal(t, before, d.run("read_file", "path", "alive"))
	})
}

func TestShell_endOfTheStepEndsTheCommand(t *testing.T) {
	t.Parallel()
	atEachLevel(t, generousLimits(), func(t *testing.T, d toolbox) {
		cause := errors.New("the session is over")
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(200*time.Millisecond, func() { stop(cause) })
		_, err := d.set.Run(ctx, llm.ToolCall{Name: "run_command", Arguments: `{"command": "sleep 60"}`})
		require.ErrorIs(t, err, cause, "an error, not a result for the model")
		_, err = d.set.Run(ctx, llm.ToolCall{Name: "run_command", Arguments: `{"command": "true"}`})
		require.ErrorIs(t, err, cause)
	})
}

func TestShell_arguments(t *testing.T) {
	t.Parallel()
	atEachLevel(t, generousLimits(), func(t *testing.T, d toolbox) {
		for arguments, says := range map[string]string{
			`{}`:                      `run_command needs the argument "command"; it takes {"command": string, "timeout_seconds"?: integer}`,
			`{"command": ""}`:         "the command is empty",
			`{"command": "a\u0000b"}`: "contains a NUL character",
			`{"command": ["ls"]}`:     "wrong arguments for run_command",
			`{"comand": "ls"}`:        `run_command has no argument "comand"; did you mean "command"?`,
			`ls`:                      "are not a JSON object",
			`{"command": "ls", "timeout_seconds": 0}`:             "wrong arguments for run_command",
			`{"command": "ls", "timeout_seconds": "5"}`:           "wrong arguments for run_command",
			`{"command": "` + strings.Repeat("x", 200_000) + `"}`: "write it to a file as a script",
		} {
			out, err := d.set.Run(t.Context(), llm.ToolCall{Name: "run_command", Arguments: arguments})
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(out.Text, "error: "), out.Text)
			require.Contains(t, out.Text, says)
		}
		require.Contains(t, d.run("run_command", "command", "true", "timeout_seconds", nil), "exit code 0", "null is absent")
	})
}

func TestShell_description(t *testing.T) {
	t.Parallel()
	atEachLevel(t, generousLimits(), func(t *testing.T, d toolbox) {
		list := d.set.Tools()
		tool := list[len(list)-1]
		require.Equal(t, "run_command", tool.Name)
		require.True(t, json.Valid(tool.Parameters))
		for _, fact := range []string{
			"there is no network", "peers/ is read-only", "/tmp) is for temporary files", "everything that it started is ended too",
			"60 s of time, 60 s of processor time, 1.0 GB of memory, 128 processes, 256.0 MB of files",
		} {
			require.Contains(t, tool.Description, fact)
		}
		require.NotContains(t, tool.Description, d.dir)
	})
}

func TestShell_descriptionOfANetwork(t *testing.T) {
	t.Parallel()
	if host().Level != sandbox.Full {
		t.Skip("commands have a network at level full only")
	}
	serve := func(socket *os.File) io.Closer { return socket }
	d := openToolbox(t, tools.Set{Shell: &sandbox.Options{Level: sandbox.Full, Host: host(), Network: sandbox.Network{Reaches: "code.example:443", Serve: serve}}})
	list := d.set.Tools()
	require.Contains(t, list[len(list)-1].Description, "of the network it reaches only code.example:443, with programs that use the proxy in $HTTPS_PROXY. ")
	require.NotContains(t, list[len(list)-1].Description, "there is no network")
}

// Level off confines nothing, and the description does not claim that it does.
func TestShell_withoutASandbox(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no /bin/sh here")
	}
	d := openToolbox(t, tools.Set{Shell: &sandbox.Options{Level: sandbox.Off, Host: sandbox.Host{Level: sandbox.Off}, Limits: generousLimits()}})
	require.NotContains(t, d.set.Tools()[0].Description, "network")
	end, output := d.sh("pwd; exit 1")
	require.Contains(t, end, "exit code 1")
	require.Equal(t, ".\n", output)
}

func TestShell_refusedWithoutTheRequiredLevel(t *testing.T) {
	t.Parallel()
	_, err := tools.Open(t.Context(), t.TempDir(), tools.Set{Shell: &sandbox.Options{
		Level: sandbox.Full, Host: sandbox.Host{Level: sandbox.Landlock, Missing: []string{"user namespaces are off"}}, Limits: generousLimits(),
	}})
	var level *sandbox.LevelError
	require.ErrorAs(t, err, &level)
	require.ErrorContains(t, err, "user namespaces are off")
}

// A failed command is distinguished from one that a limit ended.
func TestShell_outcome(t *testing.T) {
	t.Parallel()
	atEachLevel(t, sandbox.Limits{Time: 10 * time.Second}, func(t *testing.T, d toolbox) {
		for command, want := range map[string]struct {
			failed bool
			code   int // -1 for none
		}{"true": {false, 0}, "exit 3": {true, 3}, "sleep 600": {true, -1}} {
			out, err := d.set.Run(t.Context(), llm.ToolCall{ID: "c", Name: "run_command", Arguments: args("command", command)})
			require.NoError(t, err)
			require.Equal(t, want.failed, out.Failed, command)
			if want.code < 0 {
				require.Nil(t, out.ExitCode, command)
				continue
			}
			require.Equal(t, want.code, *out.ExitCode, command)
		}
		out, err := d.set.Run(t.Context(), llm.ToolCall{ID: "c", Name: "run_command", Arguments: args("comand", "true")})
		require.NoError(t, err)
		require.True(t, out.Failed, "a refusal")
	})
}

// The description names the programs that the files need and this machine has not.
func TestShell_describesWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir, bin := t.TempDir(), t.TempDir()
	for _, name := range []string{"cargo", "gradle"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755))
	}
	work := filepath.Join(dir, "work")
	require.NoError(t, os.Mkdir(work, 0o755))
	description := func() string {
		set, err := tools.Open(t.Context(), work, tools.Set{Shell: &sandbox.Options{Level: sandbox.Off, Host: sandbox.Host{Level: sandbox.Off}, Toolchains: []string{bin}}})
		require.NoError(t, err)
		defer func() { require.NoError(t, set.Close()) }()
		return set.Tools()[0].Description
	}
	require.NotContains(t, description(), "There is no")
	for _, name := range []string{"Cargo.toml", "build.gradle", "pom.xml"} {
		require.NoError(t, os.WriteFile(filepath.Join(work, name), nil, 0o600))
	}
	if _, err := sandbox.FindProgram("mvn", nil); err == nil {
		t.Skip("this machine has Maven")
	}
	require.True(t, strings.HasSuffix(description(), " are shown, and the file with the whole is named. There is no mvn here, for pom.xml, and it cannot be installed: if you need it, say so."), description())
}
