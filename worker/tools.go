package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/activities"
	"conclave/activities/mcp"
	"conclave/activities/sandbox"
	"conclave/activities/tools"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/redact"
	"conclave/engine/step"
	"conclave/worker/settings"
)

// Tools opens the ordinary tools of agents: those that an agent's configuration
// asks for, with what the operator says of MCP servers and of the sandbox. What
// this host gives a sandbox is tried once, when somebody first asks for a shell.
type Tools struct {
	// Getenv reads the worker's environment; os.Getenv if nil.
	Getenv func(string) string

	// Log is told what MCP servers say that no agent should read; nil for nobody.
	Log *slog.Logger

	servers map[string]settings.MCPServer
	sandbox settings.Sandbox
	private []string

	asked   sync.Once
	host    sandbox.Host
	refusal error // why this host gives no shell; nil if it does
}

// NewTools makes the tools of a worker with this configuration.
func NewTools(s settings.Settings) *Tools {
	return &Tools{servers: s.MCPServers, sandbox: s.Sandbox}
}

// Keep adds directories, absolute, that no toolchain of the sandbox may be in or
// hold: those of the worker's own files. Empty ones are none. What is added after
// the first question for a shell counts for steps only.
func (t *Tools) Keep(dirs ...string) {
	for _, dir := range dirs {
		if dir != "" && !slices.Contains(t.private, dir) {
			t.private = append(t.private, dir)
		}
	}
}

// Lacks returns an *activities.LackError if this worker lacks an MCP server, a sandbox
// or a variable that an agent's tools need.
func (t *Tools) Lacks(ctx context.Context, a config.Agent) error {
	if _, err := t.serversOf(a); err != nil {
		return err
	}
	if a.Tools.Shell {
		return t.confines(ctx)
	}
	return nil
}

// Check returns the error of Lacks for a team. An unset variable is reported only if
// nothing else is missing.
func (t *Tools) Check(ctx context.Context, team config.Team) error {
	var unset error
	for _, a := range team.Agents {
		err := t.Lacks(ctx, a)
		if err != nil {
			err = fmt.Errorf("agent %s: %w", a.ID, err)
		}
		if err != nil && !activities.Lacks(err, activities.MissingKey) {
			return err
		}
		unset = cmp.Or(unset, err)
	}
	return unset
}

// Open opens an agent's tools on a workspace. Its error is one of Lacks, or an
// *activities.LackError of type ToolsUnavailable.
func (t *Tools) Open(ctx context.Context, a config.Agent, workspace string) (step.Tools, error) {
	servers, err := t.serversOf(a)
	if err != nil {
		return nil, err
	}
	set := tools.Set{Files: a.Tools.Files, Servers: servers, Log: t.Log}
	if a.Tools.Shell {
		if err := t.confines(ctx); err != nil {
			return nil, err
		}
		o := t.options()
		set.Shell = &o
	}
	opened, err := tools.Open(ctx, workspace, set)
	var unconfined *sandbox.LevelError
	var unreached *mcp.StartError
	switch {
	case errors.As(err, &unconfined):
		return nil, lack(activities.NoSandbox, "no shell: %w", err)
	case errors.As(err, &unreached):
		return nil, &activities.LackError{Type: activities.ToolsUnavailable, Err: err}
	case err != nil:
		return nil, err
	}
	var secrets []string
	for _, s := range servers {
		secrets = append(secrets, handed(s)...)
	}
	return redacting{opened, redact.New(redact.Environment(secrets))}, nil
}

// repeatable reports whether a call that may have run already can be run again.
// A command that is not confined may have done anything.
func (t *Tools) repeatable(tool string) bool {
	if tool == tools.RunCommand && t.sandbox.Level == string(sandbox.Off) {
		return false
	}
	return tools.Repeatable(tool)
}

// confines reports why this host gives no shell at the level that the operator
// demands.
func (t *Tools) confines(ctx context.Context) error {
	t.asked.Do(func() {
		// The answer is kept, so it must not depend on who asks first.
		asking, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		t.host = sandbox.Host{Level: sandbox.Off} // of which nothing is asked
		if t.sandbox.Level != string(sandbox.Off) {
			t.host = sandbox.Probe(asking)
		}
		t.refusal = t.tryShell()
	})
	return t.refusal
}

// tryShell opens a sandbox around nothing.
func (t *Tools) tryShell() error {
	dir, err := os.MkdirTemp("", "conclave-shell-")
	if err != nil {
		return fmt.Errorf("making a directory to try the sandbox in: %w", err)
	}
	defer func() { _ = artifact.RemoveTree(dir) }()
	o := t.options()
	o.Temp, o.Workspace = dir, dir+"/files"
	if err := os.Mkdir(o.Workspace, 0o700); err != nil {
		return fmt.Errorf("making a directory to try the sandbox in: %w", err)
	}
	box, err := sandbox.Open(o)
	if err != nil {
		return lack(activities.NoSandbox, "no shell: %w", err)
	}
	return box.Close()
}

// options are those of every sandbox of this worker.
func (t *Tools) options() sandbox.Options {
	s := t.sandbox
	return sandbox.Options{
		Level: sandbox.Level(s.Level), Host: t.host, Toolchains: s.Toolchains, Private: t.private,
		Limits: sandbox.Limits{
			Time: time.Duration(s.TimeoutSeconds) * time.Second, CPU: time.Duration(s.CPUSeconds) * time.Second,
			Memory: int64(s.MemoryMB) << 20, Disk: int64(s.DiskMB) << 20, Processes: s.Processes,
		},
	}
}

// serversOf are the MCP servers of an agent: its own definitions, which only a
// file of a local run can have, and those of the operator that it names.
func (t *Tools) serversOf(a config.Agent) ([]mcp.Server, error) {
	var servers []mcp.Server
	for _, named := range a.MCPServers {
		definition := settings.MCPServer{Command: named.Command, Args: named.Args, Env: named.Env, URL: named.URL}
		if !named.Defines() {
			var ok bool
			if definition, ok = t.servers[named.Name]; !ok {
				return nil, lack(activities.NoServer, "this worker has no MCP server %q; %s", named.Name,
					others(t.servers, "it has none; an operator defines MCP servers in the file of --worker-config, a team file for local runs may define its own"))
			}
		}
		s, err := t.server(a.ID, named.Name, definition)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// server fills in what a definition takes from the worker's environment.
func (t *Tools) server(agent, name string, d settings.MCPServer) (mcp.Server, error) {
	s := mcp.Server{
		Name: name, Command: d.Command, Args: d.Args, URL: d.URL,
		CallTimeout: time.Duration(d.CallTimeoutSeconds) * time.Second,
	}
	if len(d.Env) > 0 {
		s.Env = make(map[string]string, len(d.Env))
	}
	for _, key := range slices.Sorted(maps.Keys(d.Env)) {
		value := d.Env[key]
		if variable, ok := config.Reference(value); ok {
			if value = t.getenv(variable); value == "" {
				return s, missingKey(agent, variable)
			}
		}
		s.Env[key] = value
	}
	if d.TokenEnv != "" {
		if s.Token = t.getenv(d.TokenEnv); s.Token == "" {
			return s, missingKey(agent, d.TokenEnv)
		}
	}
	return s, nil
}

// secrets are the variables, as NAME=VALUE, that the operator's MCP servers are
// given. What of them is a secret goes by the name.
func (t *Tools) secrets() []string {
	var all []string
	for name, d := range t.servers {
		if s, err := t.server("", name, d); err == nil { // without its variables it is not started
			all = append(all, handed(s)...)
		}
	}
	return all
}

// handed is what a server is given that could be a secret, as NAME=VALUE.
func handed(s mcp.Server) []string {
	var all []string
	for name, value := range s.Env {
		all = append(all, name+"="+value)
	}
	if s.Token != "" { // it has no name of its own there
		all = append(all, "MCP_TOKEN="+s.Token)
	}
	return all
}

func (t *Tools) getenv(name string) string {
	if t.Getenv != nil {
		return t.Getenv(name)
	}
	return os.Getenv(name)
}

// redacting removes the secrets of MCP servers from results: the worker's redactor
// does not have those that only a team's file defines.
type redacting struct {
	opened   step.Tools
	redactor *redact.Redactor
}

// Tools implements loop.Tools.
func (r redacting) Tools() []llm.Tool { return r.opened.Tools() }

// Close implements io.Closer.
func (r redacting) Close() error { return r.opened.Close() }

// Run implements loop.Tools.
func (r redacting) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	out, err := r.opened.Run(ctx, call)
	out.Text = r.redactor.String(out.Text)
	return out, err
}

// lacking are sentences for people about tools of teams that this worker has not
// what they need for.
func (t *Tools) lacking(ctx context.Context, teams map[string]config.Team) []string {
	var lacking []string
	for _, name := range slices.Sorted(maps.Keys(teams)) {
		if err := t.Check(ctx, teams[name]); err != nil {
			lacking = append(lacking, fmt.Sprintf("sessions of the team %s cannot work here: %s", name, strings.TrimSuffix(err.Error(), ".")))
		}
	}
	return lacking
}
