package massgen

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// filters holds the servers of an agent and the filters of its backend, which apply to all
// of them.
type filters struct {
	servers           []server
	allowed, excluded entry
}

// server is an MCP server of an agent.
type server struct {
	there string     // its name in the document
	node  *yaml.Node // the translated server
}

var refusedInNames = regexp.MustCompile(`[^a-z0-9_-]+`)

// servers translates the MCP servers of a backend: a list, or a mapping by name.
func (im *importer) servers(a *yaml.Node, e entry) []server {
	var sources []entry
	switch e.value.Kind {
	case yaml.MappingNode:
		for _, named := range entries(e.value, e.path) {
			if named.value.Kind == yaml.MappingNode && get(named.value, "name") == nil {
				set(named.value, "name", str(named.key))
			}
			sources = append(sources, named)
		}
	case yaml.SequenceNode:
		for i, item := range e.value.Content {
			sources = append(sources, entry{"", nth(e.path, i), item.Line, item})
		}
	}
	if len(sources) == 0 {
		im.leaveOut(backendKeys, e)
		return nil
	}
	list := get(a, "mcp_servers")
	if list == nil {
		list = sequence()
		set(a, "mcp_servers", list)
	}
	var translated []server
	for _, source := range sources {
		if source.value.Kind != yaml.MappingNode {
			im.notes.drop(source, "not a mapping; the server is left out")
			continue
		}
		s := im.server(source, list)
		list.Content = append(list.Content, s.node)
		translated = append(translated, s)
	}
	return translated
}

// server translates one MCP server; list has the agent's earlier ones.
func (im *importer) server(source entry, list *yaml.Node) server {
	s := server{there: text(get(source.value, "name")), node: mapping()}
	im.paths[s.node] = source.path
	name := refusedInNames.ReplaceAllString(strings.ToLower(s.there), "_")
	if name == "" {
		name = "server"
	}
	name = unique(name[:min(len(name), maxID)], func(name string) bool {
		return slices.ContainsFunc(list.Content, func(other *yaml.Node) bool { return text(get(other, "name")) == name })
	})
	if name != s.there {
		im.notes.at(source.path+".name", get(source.value, "name"), "%q is now %s, and its tools are called mcp__%s__…: a name is up to 32 lower-case letters, digits, _ or -", s.there, name, name)
	}
	set(s.node, "name", str(name))
	for _, e := range entries(source.value, source.path) {
		switch e.key {
		case "name":
		case "type":
			im.transport(s.node, e)
		case "url", "scope":
			im.carry(s.node, e.key, e)
		case "command":
			im.command(s.node, e)
		case "args":
			im.arguments(s.node, e)
		case "env":
			im.environment(s.node, e)
		case "allowed_tools", "exclude_tools":
			if names := texts(e.value); len(names) > 0 {
				set(s.node, e.key, listOf(s.own(names)))
			}
		default:
			im.leaveOut(serverKeys, e)
		}
	}
	return s
}

// transport carries the type over, with the names that other clients use.
func (im *importer) transport(s *yaml.Node, e entry) {
	switch text(e.value) {
	case "http", "streamable_http", "streamableHttp":
		im.notes.of(e, "now streamable-http, the usual name of the same transport")
		set(s, "type", str("streamable-http"))
	case "sse":
		im.notes.of(e, "conclave does not support the older transport sse: the server has to speak streamable HTTP at its url")
	default:
		im.carry(s, "type", e)
	}
}

// command carries a program over, with a placeholder for a relative path, which MassGen finds
// from where it was started.
func (im *importer) command(s *yaml.Node, e entry) {
	im.carry(s, "command", e)
	program := text(e.value)
	if strings.ContainsAny(program, `/\`) && !strings.HasPrefix(program, "/") && !strings.Contains(program, `:\`) {
		named := "/PATH/TO/" + program[strings.LastIndexAny(program, `/\`)+1:]
		im.notes.of(e, "%s is relative to where MassGen was started; replace the placeholder %s with the absolute path, or with one that begins with ./ and is relative to this file", program, named)
		set(s, "command", str(named))
	}
}

// The variables for the workspace, of MassGen and of conclave.
const workingDirectory, workspaceHere = "${cwd}", "${CONCLAVE_WORKSPACE}"

// arguments carries arguments over, with the workspace in place of its variable.
func (im *importer) arguments(s *yaml.Node, e entry) {
	list := listOf(nil)
	for i, item := range e.value.Content {
		path, arg := nth(e.path, i), text(item)
		others := strings.ReplaceAll(arg, workingDirectory, "")
		if others != arg {
			arg = strings.ReplaceAll(arg, workingDirectory, workspaceHere)
			im.notes.at(path, item, "%s is now %s, the agent's workspace", workingDirectory, workspaceHere)
		}
		if found := references.FindString(others); found != "" {
			im.notes.at(path, item, "arguments take no variables here, and %s stays unchanged: pass it in env, or start the server with a script", found)
		}
		if strings.HasPrefix(arg, "../") || strings.HasPrefix(arg, "./") {
			im.notes.at(path, item, "%s is now relative to this file, no longer to where MassGen was started: write an absolute path if these differ", arg)
		}
		copied := strAt(arg, item)
		im.paths[copied] = path
		list.Content = append(list.Content, copied)
	}
	set(s, "args", list)
}

// environment copies the environment variables of a server. It warns of references inside longer
// values, which conclave does not expand.
func (im *importer) environment(s *yaml.Node, e entry) {
	env := mapping()
	for _, v := range entries(e.value, e.path) {
		if found := references.FindString(text(v.value)); found != "" && !variable.MatchString(text(v.value)) {
			im.notes.of(v, "%s is not replaced within a longer value, which stays unchanged: put the whole value into a variable", found)
		}
		copied := strAt(text(v.value), v.value)
		im.paths[copied] = v.path
		set(env, v.key, copied)
	}
	set(s, "env", env)
}

// own converts names of tools to those that the server lists.
func (s server) own(names []string) []string {
	var own []string
	for _, name := range names {
		own = append(own, strings.TrimPrefix(name, "mcp__"+s.there+"__"))
	}
	return own
}

// apply adds the filters of a backend to its servers. A server's own list of allowed tools
// replaces that of the backend.
func (f filters) apply(im *importer, k kind) {
	if f.allowed.value != nil {
		f.to(im, k, f.allowed, func(s server) bool { return get(s.node, "allowed_tools") == nil })
	}
	if f.excluded.value != nil {
		f.to(im, k, f.excluded, func(server) bool { return true })
	}
}

// to adds one filter to the servers that it names; names without a server apply to all
// servers. In the allow list of a command-line agent they are the program's own tools.
func (f filters) to(im *importer, k kind, e entry, fits func(server) bool) {
	ownTools := k.agent != "" && e.key == "allowed_tools"
	applied := false
	for _, s := range f.servers {
		var names []string
		for _, name := range texts(e.value) {
			if strings.HasPrefix(name, "mcp__"+s.there+"__") || !strings.HasPrefix(name, "mcp__") && !ownTools {
				names = append(names, s.own([]string{name})...)
			}
		}
		if len(names) == 0 || !fits(s) {
			continue
		}
		applied = true
		set(s.node, e.key, listOf(append(texts(get(s.node, e.key)), names...)))
	}
	switch {
	case applied && ownTools:
		im.notes.of(e, "the names of MCP tools moved to %s of the agent's mcp_servers; tools.files and tools.shell are set to replace the tools of %s that it names", e.key, k.agent)
	case applied:
		im.notes.of(e, "moved to %s of the agent's mcp_servers", e.key)
	case ownTools:
		im.notes.of(e, "names tools of %s; tools.files and tools.shell are set to replace them", k.agent)
	default:
		im.notes.of(e, "names no tool of an MCP server of this agent; it is left out")
	}
}
