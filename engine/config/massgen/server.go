package massgen

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"conclave/engine/config"
)

// server is an MCP server of an agent.
type server struct {
	there string     // its name in the document
	node  *yaml.Node // the translated server
}

var refusedInNames = regexp.MustCompile(`[^a-z0-9_-]+`)

// translateServers translates the MCP servers of a backend: a list, or a mapping by name.
func (s *scope) translateServers(e entry) {
	sources := entriesOf(e.value, e.path)
	for _, named := range sources {
		if named.value.Kind == yaml.MappingNode && config.Lookup(named.value, "name") == nil {
			config.SetEntry(named.value, "name", newString(named.key))
		}
	}
	if e.value.Kind == yaml.SequenceNode {
		for i, item := range e.value.Content {
			sources = append(sources, entry{"", itemPath(e.path, i), item.Line, item})
		}
	}
	if len(sources) == 0 {
		s.leaveOutOfBackend(e)
		return
	}
	list := config.Lookup(s.agent, "mcp_servers")
	if list == nil {
		list = newList(0)
		config.SetEntry(s.agent, "mcp_servers", list)
	}
	for _, source := range sources {
		if source.value.Kind != yaml.MappingNode {
			s.notes.noteEntry(source, "not a mapping; the server is left out")
			continue
		}
		s.server = server{entryText(source.value, "name"), newMapping()}
		s.paths[s.server.node] = source.path
		s.nameServer(source, list)
		s.translateSection("server", entriesOf(source.value, source.path))
		list.Content = append(list.Content, s.server.node)
		s.translated = append(s.translated, s.server)
	}
}

// nameServer gives the server a legal name that is unique in the list of the agent's earlier ones.
func (s *scope) nameServer(source entry, list *yaml.Node) {
	name := refusedInNames.ReplaceAllString(strings.ToLower(s.server.there), "_")
	if name == "" {
		name = "server"
	}
	name = uniqueName(name, func(name string) bool {
		return slices.ContainsFunc(list.Content, func(other *yaml.Node) bool { return entryText(other, "name") == name })
	})
	if name != s.server.there {
		s.notes.noteValue(source.path+".name", config.Lookup(source.value, "name"),
			"%q is now %s, and its tools are called mcp__%s__…: a name is up to 32 lower-case letters, digits, _ or -", s.server.there, name, name)
	}
	config.SetEntry(s.server.node, "name", newString(name))
}

// translateTransport carries the type over, with the names that other clients use.
func (s *scope) translateTransport(e entry) {
	switch scalarText(e.value) {
	case "http", "streamable_http", "streamableHttp":
		s.notes.noteEntry(e, "now streamable-http, the usual name of the same transport")
		config.SetEntry(s.server.node, "type", newString("streamable-http"))
	case "sse":
		s.notes.noteEntry(e, "conclave does not support the older transport sse: the server has to speak streamable HTTP at its url")
	default:
		s.carryOver(keep("server"), e)
	}
}

// translateCommand carries a program over, with a placeholder for a relative path, which MassGen finds
// from where it was started.
func (s *scope) translateCommand(e entry) {
	s.carryOver(keep("server"), e)
	program := scalarText(e.value)
	if strings.ContainsAny(program, `/\`) && !strings.HasPrefix(program, "/") && !strings.Contains(program, `:\`) {
		named := "/PATH/TO/" + program[strings.LastIndexAny(program, `/\`)+1:]
		s.notes.noteEntry(e, "%s is relative to where MassGen was started; replace the placeholder %s with the absolute path, or with one that begins with ./ and is relative to this file", program, named)
		config.SetEntry(s.server.node, "command", newString(named))
	}
}

// The variables for the workspace, of MassGen and of conclave.
const workingDirectory, workspaceHere = "${cwd}", "${CONCLAVE_WORKSPACE}"

// translateArguments carries arguments over, with the workspace in place of its variable.
func (s *scope) translateArguments(e entry) {
	list := newList(yaml.FlowStyle)
	for i, item := range e.value.Content {
		path, arg := itemPath(e.path, i), scalarText(item)
		others := strings.ReplaceAll(arg, workingDirectory, "")
		if others != arg {
			arg = strings.ReplaceAll(arg, workingDirectory, workspaceHere)
			s.notes.noteValue(path, item, "%s is now %s, the agent's workspace", workingDirectory, workspaceHere)
		}
		if found := references.FindString(others); found != "" {
			s.notes.noteValue(path, item, "arguments take no variables here, and %s stays unchanged: pass it in env, or start the server with a script", found)
		}
		if strings.HasPrefix(arg, "../") || strings.HasPrefix(arg, "./") {
			s.notes.noteValue(path, item, "%s is now relative to this file, no longer to where MassGen was started: write an absolute path if these differ", arg)
		}
		copied := newStringAt(arg, item)
		s.paths[copied] = path
		list.Content = append(list.Content, copied)
	}
	config.SetEntry(s.server.node, "args", list)
}

// translateEnvironment copies the environment variables of a server. It warns of references inside longer
// values, which conclave does not expand.
func (s *scope) translateEnvironment(e entry) {
	env := newMapping()
	for _, v := range entriesOf(e.value, e.path) {
		if found := references.FindString(scalarText(v.value)); found != "" && !variable.MatchString(scalarText(v.value)) {
			s.notes.noteEntry(v, "%s is not replaced within a longer value, which stays unchanged: put the whole value into a variable", found)
		}
		s.placeValue(env, v.key, newStringAt(scalarText(v.value), v.value), v.path)
	}
	config.SetEntry(s.server.node, "env", env)
}

// keepFilter carries a server's own filter over, with the names that the server lists.
func (s *scope) keepFilter(e entry) {
	names := scalarTexts(e.value)
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, "mcp__"+s.server.there+"__")
	}
	if len(names) > 0 {
		config.SetEntry(s.server.node, e.key, newList(yaml.FlowStyle, names...))
	}
}

// applyFilters adds the filters of a backend to its servers. A server's own list of allowed tools
// replaces that of the backend.
func (s *scope) applyFilters(backend entry) {
	for _, key := range []string{"allowed_tools", "exclude_tools"} {
		for _, e := range entriesOf(backend.value, backend.path) {
			if e.key == key {
				s.applyFilter(e)
			}
		}
	}
}

// applyFilter adds one filter to the servers that it names; names without a server apply to all
// servers. In the allow list of a command-line agent they are the program's own tools.
func (s *scope) applyFilter(e entry) {
	ownTools := s.kind.agent != "" && e.key == "allowed_tools"
	applied := false
	for _, server := range s.translated {
		var names []string
		for _, name := range scalarTexts(e.value) {
			own, named := strings.CutPrefix(name, "mcp__"+server.there+"__")
			if named || !strings.HasPrefix(name, "mcp__") && !ownTools {
				names = append(names, own)
			}
		}
		before := config.Lookup(server.node, e.key)
		if len(names) == 0 || before != nil && e.key == "allowed_tools" {
			continue
		}
		applied = true
		config.SetEntry(server.node, e.key, newList(yaml.FlowStyle, append(scalarTexts(before), names...)...))
	}
	switch {
	case applied && ownTools:
		s.notes.noteEntry(e, "the names of MCP tools moved to %s of the agent's mcp_servers; tools.files and tools.shell are set to replace the tools of %s that it names", e.key, s.kind.agent)
	case applied:
		s.notes.noteEntry(e, "moved to %s of the agent's mcp_servers", e.key)
	case ownTools:
		s.notes.noteEntry(e, "names tools of %s; tools.files and tools.shell are set to replace them", s.kind.agent)
	default:
		s.notes.noteEntry(e, "names no tool of an MCP server of this agent; it is left out")
	}
}

// entry is one key of a mapping with its value.
type entry struct {
	key   string
	path  string // path of the key in the document: agents[0].backend.model
	line  int
	value *yaml.Node
}

// readDocument parses a document into nodes without aliases and merge keys.
func readDocument(data []byte) (*yaml.Node, error) {
	root, err := config.ReadDocument("", data)
	if problems, ok := errors.AsType[config.Problems](err); ok {
		return nil, fmt.Errorf("line %d: %s", problems[0].Line, problems[0].Message)
	}
	switch {
	case err != nil:
		return nil, err
	case root.Tag == "!!null":
		return nil, errors.New("the file is empty")
	case root.Kind != yaml.MappingNode:
		return nil, errors.New("a team configuration is a mapping with the key agents or agent")
	}
	normalizeBooleans(root)
	return root, nil
}

// normalizeBooleans writes the booleans of YAML 1.1, which MassGen reads, as those of YAML 1.2, and
// collections in lines.
func normalizeBooleans(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		n.Style = 0
		for _, inner := range n.Content {
			normalizeBooleans(inner)
		}
		return
	}
	if n.Style != 0 {
		return
	}
	switch strings.ToLower(n.Value) {
	case "yes", "on", "true":
		n.Value, n.Tag = "true", "!!bool"
	case "no", "off", "false":
		n.Value, n.Tag = "false", "!!bool"
	}
}

func entriesOf(n *yaml.Node, path string) []entry {
	var list []entry
	for _, e := range config.Entries(n) {
		at := e.Key.Value
		if path != "" {
			at = path + "." + at
		}
		list = append(list, entry{e.Key.Value, at, e.Key.Line, e.Value})
	}
	return list
}

func subsectionOf(n *yaml.Node, key string) *yaml.Node {
	s := config.Lookup(n, key)
	if s == nil || s.Kind != yaml.MappingNode {
		s = newMapping()
		config.SetEntry(n, key, s)
	}
	return s
}

func itemPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func newMapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

func newList(style yaml.Style, values ...string) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: style}
	for _, v := range values {
		list.Content = append(list.Content, newString(v))
	}
	return list
}

func newString(value string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(value)
	return n
}

func newStringAt(value string, source *yaml.Node) *yaml.Node {
	n := newString(value)
	n.Line = source.Line
	return n
}

func newBoolean(value bool) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(value)}
}

func scalarText(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

func entryText(n *yaml.Node, key string) string { return scalarText(config.Lookup(n, key)) }

func boolValue(n *yaml.Node) (value, ok bool) {
	return scalarText(n) == "true", n != nil && n.Tag == "!!bool"
}

// isOff reports whether a value switches its key off: false, null or empty.
func isOff(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return len(n.Content) == 0
	}
	return n.Tag == "!!null" || n.Value == "false" && n.Tag == "!!bool" || n.Value == ""
}

// scalarTexts returns the scalars of a list, or a single scalar as a list. A mapping has none.
func scalarTexts(n *yaml.Node) []string {
	if t := scalarText(n); t != "" {
		return []string{t}
	}
	var list []string
	if n != nil && n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			list = append(list, scalarText(item))
		}
	}
	return list
}

// keysBelow returns the paths of the keys in a value at a path, without positions in lists.
func keysBelow(n *yaml.Node, path string) []string {
	var names []string
	for _, e := range entriesOf(n, path) {
		names = append(append(names, e.path), keysBelow(e.value, e.path)...)
	}
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			names = append(names, keysBelow(item, path)...)
		}
	}
	return names
}
