package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/activities/mcp"
	"conclave/activities/sandbox"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/text"
)

// Limits of a command in addition to the operator's.
const (
	maxCommand   = 100 << 10 // bytes of a command line: the kernel's limit is 128 KiB
	maxDelivered = 64 << 20  // most bytes of output
	maxFiles     = 200_000   // files and directories in the workspace and /tmp
)

// shell implements run_command in one workspace. It is not safe for concurrent use.
type shell struct {
	box     *sandbox.Sandbox
	limits  sandbox.Limits
	program string
	tool    llm.Tool
	schema  *llm.Schema
	outputs outputs
}

type commandArguments struct {
	Command        string  `json:"command"`
	TimeoutSeconds float64 `json:"timeout_seconds"` // float64 because models also write 2.0
}

func openShell(o sandbox.Options, workspace string, files *fileTools) (*shell, error) {
	o.Workspace, o.ReadOnly = workspace, files.mounts
	if o.Temp == "" {
		// Put temporary files beside the workspace: that directory is removed with the step and
		// counts toward its disk limit.
		o.Temp = filepath.Dir(workspace)
	}
	o.Limits.Output, o.Limits.Files = maxDelivered, maxFiles
	s := &shell{limits: o.Limits, program: shellProgram(), outputs: outputs{files: files, spool: o.Temp, mask: hostPaths(workspace)}}
	s.tool = llm.ShellTool()
	s.tool.Description = describeShell(s.program, o, files.mounts) + describeMissing(workspace, o.Toolchains)
	o.Beyond = len(files.mounts) > 1
	s.schema, _ = llm.CompileSchema(s.tool) // the schemas of built-in tools are valid
	var err error
	if s.box, err = sandbox.Open(o); err != nil {
		return nil, err
	}
	return s, nil
}

func shellProgram() string {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return "bash"
	}
	return "sh"
}

func describeShell(program string, o sandbox.Options, mounts []string) string {
	network := "there is no network, and what the workspace and the caches of build tools lack cannot be downloaded: if you need it, say so. "
	if o.Network.Serve != nil {
		network = "of the network it reaches only " + o.Network.Reaches + ", with programs that use the proxy in $HTTPS_PROXY. "
	}
	l, reach := o.Limits, "It sees the workspace, in which "+describeMounts(mounts, "")+", the system's programs and libraries, and nothing else of this machine; "+network
	if o.Level == sandbox.Off {
		reach = describeMounts(mounts, "in the workspace ") + "; change nothing outside of the workspace. "
	}
	var limits []string
	for _, limit := range []struct {
		set  bool
		text string
	}{
		{l.Time > 0, fmt.Sprintf("%s of time", formatSeconds(l.Time))},
		{l.CPU > 0, fmt.Sprintf("%s of processor time", formatSeconds(l.CPU))},
		{l.Memory > 0, text.Size(l.Memory) + " of memory"},
		{l.Processes > 0, fmt.Sprintf("%d processes", l.Processes)},
		{l.Disk > 0, text.Size(l.Disk) + " of files, in the workspace, /tmp and caches of build tools together"},
	} {
		if limit.set {
			limits = append(limits, limit.text)
		}
	}
	return fmt.Sprintf("Run a command in %s, in the workspace directory, and get its exit code and output. "+
		reach+"$TMPDIR (/tmp) is for temporary files: it stays from command to command and is not part of an answer. "+
		"Standard input is empty, there is no terminal. When the command ends, everything that it started is ended too, in the background or not: "+
		"things that belong together, such as a server and the test that uses it, go into one command. "+
		"The limits of one command: %s. Of output longer than %s the beginning and the end are shown, and the file with the whole is named.",
		program, strings.Join(limits, ", "), text.Size(shownHead+shownTail))
}

// needs has programs by the files of projects that need them.
var needs = map[string]string{
	"go.mod": "go", "package.json": "npm", "Cargo.toml": "cargo", "pyproject.toml": "python3", "requirements.txt": "python3",
	"Makefile": "make", "CMakeLists.txt": "cmake", "pom.xml": "mvn", "build.gradle": "gradle", "Gemfile": "ruby",
}

// describeMissing names the programs that the files of a workspace need and that commands do not have.
func describeMissing(workspace string, toolchains []string) (missing string) {
	for _, file := range slices.Sorted(maps.Keys(needs)) {
		_, absent := os.Lstat(filepath.Join(workspace, file))
		if _, err := sandbox.FindProgram(needs[file], toolchains); err != nil && absent == nil {
			missing += fmt.Sprintf(" There is no %s here, for %s, and it cannot be installed: if you need it, say so.", needs[file], file)
		}
	}
	return missing
}

func (s *shell) runCommand(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	var a commandArguments
	if err := s.schema.Decode(call.Arguments, &a); err != nil {
		return loop.Output{}, err
	}
	switch {
	case strings.TrimSpace(a.Command) == "":
		return loop.Output{}, refuse("the command is empty")
	case strings.ContainsRune(a.Command, 0):
		return loop.Output{}, refuse("the command contains a NUL character; write such data to a file, for instance with printf")
	case len(a.Command) > maxCommand:
		return loop.Output{}, refuse("the command has %s, a command line has at most %s; write it to a file as a script and run that", text.Size(int64(len(a.Command))), text.Size(maxCommand))
	}
	out := &capture{mask: s.outputs.mask, spool: s.outputs.spool}
	defer out.close()
	exit, limit, err := s.execute(ctx, a, out)
	if err != nil {
		return loop.Output{}, err
	}
	result := loop.Output{Text: describeEnd(exit, s.limits, limit) + out.showOutput(s.outputs.keepOutput), Failed: true}
	if exit.Ended == "" {
		result.Failed, result.ExitCode = exit.Code != 0, &exit.Code
	}
	return result, nil
}

func (s *shell) execute(ctx context.Context, a commandArguments, out *capture) (exit sandbox.Exit, limit time.Duration, err error) {
	limit = s.limits.Time
	if asked := time.Duration(min(a.TimeoutSeconds, 1e9) * float64(time.Second)); asked > 0 && (limit == 0 || asked < limit) {
		limit = asked
	}
	exit, err = s.box.Run(ctx, sandbox.Command{
		// A single stream preserves the order of standard output and standard error.
		Args:   []string{"sh", "-c", `exec "$0" -c "$1" 2>&1`, s.program, a.Command},
		Env:    map[string]string{"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"},
		Time:   limit,
		Stdout: out, Stderr: out,
	})
	if err != nil {
		err = fmt.Errorf("run a command in the sandbox: %w", err)
	}
	return exit, limit, err
}

// hostPaths returns a replacer that makes the paths of the workspace and its parent relative to the
// workspace.
func hostPaths(workspace string) *strings.Replacer {
	paths := []string{workspace}
	if real, err := filepath.EvalSymlinks(workspace); err == nil && real != workspace {
		paths = append(paths, real)
	}
	var pairs []string
	for _, p := range paths {
		pairs = append(pairs, p, ".")
	}
	for _, p := range paths {
		if parent := filepath.Dir(p); strings.Count(parent, string(filepath.Separator)) > 1 {
			pairs = append(pairs, parent, "..")
		}
	}
	return strings.NewReplacer(pairs...)
}

// describeEnd describes how a command ended. If it exceeded a limit, the text includes a remedy;
// limit is the time limit of this command.
func describeEnd(e sandbox.Exit, l sandbox.Limits, limit time.Duration) string {
	switch e.Ended {
	case "time":
		remedy := "do less at once"
		if limit < l.Time {
			remedy = fmt.Sprintf("give it more with timeout_seconds (at most %d), or do less at once", int(l.Time.Seconds()))
		}
		return fmt.Sprintf("ended after %s, its time limit; %s", formatSeconds(limit), remedy)
	case "cpu":
		return fmt.Sprintf("ended: it used more than %s of processor time; do less at once", formatSeconds(l.CPU))
	case "memory":
		return fmt.Sprintf("ended: its processes used more than %s of memory together; use less at a time, or fewer processes", text.Size(l.Memory))
	case "processes":
		return fmt.Sprintf("ended: it had more than %d processes and threads; start fewer at a time", l.Processes)
	case "disk":
		return fmt.Sprintf("ended: the files in the workspace and /tmp had more than %s together; remove unneeded files", text.Size(l.Disk))
	case "files":
		return fmt.Sprintf("ended: there were more than %d files and directories in the workspace and /tmp; remove unneeded files", l.Files)
	case "output":
		return fmt.Sprintf("ended: it wrote more than %s of output; write less, for instance to a file, or through head or grep", text.Size(l.Output))
	}
	how := "exit code " + strconv.Itoa(e.Code)
	if e.Signal != "" {
		how += ", killed by " + e.Signal
	}
	return how + ", " + formatSeconds(e.Duration)
}

// formatSeconds formats a duration in seconds, with one decimal if it is fractional and below ten.
func formatSeconds(d time.Duration) string {
	if d < 10*time.Second && d%time.Second != 0 {
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return strconv.Itoa(int(d.Round(time.Second).Seconds())) + " s"
}

// Set selects the tools of a step.
type Set struct {
	Files bool // the file tools

	// Shell configures the sandbox of run_command, except for the workspace. If nil, there is no shell.
	Shell *sandbox.Options

	// Servers are MCP servers with further tools.
	Servers []mcp.Server

	// Place is where the servers run. Its Dir is ignored and set to the workspace.
	Place mcp.Place
}

// closeTimeout bounds Opened.Close.
const closeTimeout = 15 * time.Second

// Opened holds the open tools of one step.
type Opened struct {
	set     Set
	files   *fileTools // also stores long outputs of the shell
	shell   *shell
	servers *mcp.Client
}

// Open opens the tools of s in a workspace. It returns a *sandbox.LevelError if the host cannot
// confine commands as required, and an *mcp.StartError if an MCP server cannot be reached.
func Open(ctx context.Context, workspace string, s Set) (*Opened, error) {
	files, err := openFiles(workspace)
	if err != nil {
		return nil, err
	}
	o := &Opened{files: files, set: s}
	if s.Shell != nil {
		if o.shell, err = openShell(*s.Shell, workspace, files); err != nil {
			return nil, errors.Join(fmt.Errorf("open the sandbox: %w", err), o.Close())
		}
	}
	if len(s.Servers) > 0 {
		s.Place.Dir = workspace
		if o.servers, err = mcp.Open(ctx, s.Servers, s.Place); err != nil {
			return nil, errors.Join(err, o.Close())
		}
	}
	return o, nil
}

// Tools returns the descriptions of the tools. Those of MCP servers may change between calls.
func (o *Opened) Tools() []llm.Tool {
	var list []llm.Tool
	if o.set.Files {
		list = slices.Clone(o.files.tools)
	}
	if o.shell != nil {
		shell := o.shell.tool
		shell.State = o.shell.box.Leftovers()
		list = append(list, shell)
	}
	if o.servers != nil {
		list = append(list, o.servers.Tools()...)
	}
	return list
}

// Run executes a call. It returns an error only for a fault of the host or the end of ctx.
func (o *Opened) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	var out loop.Output
	var err error
	var written []string // nil means unknown
	tools := o.Tools()
	switch {
	case !slices.ContainsFunc(tools, func(t llm.Tool) bool { return t.Name == call.Name }):
		err = unknownTool(call.Name, tools)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case call.Name == llm.RunCommand:
		out, err = o.shell.runCommand(ctx, call)
	case o.files.schemas[call.Name] != nil:
		out, err = o.files.runTool(ctx, call)
		written = o.files.written
	default:
		out, err = o.servers.Run(ctx, call)
		out.Text = o.files.shortenResult(call.Name, out.Text)
		return out, err
	}
	out, err = toOutput(ctx, call, out, err)
	out.Files = written
	return out, err
}

// Close ends the servers and the commands concurrently, within closeTimeout.
func (o *Opened) Close() error {
	var closing []func() error
	if o.shell != nil {
		closing = append(closing, o.shell.box.Close)
	}
	if o.servers != nil {
		closing = append(closing, o.servers.Close)
	}
	done := make(chan error, len(closing))
	for _, end := range closing {
		go func() { done <- end() }()
	}
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	err := o.files.root.Close()
	for range closing {
		select {
		case ended := <-done:
			err = errors.Join(err, ended)
		case <-timeout.C:
			return errors.Join(err, fmt.Errorf("close the tools of a step: not ended after %s", closeTimeout))
		}
	}
	return err
}

// Repeatable reports whether a call may run again in a restored workspace. File tools and commands confined
// without a network have no effects outside the workspace; all other tools are assumed to have such effects.
func Repeatable(tool string, confined bool) bool {
	if tool == llm.RunCommand {
		return confined
	}
	return slices.ContainsFunc(llm.FileTools(), func(t llm.Tool) bool { return t.Name == tool })
}
