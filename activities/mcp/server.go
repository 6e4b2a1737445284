package mcp

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"conclave/engine/redact"
)

// minSecret is the minimum length of an environment value that is redacted, in bytes.
const minSecret = 8

// Default timeouts of a Server.
const (
	defaultCall  = 2 * time.Minute
	defaultStart = 30 * time.Second // launchers such as npx start slowly
)

// Server is one MCP server, by Command or by URL, as validated by the configuration.
type Server struct {
	Name string // its part of the tools' names; unique in a step

	// Command is an absolute path, or a name that is looked up in the absolute directories of PATH:
	// that of Env if set, otherwise the worker's.
	Command string

	// Args are the arguments. The placeholder ${CONCLAVE_WORKSPACE}, an argument "." and the end "=." of
	// one stand for the workspace.
	Args []string

	// Env is the program's environment, in which the placeholder is replaced, too. Only PATH, HOME (an
	// empty directory), TMPDIR, CONCLAVE_WORKSPACE and a mark are added.
	Env map[string]string

	URL   string // http or https, without credentials
	Token string // sent to URL as a bearer token, and nowhere else

	Allowed  []string // the offered tools, by the server's names; nil for all
	Excluded []string // tools that are not offered, even if Allowed lists them

	Shared bool // the steps of a run share the server, whose workspace is a directory of its own

	CallTimeout  time.Duration // longest time of one tool call; 0 means 2 minutes
	StartTimeout time.Duration // longest time of connecting; 0 means 30 seconds
}

// StartError reports a failed connection and the last lines of the server's standard error.
type StartError struct {
	Server string
	Err    error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("connecting MCP server %q: %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Find returns an error if the server's program is not installed on this machine.
func (s Server) Find() error {
	if s.Command == "" {
		return nil
	}
	found, err := lookup(s.Command, environment(s, "", "")["PATH"])
	if err == nil {
		_, err = exec.LookPath(found)
	}
	if err != nil {
		return fmt.Errorf("MCP server %q: %w", s.Name, err)
	}
	return nil
}

// in returns the server with the path of the workspace in its arguments and its environment.
func (s Server) in(workspace string) Server {
	const placeholder = "${" + Workspace + "}"
	s.Args, s.Env = slices.Clone(s.Args), maps.Clone(s.Env)
	for i, arg := range s.Args {
		if before, ok := strings.CutSuffix(arg, "."); ok && (before == "" || strings.HasSuffix(before, "=")) {
			arg = before + placeholder
		}
		s.Args[i] = strings.ReplaceAll(arg, placeholder, workspace)
	}
	for name, value := range s.Env {
		s.Env[name] = strings.ReplaceAll(value, placeholder, workspace)
	}
	return s
}

// directories returns the workspace, and the directories among the arguments of a program.
func (s Server) directories(workspace string) []string {
	dirs := []string{workspace}
	for _, arg := range s.Args {
		if _, of, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = of
		}
		if info, err := os.Stat(arg); err == nil && info.IsDir() && filepath.IsAbs(arg) && arg != workspace {
			dirs = append(dirs, filepath.Clean(arg))
		}
	}
	return dirs
}

// redactor returns a redactor for the token, the values of the environment and the query of the
// URL.
func (s Server) redactor() *redact.Redactor {
	var secrets []string
	for name, value := range s.Env {
		if name != "PATH" && name != "HOME" && len(value) >= minSecret {
			secrets = append(secrets, value)
		}
	}
	if u, err := url.Parse(s.URL); err == nil && u.RawQuery != "" {
		secrets = append(secrets, u.RawQuery)
	}
	if s.Token != "" {
		secrets = append(secrets, s.Token)
	}
	return redact.New(secrets)
}
