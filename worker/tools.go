package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"conclave/activities"
	"conclave/activities/mcp"
	"conclave/activities/sandbox"
	"conclave/activities/tools"
	"conclave/engine/approval"
	"conclave/engine/config"
	"conclave/engine/files/filelock"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session/check"
	"conclave/engine/step"
	"conclave/engine/text"
)

// Tools opens the tools of agents according to their configuration and the operator's settings. It
// probes the sandbox of the host once.
type Tools struct {
	// Getenv reads the worker's environment. The default is os.Getenv.
	Getenv func(string) string

	// Log receives the output of MCP servers that is not shown to agents, and how the files of bases
	// get into workspaces; nil discards both.
	Log *slog.Logger

	settings Settings
	private  []string

	probed  sync.Once
	host    sandbox.Host
	refusal error // the reason why this host cannot give a shell; nil if it can

	tempMutex sync.Mutex
	temp      *filelock.Scratch // directory for the HOMEs of MCP servers; nil before the first server

	shared mcp.Pool // the servers that the steps of a run share

	overlays *overlays    // mounts of workspaces; nil outside of a worker
	caches   *buildCaches // caches of build tools; nil outside of a worker
}

// NewTools returns the tools of a worker with the given settings.
func NewTools(s Settings) *Tools {
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
	if a.Tools.Shell.On() {
		return t.requireConfinement(ctx)
	}
	return nil
}

// Check returns the error of Lacks for a team, or an error for a missing program. An unset variable
// is reported only if nothing else is missing.
func (t *Tools) Check(ctx context.Context, team config.Team) error {
	var unset error
	if team.Orchestrator.RunsChecks() {
		if err := t.requireConfinement(ctx); err != nil {
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
	var used *layer
	if a.Tools.Shell.On() {
		if err := t.requireConfinement(ctx); err != nil {
			return nil, err
		}
		o := t.sandboxOptions()
		o.Tree = t.overlays.treeOpener(workspace)
		if used, err = t.useCaches(&o, s); err != nil {
			return nil, err
		}
		set.Shell = &o
	}
	opened, err := tools.Open(ctx, workspace, set)
	if err != nil {
		used.close(false)
	}
	_, unconfined := errors.AsType[*sandbox.LevelError](err)
	_, unreached := errors.AsType[*mcp.StartError](err)
	switch {
	case unconfined:
		return nil, lackError(activities.NoSandbox, "no shell: %w", err)
	case unreached:
		return nil, &activities.LackError{Type: activities.ToolsUnavailable, Err: err}
	case err != nil:
		return nil, err
	}
	var secrets []string
	for _, s := range servers {
		secrets = append(secrets, serverVariables(s)...)
	}
	return redacting{opened, text.NewRedactor(text.SecretsOfEnvironment(secrets)), used}, nil
}

// tempDir returns this process's directory for the HOMEs of MCP servers. It is in the system's
// temporary directory, because paths in a data directory are too long for the sockets of browsers.
func (t *Tools) tempDir() (string, error) {
	t.tempMutex.Lock()
	defer t.tempMutex.Unlock()
	if t.temp == nil {
		s, err := filelock.OpenScratch("", filelock.Worker)
		if err != nil {
			return "", err
		}
		t.temp = s
	}
	return t.temp.Path, nil
}

func (t *Tools) closeShared() {
	t.shared.Close()
	t.tempMutex.Lock()
	defer t.tempMutex.Unlock()
	if t.temp != nil {
		t.temp.Close()
		t.temp = nil
	}
}

// Repeatable reports whether a call that may already have run can safely be repeated.
func (t *Tools) Repeatable(tool string) bool {
	s := t.settings.Sandbox
	return tools.Repeatable(tool, s.Level != string(sandbox.Off) && len(s.Network) == 0)
}

// Gate implements activities.Equipment.
func (t *Tools) Gate(team []approval.Rule) approval.Gate {
	return approval.NewGate(t.settings.Approvals, team, t.settings.Sandbox.Level == string(sandbox.Off))
}

// Confined implements activities.Equipment.
func (t *Tools) Confined(ctx context.Context) error {
	if t.settings.Sandbox.Level == string(sandbox.Off) {
		return errors.New("sandbox.level is off, and commands run on their own only where they are confined")
	}
	return t.requireConfinement(ctx)
}

func (t *Tools) requireConfinement(ctx context.Context) error {
	t.probed.Do(func() {
		// All callers share the result, so it must not depend on the context of the first one.
		asking, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		t.host = sandbox.Host{Level: sandbox.Off}
		if t.settings.Sandbox.Level != string(sandbox.Off) {
			t.host = sandbox.Probe(asking)
		}
		t.refusal = t.tryShell()
	})
	return t.refusal
}

// Confine runs the command of a check in a separate sandbox.
func (t *Tools) Confine(ctx context.Context, c check.Confined) (ended check.Ended, err error) {
	if err := t.requireConfinement(ctx); err != nil {
		return ended, err
	}
	o := t.sandboxOptions()
	o.Workspace, o.Temp, o.ReadOnly = c.Dir, filepath.Dir(c.Dir), c.ReadOnly
	o.Limits.Output, o.Network = maxCheckOutput, sandbox.Network{}
	used, err := t.useCaches(&o, activities.Sharing{Base: c.Base})
	if err != nil {
		return ended, err
	}
	defer used.close(false)
	box, err := sandbox.Open(o)
	if err != nil {
		return ended, lackError(activities.NoSandbox, "no sandbox for a check: %w", err)
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	exit, err := box.Run(ctx, sandbox.Command{
		Args: []string{"sh", "-c", c.Command}, Env: c.Env, Time: c.Time, Stdout: c.Stdout, Stderr: c.Stderr,
	})
	return check.Ended{Code: exit.Code, Limit: exit.Ended}, err
}

// maxCheckOutput bounds the output of a check, in bytes.
const maxCheckOutput = 1 << 20

func (t *Tools) tryShell() error {
	dir, err := filelock.OpenScratch("", filelock.Shell)
	if err != nil {
		return err
	}
	defer dir.Close()
	o := t.sandboxOptions()
	o.Temp, o.Workspace = dir.Path, dir.Path+"/files"
	if err := os.Mkdir(o.Workspace, 0o700); err != nil {
		return fmt.Errorf("make a directory to try the sandbox in: %w", err)
	}
	box, err := sandbox.Open(o)
	if err != nil {
		return lackError(activities.NoSandbox, "no shell: %w", err)
	}
	return box.Close()
}

func (t *Tools) sandboxOptions() sandbox.Options {
	s := t.settings.Sandbox
	return sandbox.Options{
		Network: networkAccess(s.Network),
		Level:   sandbox.Level(s.Level), Host: t.host, Toolchains: s.Toolchains, Private: t.private,
		Limits: sandbox.Limits{
			Time: time.Duration(s.TimeoutSeconds) * time.Second, CPU: time.Duration(s.CPUSeconds) * time.Second,
			Memory: int64(s.MemoryMB) << 20, Disk: int64(s.DiskMB) << 20, Processes: s.Processes,
		},
	}
}

func networkAccess(entries []string) sandbox.Network {
	list, err := tools.ParseDestinations(entries)
	if err != nil || len(list) == 0 {
		return sandbox.Network{}
	}
	return sandbox.Network{Reaches: list.String(), Serve: func(socket *os.File) io.Closer {
		p, err := tools.ServeProxy(socket, list)
		if err != nil {
			return nil
		}
		return p
	}}
}

// serverSecrets returns the variables of the operator's MCP servers as NAME=VALUE, for redaction.
func (t *Tools) serverSecrets() []string {
	var all []string
	for name, d := range t.settings.MCPServers {
		if s, err := t.completeServer("", name, d); err == nil { // a server without its variables is not started
			all = append(all, serverVariables(s)...)
		}
	}
	return all
}

func (t *Tools) lookupVariable(name string) string {
	if t.Getenv != nil {
		return t.Getenv(name)
	}
	return os.Getenv(name)
}

// redacting removes the secrets of MCP servers from results, including those of servers that a team
// file defines.
type redacting struct {
	openTools
	redactor *text.Redactor
	used     *layer // caches of the shell; nil without one
}

// Close implements step.Tools.
func (r redacting) Close() error {
	err := r.openTools.Close()
	r.used.close(err == nil)
	return err
}

// openTools is step.Tools under a name that does not hide its method Tools.
type openTools = step.Tools

func (r redacting) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	out, err := r.openTools.Run(ctx, call)
	out.Text = r.redactor.String(out.Text)
	return out, err
}

func (t *Tools) findPrograms(a config.Agent) error {
	servers, err := t.serversOf(a)
	if err != nil {
		return err
	}
	for _, s := range servers {
		if err := s.Find(); err != nil {
			return lackError(activities.NoServer, "%w", err)
		}
	}
	return nil
}

// FindProgram returns an error if the program of an MCP server defined in a file is not installed
// here. It ignores unset variables.
func (t *Tools) FindProgram(s config.MCPServer) error {
	if !s.Defines() {
		return nil
	}
	err := t.findPrograms(config.Agent{MCPServers: []config.MCPServer{s}})
	if activities.Lacks(err, activities.MissingKey) {
		return nil
	}
	return err
}

// serversOf returns an agent's MCP servers. A local team file may define them; otherwise they are
// the operator's.
func (t *Tools) serversOf(a config.Agent) ([]mcp.Server, error) {
	var servers []mcp.Server
	for _, named := range a.MCPServers {
		definition := MCPServer{Command: named.Command, Args: named.Args, Env: named.Env, URL: named.URL, Scope: named.Scope}
		if !named.Defines() {
			var ok bool
			if definition, ok = t.settings.MCPServers[named.Name]; !ok {
				return nil, lackError(activities.NoServer, "this worker has no MCP server %q; %s", named.Name,
					listOthers(t.settings.MCPServers, "it has none; an operator defines MCP servers in the file of --worker-config, a team file for local runs may define its own"))
			}
		}
		s, err := t.completeServer(a.ID, named.Name, definition)
		if err != nil {
			return nil, err
		}
		s.Allowed = bothAllow(definition.AllowedTools, named.AllowedTools)
		s.Excluded = slices.Concat(definition.ExcludeTools, named.ExcludeTools)
		servers = append(servers, s)
	}
	return servers, nil
}

// bothAllow returns the tools that are on both lists. An empty list allows all tools.
func bothAllow(operator, team []string) []string {
	switch {
	case len(operator) == 0:
		return team
	case len(team) == 0:
		return operator
	}
	both := []string{}
	for _, tool := range team {
		if slices.Contains(operator, tool) {
			both = append(both, tool)
		}
	}
	return both
}

func (t *Tools) completeServer(agent, name string, d MCPServer) (mcp.Server, error) {
	s := mcp.Server{
		Name: name, Command: d.Command, Args: d.Args, URL: d.URL, Shared: d.Scope == config.ScopeSession,
		CallTimeout: time.Duration(d.CallTimeoutSeconds) * time.Second,
	}
	if len(d.Env) > 0 {
		s.Env = make(map[string]string, len(d.Env))
	}
	for _, key := range slices.Sorted(maps.Keys(d.Env)) {
		value := d.Env[key]
		if variable, ok := config.Reference(value); ok && variable != mcp.Workspace {
			if value = t.lookupVariable(variable); value == "" {
				return s, missingKey(agent, variable)
			}
		}
		s.Env[key] = value
	}
	if d.TokenEnv != "" {
		if s.Token = t.lookupVariable(d.TokenEnv); s.Token == "" {
			return s, missingKey(agent, d.TokenEnv)
		}
	}
	return s, nil
}

func serverVariables(s mcp.Server) []string {
	var all []string
	for name, value := range s.Env {
		all = append(all, name+"="+value)
	}
	if s.Token != "" {
		all = append(all, "MCP_TOKEN="+s.Token)
	}
	return all
}
