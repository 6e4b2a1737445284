package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"conclave/activities/mcp"
	"conclave/activities/sandbox"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Set says which tools a step has.
type Set struct {
	Files bool

	// Shell is the sandbox of commands; nil for no shell. Its workspace and
	// read-only parts are filled in.
	Shell *sandbox.Options

	// Servers are the MCP servers whose tools there are.
	Servers []mcp.Server

	// Log is told what servers say that no model should read; nil for nobody.
	Log *slog.Logger
}

// closeTime bounds the closing of all that is open.
const closeTime = 15 * time.Second

// Opened are the tools of one step as one: files, shell, MCP servers.
type Opened struct {
	files   *Files
	offered bool // whether the file tools are among them
	shell   *shell
	servers *mcp.Client
}

// OpenSet opens the tools of s on a workspace. Its error is a *sandbox.LevelError
// where commands cannot be confined as they have to be, and an *mcp.StartError
// where an MCP server does not start or cannot be reached. The caller closes what is opened.
func OpenSet(ctx context.Context, workspace string, s Set) (*Opened, error) {
	files, err := Open(workspace)
	if err != nil {
		return nil, err
	}
	o := &Opened{files: files, offered: s.Files}
	if s.Shell != nil {
		if o.shell, err = openShell(*s.Shell, workspace, files); err != nil {
			return nil, errors.Join(fmt.Errorf("opening the sandbox: %w", err), o.Close())
		}
	}
	if len(s.Servers) > 0 {
		if o.servers, err = mcp.Open(ctx, s.Servers, workspace, s.Log); err != nil {
			return nil, errors.Join(err, o.Close())
		}
	}
	return o, nil
}

// Tools describes the tools there are now: those of MCP servers may change.
func (o *Opened) Tools() []llm.Tool {
	var list []llm.Tool
	if o.offered {
		list = o.files.Tools()
	}
	if o.shell != nil {
		list = append(list, o.shell.tool)
	}
	if o.servers != nil {
		list = append(list, o.servers.Tools()...)
	}
	return list
}

// Run carries out a call and returns what the model is told, objections
// included. An error is a fault of the machinery or the end of ctx.
func (o *Opened) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	tools := o.Tools()
	switch known := slices.ContainsFunc(tools, func(t llm.Tool) bool { return t.Name == call.Name }); {
	case !known:
		return told(ctx, call, loop.Output{}, unknown(call.Name, tools))
	case mcp.Is(call.Name):
		return o.servers.Run(ctx, call)
	case call.Name == RunCommand:
		return o.shell.Run(ctx, call)
	}
	return o.files.Run(ctx, call)
}

// Close ends the servers and what commands left, all at once and within a time
// that is bounded whatever they do. Calls after it fail.
func (o *Opened) Close() error {
	var closing []func() error
	if o.shell != nil {
		closing = append(closing, o.shell.Close)
	}
	if o.servers != nil {
		closing = append(closing, o.servers.Close)
	}
	done := make(chan error, len(closing))
	for _, end := range closing {
		go func() { done <- end() }()
	}
	late := time.NewTimer(closeTime)
	defer late.Stop()
	err := o.files.Close()
	for range closing {
		select {
		case ended := <-done:
			err = errors.Join(err, ended)
		case <-late.C:
			return errors.Join(err, fmt.Errorf("closing the tools of a step: they have not ended after %s", closeTime))
		}
	}
	return err
}
