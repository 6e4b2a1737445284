package mcp

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"conclave/engine/redact"
)

// minSecret is the shortest value of the environment that is redacted, in bytes.
const minSecret = 8

// Defaults of a Server's timeouts.
const (
	defaultCall  = 2 * time.Minute
	defaultStart = 30 * time.Second // launchers such as npx start slowly
)

// Server is one MCP server, by Command or by URL.
type Server struct {
	Name string // its part of the tools' names

	// Command is an absolute path, or a name that is looked up in PATH: the one
	// of Env, else the worker's.
	Command string
	Args    []string

	// Env is the program's environment, beside PATH, HOME (an empty directory of
	// the step) and a mark. Nothing else of the worker's environment is passed on.
	Env map[string]string

	URL   string // http or https
	Token string // sent to URL as a bearer token, and nowhere else

	CallTimeout  time.Duration // of one tool call; 0 means 2 minutes
	StartTimeout time.Duration // of connecting; 0 means 30 seconds
}

// StartError reports that a server could not be connected. Its text includes the
// end of the server's standard error.
type StartError struct {
	Server string
	Err    error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("connecting MCP server %q: %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// complete fills in defaults and validates the server.
func (s Server) complete() (Server, error) {
	if s.CallTimeout <= 0 {
		s.CallTimeout = defaultCall
	}
	if s.StartTimeout <= 0 {
		s.StartTimeout = defaultStart
	}
	switch {
	case s.Name == "":
		return s, errors.New("it has no name; give it one")
	case (s.Command == "") == (s.URL == ""):
		return s, errors.New("give either a command or a url")
	case s.Command != "":
		return s, s.checkCommand()
	}
	return s, s.checkURL()
}

func (s Server) checkCommand() error {
	if strings.ContainsAny(s.Command, `/\`) && !filepath.IsAbs(s.Command) {
		return fmt.Errorf("command %q would be looked for in the workspace, where agents write; give an absolute path, or a name in PATH", s.Command)
	}
	for name, value := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("env has a variable %q that no program can get; rename it", name)
		}
	}
	return nil
}

func (s Server) checkURL() error {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("url is not an http(s) URL; give one such as https://example.com/mcp")
	case u.User != nil:
		return fmt.Errorf("url for %s contains credentials; name a token's variable instead", u.Host)
	}
	return nil
}

// redactor removes the server's secrets: the token, the values of the environment
// and the query of the URL.
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
