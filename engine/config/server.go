package config

import (
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/text"
)

// MCPServer names an MCP server or, with more than Name set, defines one.
type MCPServer struct {
	Name    string            `json:"name" doc:"The server's name, up to 32 lower-case letters, digits, _ or -; its tools are called mcp__NAME__TOOL."`
	Command string            `json:"command,omitempty" path:"program" doc:"The program of a server on standard input and output: an absolute path, a name in PATH, or a path that begins with ./ or ../ and is relative to this file. It runs outside the sandbox, and starts in an empty directory."`
	Args    []string          `json:"args,omitempty" path:"argument" doc:"The program's arguments. ${CONCLAVE_WORKSPACE} is replaced by the path of the agent's workspace; an argument that begins with ./ or ../, or names a file beside this one, is made absolute."`
	Env     map[string]string `json:"env,omitempty" doc:"The program's environment, beside PATH and HOME; a value of the form ${NAME} is that of the variable NAME where the program is started."`
	URL     string            `json:"url,omitempty" doc:"Address of a server that is reached by streamable HTTP."`
	Type    string            `json:"type,omitempty" enum:"stdio,streamable-http" doc:"How the server is reached: stdio goes with command, streamable-http with url; it can be left out."`

	// The filters also narrow the tools of named servers. ExcludeTools takes precedence.
	AllowedTools []string `json:"allowed_tools,omitempty" doc:"The tools that the agent gets, by their names at the server; without it all."`
	ExcludeTools []string `json:"exclude_tools,omitempty" doc:"Tools that the agent does not get, by their names at the server, even if allowed_tools lists them."`

	Scope string `json:"scope,omitempty" enum:"step,session" doc:"How long the server runs. step: it is started for each step, with the agent's workspace as CONCLAVE_WORKSPACE; session: the steps of a session on the same worker share it, with a directory of its own there. By default step."`
}

// Types of an MCPServer; an empty one follows from Command or URL.
const (
	typeStdio = "stdio"
	typeHTTP  = "streamable-http"
)

// ScopeSession is the scope of an MCPServer that the steps of a session share. Any other
// server runs for one step.
const ScopeSession = "session"

// Defines reports whether the server is defined here rather than only named.
func (s MCPServer) Defines() bool {
	return s.Command != "" || s.URL != "" || len(s.Args) > 0 || len(s.Env) > 0 || s.Type != "" || s.Scope != ""
}

// keepsBack reports whether the filters of a server withhold a tool from the agent. Tool is
// the name that models see; the result is false for a shortened name.
func (s MCPServer) keepsBack(tool string) bool {
	isTool := func(name string) bool { return "mcp__"+s.Name+"__"+name == tool }
	return slices.ContainsFunc(s.ExcludeTools, isTool) ||
		len(s.AllowedTools) > 0 && !slices.ContainsFunc(s.AllowedTools, isTool) && len(tool) < maxToolName &&
			!slices.ContainsFunc(s.AllowedTools, refusedInNames.MatchString)
}

// maxToolName is the maximum length, in bytes, of a tool's name at model providers.
const maxToolName = 64

// refusedInNames matches characters that tools' names cannot have and that are therefore replaced.
var refusedInNames = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

var (
	// serverName limits the length because tools' names contain it, which have at most 64 characters.
	serverName = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

	// reference matches a value that is replaced with that of a variable.
	reference = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)
)

const serverForm = "the name of an MCP server: up to 32 lower-case letters, digits, _ or -"

// Reference returns NAME for a value of the form ${NAME} in the environment of an MCP server.
func Reference(value string) (variable string, ok bool) {
	m := reference.FindStringSubmatch(value)
	if m == nil {
		return "", false
	}
	return m[1], true
}

func (d *Decoder) checkServers(key string, servers []MCPServer) {
	first := map[string]int{}
	for i, s := range servers {
		item := itemKey(key, i)
		earlier, taken := first[s.Name]
		switch {
		case s.Name == "":
			d.Report(item+".name", "missing; every MCP server has a name, by which its tools are called: mcp__NAME__TOOL")
		case !serverName.MatchString(s.Name):
			d.Report(item+".name", "%s is not %s", quoteSafely(s.Name), serverForm)
		case taken:
			d.Report(item+".name", "%s is the MCP server on line %d already; an agent has each of them once", quoteSafely(s.Name), d.nodeOf(itemKey(key, earlier)).Line)
		default:
			first[s.Name] = i
		}
		d.checkFilters(item, s)
		scope := s.Scope
		if s.Scope = ""; scope != "" && !s.Defines() {
			d.Report(item+".scope", "the scope of a server that is only named is its operator's to set; remove it, or define the server with a command or a url")
		} else if s.Defines() {
			d.checkServer(item, s)
		}
	}
}

func (d *Decoder) checkFilters(key string, s MCPServer) {
	for list, names := range map[string][]string{key + ".allowed_tools": s.AllowedTools, key + ".exclude_tools": s.ExcludeTools} {
		for i, name := range names {
			own, prefixed := strings.CutPrefix(name, "mcp__"+s.Name+"__")
			switch {
			case strings.TrimSpace(name) == "":
				d.Report(itemKey(list, i), "empty; it takes the name of a tool as the server lists it")
			case prefixed:
				d.Report(itemKey(list, i), "tools are named as the server lists them, without mcp__%s__; write %s", s.Name, own)
			default:
				d.checkName(itemKey(list, i), name)
			}
		}
	}
}

// Server checks the definition of an MCP server as in a team's file. It also checks the
// variable of the server's token if that is not empty.
func (d *Decoder) Server(key string, s MCPServer, tokenEnv string) {
	if !serverName.MatchString(s.Name) {
		d.Report(key, "not %s", serverForm)
	}
	d.checkFilters(key, s)
	d.checkServer(key, s)
	switch {
	case tokenEnv == "":
	case s.URL == "":
		d.Report(key+".token_env", "a token without a url to send it to; give a program its secrets by env")
	default:
		d.checkVariable(key+".token_env", tokenEnv)
	}
}

// checkServer compares the keys last: a command or url that is faulty by itself is reported once.
func (d *Decoder) checkServer(key string, s MCPServer) {
	if strings.ContainsAny(s.Command, `/\`) && !filepath.IsAbs(s.Command) {
		d.Report(key+".command", "a relative path that names no file beside this one; begin it with ./, or give an absolute path, or a name in PATH")
	}
	d.checkArgument(key+".command", s.Command)
	if s.URL != "" {
		d.checkServerURL(key+".url", s.URL)
	}
	for i, arg := range s.Args {
		d.checkArgument(itemKey(key+".args", i), arg)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		at := joinKey(key+".env", name)
		if !variableName.MatchString(name) {
			d.Report(at, "not the name of an environment variable: letters, digits and _, not a digit first")
			continue
		}
		d.checkArgument(at, s.Env[name])
		if isSecret(name, s.Env[name]) {
			d.Report(at, "a literal secret (not shown) does not belong in a configuration; put it into an environment variable NAME and write ${NAME} as the value")
		}
	}
	switch {
	case d.invalid[key+".command"], d.invalid[key+".url"]:
	case s.Command != "" && s.URL != "":
		d.Report(key, "both a command and a url; an MCP server has one of them")
	case s.Command == "" && s.URL == "":
		d.Report(key, "neither a command nor a url; an MCP server has one of them")
	case s.Type == typeStdio && s.Command == "":
		d.Report(key+".type", "stdio is the type of a program, and this server has a url; remove the type, or set it to streamable-http")
	case s.Type == typeHTTP && s.URL == "":
		d.Report(key+".type", "streamable-http is the type of an address, and this server has a command; remove the type, or set it to stdio")
	case s.Command == "" && len(s.Args) > 0:
		d.Report(key+".args", "arguments without a command; a server that is reached by its url takes none")
	case s.Command == "" && len(s.Env) > 0:
		d.Report(key+".env", "an environment without a command; a server that is reached by its url has its own")
	}
}

func (d *Decoder) checkArgument(key, value string) {
	switch {
	case strings.ContainsRune(value, 0):
		d.Report(key, "a NUL character, which no program accepts; remove it")
	case text.LooksSecret(value):
		d.Report(key, "this looks like an API key (not shown), which does not belong in a configuration; put it into an environment variable NAME and write ${NAME} as a value of env")
	}
}

// isSecret reports whether a variable has a literal secret: a value that is no path and no switch under
// the name of one, or a password in an address.
func isSecret(name, value string) bool {
	if _, ok := Reference(value); ok || value == "" {
		return false
	}
	u, err := url.Parse(value)
	if err == nil {
		if _, password := u.User.Password(); password {
			return true
		}
	}
	_, err = strconv.ParseBool(value)
	return (text.SecretVariable(name) || text.SecretKey(name)) && !filepath.IsAbs(value) && err != nil
}

// checkServerURL checks the address of an MCP server. It may have a query, but no secret in it.
func (d *Decoder) checkServerURL(key, raw string) {
	const (
		example = "it takes an address such as https://mcp.example.com/mcp"
		instead = "name the variable that holds the token in token_env, in the worker's configuration"
	)
	u, ok := d.checkURL(key, raw, example, instead)
	if !ok {
		return
	}
	if u.Fragment != "" {
		d.Report(key, "the URL has a fragment, which no server sees; %s", example)
		return
	}
	if hasSecret(u.Query()) {
		d.Report(key, "the URL seems to contain a key (not shown); %s", instead)
	}
}

func hasSecret(query url.Values) bool {
	for name, values := range query {
		if text.SecretKey(name) || slices.ContainsFunc(values, text.LooksSecret) {
			return true
		}
	}
	return false
}
