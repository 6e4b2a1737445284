package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"conclave/activities/mcp"
	"conclave/activities/sandbox"
	"conclave/engine/builtin"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Set selects the tools of a step.
type Set struct {
	Files bool // the file tools

	// Shell configures the sandbox of run_command, except for the workspace. If nil, there is no
	// shell.
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
	case call.Name == builtin.RunCommand:
		out, err = o.shell.run(ctx, call)
	case o.files.schemas[call.Name] != nil:
		out, err = o.files.run(ctx, call)
		written = o.files.written
	default:
		out, err = o.servers.Run(ctx, call)
		out.Text = o.files.shorten(call.Name, out.Text)
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

// Repeatable reports whether a call may run again in a restored workspace. File tools and commands
// confined without a network have no effects outside the workspace; all other tools are assumed to
// have such effects.
func Repeatable(tool string, confined bool) bool {
	if tool == builtin.RunCommand {
		return confined
	}
	return slices.ContainsFunc(builtin.Files(), func(t llm.Tool) bool { return t.Name == tool })
}
