package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"conclave/activities/sandbox"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// RunCommand is the name of the shell's tool.
const RunCommand = "run_command"

//go:embed run_command.json
var shellDescription []byte

// What bounds a command beyond the operator's limits.
const (
	maxCommand   = 100 << 10 // bytes of a command line: the kernel takes 128 KiB
	maxDelivered = 64 << 20  // bytes of output after which a command is ended
	maxFiles     = 200_000   // files and directories in the workspace and /tmp
)

// shell is the tool run_command on one workspace. Calls come one after another.
type shell struct {
	box     *sandbox.Sandbox
	limits  sandbox.Limits
	program string
	tool    llm.Tool
	schema  *schema
	outputs outputs
	hide    []string // paths of this machine and what is shown for them, in pairs
}

// commandArguments are those of run_command.
type commandArguments struct {
	Command        string  `json:"command"`
	TimeoutSeconds float64 `json:"timeout_seconds"` // a model's integer may be 2.0
}

// openShell makes a sandbox on the workspace. What is not said in o is decided
// here: the workspace, its read-only part, and where temporary files are.
func openShell(o sandbox.Options, workspace string, files *Files) (*shell, error) {
	o.Workspace, o.ReadOnly = workspace, []string{peers}
	if o.Temp == "" {
		// Beside the workspace: it goes with the step, and counts as its disk.
		o.Temp = filepath.Dir(workspace)
	}
	o.Limits.Output, o.Limits.Files = maxDelivered, maxFiles
	s := &shell{limits: o.Limits, program: shellProgram(), hide: hidden(workspace), outputs: outputs{files: files, spool: o.Temp}}
	if err := json.Unmarshal(shellDescription, &s.tool); err != nil {
		return nil, fmt.Errorf("reading the description of %s: %w", RunCommand, err)
	}
	s.tool.Description = describeShell(s.program, o.Level, o.Limits)
	var err error
	if s.schema, err = compile(s.tool); err != nil {
		return nil, err
	}
	if s.box, err = sandbox.Open(o); err != nil {
		return nil, err
	}
	return s, nil
}

// shellProgram is bash where there is one.
func shellProgram() string {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return "bash"
	}
	return "sh"
}

// describeShell is what a model is told of the tool.
func describeShell(program string, level sandbox.Level, l sandbox.Limits) string {
	reach := "It sees the workspace, in which peers/ is read-only, the system's programs and libraries, and nothing else of this machine; there is no network. "
	if level == sandbox.Off {
		reach = "peers/ in the workspace is read-only; change nothing outside of the workspace. "
	}
	var limits []string
	for _, limit := range []struct {
		set  bool
		text string
	}{
		{l.Time > 0, fmt.Sprintf("%s of time", seconds(l.Time))},
		{l.CPU > 0, fmt.Sprintf("%s of processor time", seconds(l.CPU))},
		{l.Memory > 0, size(l.Memory) + " of memory"},
		{l.Processes > 0, fmt.Sprintf("%d processes", l.Processes)},
		{l.Disk > 0, size(l.Disk) + " of files, in the workspace and /tmp together"},
	} {
		if limit.set {
			limits = append(limits, limit.text)
		}
	}
	return fmt.Sprintf("Run a command in %s, in the workspace directory, and get its exit code and output. "+
		reach+"$TMPDIR (/tmp) is for temporary files: it stays from command to command and is not part of an answer. "+
		"Standard input is empty, there is no terminal. When the command ends, everything that it started is ended too, in the background or not: "+
		"what belongs together, such as a server and the test that uses it, goes into one command. "+
		"The limits of one command: %s. Of output longer than %s the beginning and the end are shown, and the file with the whole is named.",
		program, strings.Join(limits, ", "), size(shownHead+shownTail))
}

// Run carries out a call like Files.Run.
func (s *shell) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	text, err := s.run(ctx, call)
	return told(ctx, call, loop.Output{Text: text}, err)
}

var errTimeLimit = errors.New("the time of the command is over")

func (s *shell) run(ctx context.Context, call llm.ToolCall) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var a commandArguments
	if err := s.schema.decode(call.Arguments, &a); err != nil {
		return "", err
	}
	switch {
	case strings.TrimSpace(a.Command) == "":
		return "", refuse("the command is empty")
	case strings.ContainsRune(a.Command, 0):
		return "", refuse("the command contains a NUL character; write such data to a file, for instance with printf")
	case len(a.Command) > maxCommand:
		return "", refuse("the command has %s, a command line has at most %s; write it to a file as a script and run that", size(int64(len(a.Command))), size(maxCommand))
	}
	out := &capture{hide: hider{pairs: s.hide}, spool: s.outputs.spool}
	defer out.close()
	end, err := s.carryOut(ctx, a, out)
	if err != nil {
		return "", err
	}
	out.finish()
	return end + out.show(s.outputs.keep), nil
}

// carryOut runs a command and says how it ended.
func (s *shell) carryOut(ctx context.Context, a commandArguments, out *capture) (string, error) {
	limit := s.limits.Time
	if a.TimeoutSeconds > 0 && (limit == 0 || a.TimeoutSeconds < limit.Seconds()) {
		limit = time.Duration(min(a.TimeoutSeconds, 1e9) * float64(time.Second))
		// The sandbox has one limit for all commands; a shorter one is ours to keep.
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, errTimeLimit)
		defer stop()
	}
	exit, err := s.box.Run(ctx, sandbox.Command{
		// One stream, so that what is written to both comes in the order in which it
		// was written.
		Args:   []string{"sh", "-c", `exec "$0" -c "$1" 2>&1`, s.program, a.Command},
		Env:    map[string]string{"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"},
		Stdout: out, Stderr: out,
	})
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errTimeLimit):
		return describeEnd(sandbox.Exit{Ended: sandbox.EndedTime, Duration: limit}, s.limits, limit), nil
	case err != nil:
		return "", fmt.Errorf("running a command in the sandbox: %w", err)
	}
	return describeEnd(exit, s.limits, limit), nil
}

// hidden pairs the real paths of the workspace and of what is around it with
// what is true of a command that runs in the workspace.
func hidden(workspace string) []string {
	paths := []string{workspace}
	if real, err := filepath.EvalSymlinks(workspace); err == nil && real != workspace {
		paths = append(paths, real)
	}
	var pairs []string
	for _, p := range paths {
		pairs = append(pairs, p, ".")
	}
	for _, p := range paths {
		if around := filepath.Dir(p); strings.Count(around, string(filepath.Separator)) > 1 {
			pairs = append(pairs, around, "..")
		}
	}
	return pairs
}

// Close ends what still runs and removes the temporary files.
func (s *shell) Close() error { return s.box.Close() }
