package config

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// MCPServer names an MCP server or, with more than Name set, defines one.
type MCPServer struct {
	Name    string            `json:"name" doc:"The server's name, up to 32 lower-case letters, digits, _ or -; its tools are called mcp__NAME__TOOL."`
	Command string            `json:"command,omitempty" doc:"The program of a server on standard input and output. It runs outside the sandbox, in the agent's workspace."`
	Args    []string          `json:"args,omitempty" doc:"The program's arguments."`
	Env     map[string]string `json:"env,omitempty" doc:"The program's environment, beside PATH and HOME; a value of the form ${NAME} is that of the variable NAME where the program is started."`
	URL     string            `json:"url,omitempty" doc:"Address of a server that is reached by streamable HTTP."`
}

// Defines says whether the server is defined here rather than only named.
func (s MCPServer) Defines() bool {
	return s.Command != "" || s.URL != "" || len(s.Args) > 0 || len(s.Env) > 0
}

var (
	// serverName is the form of a server's name. It is short because the names of
	// tools, of which it is a part, have at most 64 characters.
	serverName = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

	// environmentName is the name of a variable in a program's environment.
	environmentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

	// reference is a value that stands for that of a variable.
	reference = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)
)

// Reference returns the variable whose value a value in the environment of an
// MCP server stands for, if it stands for one.
func Reference(value string) (variable string, ok bool) {
	m := reference.FindStringSubmatch(value)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// checkServers checks the MCP servers of one agent.
func (d *decoder) checkServers(key string, servers []MCPServer) {
	first := map[string]int{}
	for i, s := range servers {
		item := nth(key, i)
		earlier, taken := first[s.Name]
		switch {
		case d.reported(item), d.reported(item + ".name"):
		case s.Name == "":
			d.reportKey(item+".name", "missing; every MCP server has a name, by which its tools are called: mcp__NAME__TOOL")
		case !serverName.MatchString(s.Name):
			d.reportKey(item+".name", "%s is not the name of an MCP server: up to 32 lower-case letters, digits, _ or -", quote(s.Name))
		case taken:
			d.reportKey(item+".name", "%s is the MCP server on line %d already; an agent has each of them once", quote(s.Name), d.at(nth(key, earlier)).line)
		default:
			first[s.Name] = i
		}
		if s.Defines() {
			d.checkServer(item, s)
		}
	}
}

// checkServer checks what defines an MCP server.
func (d *decoder) checkServer(key string, s MCPServer) {
	switch {
	case d.reported(key), d.reported(key + ".command"), d.reported(key + ".url"):
	case s.Command != "" && s.URL != "":
		d.reportKey(key, "both a command and a url; an MCP server has one of them")
	case s.Command == "" && s.URL == "":
		d.reportKey(key, "neither a command nor a url; an MCP server has one of them")
	case s.Command == "" && len(s.Args) > 0:
		d.reportKey(key+".args", "arguments without a command; a server that is reached by its url takes none")
	case s.Command == "" && len(s.Env) > 0:
		d.reportKey(key+".env", "an environment without a command; a server that is reached by its url has its own")
	}
	if strings.ContainsAny(s.Command, `/\`) && !filepath.IsAbs(s.Command) {
		d.reportKey(key+".command", "a relative path, which would lead into the workspace, where agents write; give an absolute path, or a name in PATH")
	}
	d.checkLiteral(key+".command", s.Command)
	if s.URL != "" && !d.reported(key+".url") {
		if wrong := endpoint(s.URL); wrong != "" {
			d.reportKey(key+".url", "%s", wrong)
		}
	}
	for i, arg := range s.Args {
		d.checkLiteral(nth(key+".args", i), arg)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		at := join(key+".env", name)
		if !environmentName.MatchString(name) {
			d.reportKey(at, "not the name of an environment variable: letters, digits and _, not a digit first")
			continue
		}
		d.checkLiteral(at, s.Env[name])
	}
}

// checkLiteral refuses a secret in what a program is started with.
func (d *decoder) checkLiteral(key, value string) {
	switch {
	case strings.ContainsRune(value, 0):
		d.reportKey(key, "a NUL character, which no program can be given; remove it")
	case looksSecret(value):
		d.reportKey(key, "this looks like an API key (not shown), which does not belong in a configuration; put it into an environment variable NAME and write ${NAME} as a value of env")
	}
}

// endpoint says what is wrong with the address of an MCP server, or "".
func endpoint(raw string) string {
	const (
		example = "; it takes an address such as https://mcp.example.com/mcp"
		instead = "name the variable that holds the token in token_env, in the worker's configuration"
	)
	u, wrong := parseURL(raw, example, instead)
	switch {
	case wrong != "":
		return wrong
	case u.Fragment != "":
		return "the URL has a fragment, which no server sees" + example
	}
	for name, values := range u.Query() {
		if secretKey(name) || slices.ContainsFunc(values, looksSecret) {
			return "the URL contains what looks like a key (not shown); " + instead
		}
	}
	return ""
}

// Server checks the definition of an MCP server as that in a team file is
// checked, and the variable of its token. Empty values are none.
func (c Checker) Server(key string, s MCPServer, tokenEnv string) {
	if !serverName.MatchString(s.Name) {
		c.Report(key, "not the name of an MCP server: up to 32 lower-case letters, digits, _ or -")
	}
	c.d.checkServer(key, s)
	switch {
	case tokenEnv == "" || c.d.reported(key+".token_env"):
	case s.URL == "":
		c.Report(key+".token_env", "a token without a url to send it to; give a program what it needs by env")
	default:
		if wrong := keyVariable(tokenEnv); wrong != "" {
			c.Report(key+".token_env", "%s", wrong)
		}
	}
}
