package massgen

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"conclave/engine/config"
)

// agents translates the agents in their order.
func (im *importer) agents(root *yaml.Node) {
	list := sequence()
	set(im.team, "agents", list)
	if one := get(root, "agent"); one != nil {
		list.Content = append(list.Content, im.agent("agent", one))
		return
	}
	for _, n := range get(root, "agents").Content {
		if id := text(get(n, "id")); legalID.MatchString(id) {
			im.kept[id] = true
		}
	}
	for i, n := range get(root, "agents").Content {
		list.Content = append(list.Content, im.agent(nth("agents", i), n))
	}
}

func (im *importer) agent(path string, source *yaml.Node) *yaml.Node {
	a := mapping()
	set(a, "id", str(im.id(path, source)))
	set(a, "backend", mapping())
	keys := entries(source, path)
	for _, e := range keys {
		switch e.key {
		case "system_message", "subtask", "mcp_servers", "tools":
			im.carry(a, e.key, e)
		}
	}
	for _, e := range keys {
		switch e.key {
		case "backend":
			im.backend(a, e)
		case "id", "system_message", "subtask", "mcp_servers", "tools":
		case "append_system_prompt":
			im.instruct(a, e)
		default:
			im.leaveOut(agentKeys, e)
		}
	}
	return a
}

// instruct appends an entry to the agent's system message.
func (im *importer) instruct(a *yaml.Node, e entry) {
	before := text(get(a, "system_message"))
	if before == "" {
		im.notes.of(e, "moved to the agent's system_message")
		im.paths[e.value] = e.path
		set(a, "system_message", e.value)
		return
	}
	im.notes.of(e, "appended to the agent's system_message")
	joined := str(strings.TrimRight(before, "\n") + "\n\n" + text(e.value))
	im.paths[joined] = e.path
	set(a, "system_message", joined)
}

var (
	refusedInIDs = regexp.MustCompile(`[^a-z0-9_-]+`)
	legalID      = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
	beforeLetter = regexp.MustCompile(`^[^a-z]+`)
)

// maxID is the longest ID, in bytes.
const maxID = 32

// id returns a legal ID for an agent that is unique in the team. Legal IDs of the document
// stay as they are.
func (im *importer) id(path string, source *yaml.Node) string {
	there := text(get(source, "id"))
	id := refusedInIDs.ReplaceAllString(strings.ToLower(there), "_")
	if there == "" {
		id = "agent_" + string(rune('a'+len(im.used)%26))
	} else if beforeLetter.MatchString(id) {
		id = "agent_" + strings.TrimLeft(id, "_-")
	}
	id = id[:min(len(id), maxID)]
	id = unique(id, func(id string) bool { return im.used[id] || id != there && im.kept[id] })
	im.used[id] = true
	switch {
	case there == "":
		im.notes.at(path+".id", source, "missing; the agent is called %s", id)
		there = id
	case legalID.MatchString(there) && there != id:
		im.notes.at(path+".id", get(source, "id"), "%q is now %s: another agent has the same ID", there, id)
	case there != id:
		im.notes.at(path+".id", get(source, "id"), "%q is now %s: an ID is a lower-case letter and up to 31 lower-case letters, digits, _ or -", there, id)
	}
	if _, repeated := im.ids[there]; !repeated {
		im.ids[there] = id
	}
	return id
}

// unique returns the name, with a number appended if it is taken.
func unique(name string, taken func(string) bool) string {
	for n := 2; ; n++ {
		if !taken(name) {
			return name
		}
		end := fmt.Sprintf("_%d", n)
		name = strings.TrimSuffix(name, fmt.Sprintf("_%d", n-1))
		name = name[:min(len(name), maxID-len(end))] + end
	}
}

// shell gives the agent the built-in shell.
func shell(a *yaml.Node, on bool) { set(section(a, "tools"), "shell", boolean(on)) }

// The names under which command-line agents know their shells and their file tools.
var (
	shellTools = []string{"Bash", "run_shell_command", "shell"}
	fileTools  = []string{
		"Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "Glob", "Grep", "LS",
		"read_file", "read_many_files", "write_file", "replace", "glob", "search_file_content", "list_directory", "write", "view",
	}
)

// equip gives an agent the tools that replace those of a command-line agent: the shell and
// the file tools, as far as the backend's lists permit them.
func (m *model) equip(backend *yaml.Node) {
	allowed, disallowed := ownNames(get(backend, "allowed_tools")), ownNames(get(backend, "disallowed_tools"))
	permits := func(tools []string) bool {
		named := func(name string) bool { return slices.Contains(tools, name) }
		return (len(allowed) == 0 || slices.ContainsFunc(allowed, named)) && !slices.ContainsFunc(disallowed, named)
	}
	commands := permits(shellTools)
	if !commands && len(allowed) > 0 && !permits(fileTools) {
		set(section(m.agent, "tools"), "files", boolean(false))
	}
	shell(m.agent, commands)
}

// ownNames returns the names of a list of tools, of Bash(git log:*) the part before the
// bracket.
func ownNames(list *yaml.Node) []string {
	var names []string
	for _, name := range texts(list) {
		name, _, _ = strings.Cut(name, "(")
		names = append(names, name)
	}
	return names
}

// typeOf returns the type of backend for a model. The models of Copilot come from several
// vendors; their names tell which.
func typeOf(k kind, model string) string {
	if k.name != "copilot" {
		return k.as
	}
	switch {
	case strings.HasPrefix(model, "claude"):
		return "anthropic"
	case strings.HasPrefix(model, "gemini"):
		return "gemini"
	}
	return k.as
}

// keyVariable returns the variable of a type's key, or "" if the type needs none.
func keyVariable(name string) string {
	if known := (config.Backend{Type: name}).Known(); known.Name == name && len(known.KeyVariables) > 0 {
		return known.KeyVariables[0]
	}
	return ""
}
