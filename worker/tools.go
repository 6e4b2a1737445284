package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"conclave/activities"
	"conclave/activities/mcp"
	"conclave/activities/sandbox"
	"conclave/activities/sandbox/egress"
	"conclave/activities/tools"
	"conclave/engine/check"
	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/redact"
	"conclave/engine/scratch"
	"conclave/engine/step"
	"conclave/worker/settings"
)

// Tools opens the tools of agents according to their configuration and the operator's settings. It
// probes the sandbox of the host once.
type Tools struct {
	// Getenv reads the worker's environment. The default is os.Getenv.
	Getenv func(string) string

	// Log receives the output of MCP servers that is not shown to agents, and how the files of bases
	// get into workspaces; nil discards both.
	Log *slog.Logger

	settings settings.Settings
	private  []string

	probed  sync.Once
	host    sandbox.Host
	refusal error // the reason why this host cannot give a shell; nil if it can

	tempMutex sync.Mutex
	temp      *scratch.Dir // directory for the HOMEs of MCP servers; nil before the first server

	shared mcp.Pool // the servers that the steps of a run share

	overlays *overlays // mounts of workspaces; nil outside of a worker
}

// NewTools returns the tools of a worker with the given settings.
func NewTools(s settings.Settings) *Tools {
	return &Tools{settings: s}
}

// Keep adds absolute paths of the worker's directories, which no toolchain may overlap. It must be
// called before the probe.
func (t *Tools) Keep(dirs ...string) {
	for _, dir := range dirs {
		if dir != "" && !slices.Contains(t.private, dir) {
			t.private = append(t.private, dir)
		}
	}
}

// Lacks returns an *activities.LackError for a missing MCP server, program, sandbox or variable.
func (t *Tools) Lacks(ctx context.Context, a config.Agent) error {
	if err := t.findPrograms(a); err != nil {
		return err
	}
	if a.Tools.Shell {
		return t.confines(ctx)
	}
	return nil
}

// Check returns the error of Lacks for a team, or an error for a missing program. An unset variable
// is reported only if nothing else is missing.
func (t *Tools) Check(ctx context.Context, team config.Team) error {
	var unset error
	if team.Orchestrator.RunsChecks() {
		if err := t.confines(ctx); err != nil {
			return fmt.Errorf("orchestrator.ballot %s runs commands: %w", team.Orchestrator.Ballot, err)
		}
	}
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

// Open opens an agent's tools on a workspace. MCP servers that are configured as shared are used by
// all steps of a run. Its errors are *activities.LackErrors.
func (t *Tools) Open(ctx context.Context, a config.Agent, workspace string, s activities.Sharing) (step.Tools, error) {
	servers, err := t.serversOf(a)
	if err != nil {
		return nil, err
	}
	for i := range servers {
		servers[i].Shared = servers[i].Shared || s.All
	}
	set := tools.Set{Files: a.Tools.Files, Servers: servers, Place: mcp.Place{Pool: &t.shared, Run: s.Run, Log: t.Log}}
	if len(servers) > 0 {
		if set.Place.Temp, err = t.tempDir(); err != nil {
			return nil, err
		}
	}
	if a.Tools.Shell {
		if err := t.confines(ctx); err != nil {
			return nil, err
		}
		o := t.options()
		o.Tree = t.overlays.tree(workspace)
		set.Shell = &o
	}
	opened, err := tools.Open(ctx, workspace, set)
	_, unconfined := errors.AsType[*sandbox.LevelError](err)
	_, unreached := errors.AsType[*mcp.StartError](err)
	switch {
	case unconfined:
		return nil, lack(activities.NoSandbox, "no shell: %w", err)
	case unreached:
		return nil, &activities.LackError{Type: activities.ToolsUnavailable, Err: err}
	case err != nil:
		return nil, err
	}
	var secrets []string
	for _, s := range servers {
		secrets = append(secrets, variables(s)...)
	}
	return redacting{opened, redact.New(redact.Environment(secrets))}, nil
}

// tempDir returns this process's directory for the HOMEs of MCP servers. It is in the system's
// temporary directory, because paths in a data directory are too long for the sockets of browsers.
func (t *Tools) tempDir() (string, error) {
	t.tempMutex.Lock()
	defer t.tempMutex.Unlock()
	if t.temp == nil {
		s, err := scratch.Open("", scratch.Worker)
		if err != nil {
			return "", err
		}
		t.temp = s
	}
	return t.temp.Path, nil
}

// release ends the shared servers and removes the directory of tempDir.
func (t *Tools) release() {
	t.shared.Close()
	t.tempMutex.Lock()
	defer t.tempMutex.Unlock()
	if t.temp != nil {
		t.temp.Close()
		t.temp = nil
	}
}

// repeatable reports whether a call that may already have run can safely be repeated.
func (t *Tools) repeatable(tool string) bool {
	s := t.settings.Sandbox
	return tools.Repeatable(tool, s.Level != string(sandbox.Off) && len(s.Network) == 0)
}

// confines returns an error if this host cannot confine a shell at the configured level.
func (t *Tools) confines(ctx context.Context) error {
	t.probed.Do(func() {
		// All callers share the result, so it must not depend on the context of the first one.
		asking, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		t.host = sandbox.Host{Level: sandbox.Off}
		if t.settings.Sandbox.Level != string(sandbox.Off) {
			t.host = sandbox.Probe(asking)
		}
		t.refusal = t.tryShell(asking)
	})
	return t.refusal
}

// Confine runs the command of a check in a separate sandbox.
func (t *Tools) Confine(ctx context.Context, c check.Confined) (ended check.Ended, err error) {
	if err := t.confines(ctx); err != nil {
		return ended, err
	}
	o := t.options()
	o.Workspace, o.Temp, o.ReadOnly = c.Dir, filepath.Dir(c.Dir), c.ReadOnly
	o.Limits.Output, o.Network = maxCheckOutput, sandbox.Network{}
	box, err := sandbox.Open(o)
	if err != nil {
		return ended, lack(activities.NoSandbox, "no sandbox for a check: %w", err)
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	exit, err := box.Run(ctx, sandbox.Command{
		Args: []string{"sh", "-c", c.Command}, Env: c.Env, Time: c.Time, Stdout: c.Stdout, Stderr: c.Stderr,
	})
	return check.Ended{Code: exit.Code, Limit: exit.Ended}, err
}

// maxCheckOutput bounds the output of a check, in bytes.
const maxCheckOutput = 1 << 20

// tryShell opens a sandbox on an empty workspace as a test, and runs a command in gVisor.
func (t *Tools) tryShell(ctx context.Context) error {
	dir, err := scratch.Open("", scratch.Shell)
	if err != nil {
		return err
	}
	defer dir.Close()
	o := t.options()
	o.Temp, o.Workspace = dir.Path, dir.Path+"/files"
	if err := os.Mkdir(o.Workspace, 0o700); err != nil {
		return fmt.Errorf("making a directory to try the sandbox in: %w", err)
	}
	if o.Level == sandbox.Gvisor { // the probe has not tried it
		if err := t.host.Try(ctx, o.Level); err != nil {
			return lack(activities.NoSandbox, "no shell: %w", err)
		}
	}
	box, err := sandbox.Open(o)
	if err != nil {
		return lack(activities.NoSandbox, "no shell: %w", err)
	}
	return box.Close()
}

// options returns the options of this worker's sandboxes.
func (t *Tools) options() sandbox.Options {
	s := t.settings.Sandbox
	return sandbox.Options{
		Network: network(s.Network),
		Level:   sandbox.Level(s.Level), Host: t.host, Toolchains: s.Toolchains, Private: t.private,
		Limits: sandbox.Limits{
			Time: time.Duration(s.TimeoutSeconds) * time.Second, CPU: time.Duration(s.CPUSeconds) * time.Second,
			Memory: int64(s.MemoryMB) << 20, Disk: int64(s.DiskMB) << 20, Processes: s.Processes,
		},
	}
}

// network returns the network access to a list of destinations, which the settings have validated.
func network(entries []string) sandbox.Network {
	list, err := egress.ParseList(entries)
	if err != nil || len(list) == 0 {
		return sandbox.Network{}
	}
	return sandbox.Network{Reaches: list.String(), Serve: func(socket *os.File) io.Closer {
		p, err := egress.Serve(socket, list)
		if err != nil {
			return nil
		}
		return p
	}}
}

// secrets returns the variables of the operator's MCP servers as NAME=VALUE, for redaction.
func (t *Tools) secrets() []string {
	var all []string
	for name, d := range t.settings.MCPServers {
		if s, err := t.server("", name, d); err == nil { // a server without its variables is not started
			all = append(all, variables(s)...)
		}
	}
	return all
}

func (t *Tools) getenv(name string) string {
	if t.Getenv != nil {
		return t.Getenv(name)
	}
	return os.Getenv(name)
}

// redacting removes the secrets of MCP servers from results, including those of servers that a team
// file defines.
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
