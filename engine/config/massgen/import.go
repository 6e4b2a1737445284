package massgen

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"conclave/engine/config"
)

// Translation is a team of conclave.
type Translation struct {
	YAML []byte

	// Notes name every key that was not carried over under its own name.
	Notes []Note

	// Invalid is the reason why conclave refuses the team: config.Problems with positions
	// in YAML. It is nil for a valid team.
	Invalid error
}

// importer is the state of one translation.
type importer struct {
	table rules
	team  *yaml.Node
	notes notes
	paths map[*yaml.Node]string // paths in the document of the values carried over
	ids   map[string]string     // the agents' new IDs by their IDs in the document
	kept  map[string]bool       // IDs of the document that stay as they are
	used  map[string]bool       // new IDs in use
}

// scope is shared by the rules of an agent's sections; outside agents it has no agent.
type scope struct {
	*importer
	agent *yaml.Node // the translated agent
	model
	server     server   // the MCP server that is translated
	translated []server // the MCP servers of the backend
}

func (s *scope) sectionOf(name string) *yaml.Node {
	switch name {
	case "agent":
		return s.agent
	case "backend":
		return s.backend
	case "params":
		return subsectionOf(s.backend, name)
	case "server":
		return s.server.node
	case "coordination":
		return subsectionOf(s.sectionOf("orchestrator"), name)
	}
	return subsectionOf(s.team, name)
}

// Import translates a configuration. It fails if the document is not a team of MassGen.
// name stands for the document in the positions of Invalid.
func Import(name string, data []byte) (Translation, error) {
	root, err := readDocument(data)
	if err != nil {
		return Translation{}, err
	}
	if err := checkTeam(root); err != nil {
		return Translation{}, err
	}
	im := &importer{
		table: table, team: newMapping(),
		paths: map[*yaml.Node]string{}, ids: map[string]string{}, kept: map[string]bool{}, used: map[string]bool{},
	}
	im.translateAgents(root)
	s := &scope{importer: im}
	s.translateSection("team", entriesOf(root, ""))
	t := Translation{Invalid: im.removeRefused(name)}
	t.YAML = im.writeTeam()
	t.Notes = im.notes.sortByLine()
	return t, nil
}

// versionOne are keys of a format that MassGen itself no longer reads.
var versionOne = []string{"models", "model_configs", "num_agents", "consensus_threshold", "voting_enabled", "enable_voting"}

func checkTeam(root *yaml.Node) error {
	agents, agent := config.Lookup(root, "agents"), config.Lookup(root, "agent")
	for _, key := range versionOne {
		if config.Lookup(root, key) != nil {
			return fmt.Errorf("the key %s belongs to the first version of MassGen's format, which MassGen no longer reads; start from its current examples", key)
		}
	}
	switch {
	case agents == nil && agent == nil:
		return errors.New("no agents: the file has neither the key agents nor agent, so it is not a team configuration; name the file of a team")
	case agents != nil && agent != nil:
		return errors.New("the file has both agents and agent; a team has one of these keys")
	case agents != nil && agents.Kind != yaml.SequenceNode:
		return fmt.Errorf("line %d: agents is not a list; it takes one mapping for each agent", agents.Line)
	case agent != nil && agent.Kind != yaml.MappingNode:
		return fmt.Errorf("line %d: agent is not a mapping", agent.Line)
	}
	return nil
}

func agentsOf(root *yaml.Node) []entry {
	if one := config.Lookup(root, "agent"); one != nil {
		return []entry{{path: "agent", value: one}}
	}
	var agents []entry
	for i, n := range config.Lookup(root, "agents").Content {
		agents = append(agents, entry{path: itemPath("agents", i), value: n})
	}
	return agents
}

func (s *scope) translateSection(section string, keys []entry) {
	for _, e := range keys {
		switch r, _ := s.table.ruleOf(section, e.key); {
		case r.do != nil:
			r.do(s, e)
		case r.inside != "" && e.value.Kind == yaml.MappingNode:
			s.translateSection(r.inside, entriesOf(e.value, e.path))
		case r.inside != "":
			s.leaveOut(e, "not a mapping; it is left out")
		case r.to != "":
			s.carryOver(r, e)
		default:
			s.leaveOut(e, r.reason)
		}
	}
}

// carryOver sets the key of the team that a rule names, unless an earlier entry has set it.
func (s *scope) carryOver(r rule, e entry) {
	into, name := s.sectionOf(r.to), cmp.Or(r.name, e.key)
	if there := config.Lookup(into, name); there != nil {
		s.noteDisplaced(e, cmp.Or(s.paths[there], "an earlier key"))
		return
	}
	s.placeValue(into, name, e.value, e.path)
	if r.note != "" {
		s.notes.noteEntry(e, "%s%s%s", r.note, name, r.end)
	}
}

func (im *importer) placeValue(into *yaml.Node, key string, value *yaml.Node, path string) {
	im.paths[value] = path
	config.SetEntry(into, key, value)
}

func (im *importer) noteDisplaced(e entry, by string) {
	im.notes.noteEntry(e, "not carried over: %s sets the same key here, and is used", by)
}

// leaveOut notes that an entry is not carried over, with the reason. MassGen's own switches need
// none if they are off.
func (im *importer) leaveOut(e entry, reason string) {
	if reason != "" && isOff(e.value) {
		reason = "switched off in MassGen, and not needed here"
	}
	im.notes.noteEntry(e, "%s", cmp.Or(reason, noCounterpart))
}

func (s *scope) leaveOutOfBackend(e entry) {
	r, _ := s.table.ruleOf("backend", e.key)
	s.leaveOut(e, r.reason)
}

// translatePresenter names an agent by its ID here.
func (s *scope) translatePresenter(e entry) {
	if id, ok := s.ids[scalarText(e.value)]; ok && id != scalarText(e.value) {
		s.notes.noteEntry(e, "now %s, as the agent", id)
		e.value = newString(id)
	}
	s.carryOver(keep("orchestrator"), e)
}

// translateCoordination also names who manages evaluations, which MassGen leaves open.
func (s *scope) translateCoordination(e entry) {
	s.translateSection("coordination", entriesOf(e.value, e.path))
	const managed = "orchestrator_managed_round_evaluator"
	into := s.sectionOf("coordination")
	if on, _ := boolValue(config.Lookup(into, "round_evaluator_before_checklist")); on && config.Lookup(into, managed) == nil {
		s.notes.noteValue(e.path+"."+managed, e.value, "missing; it is true, since evaluations before the checklist are managed so here")
		config.SetEntry(into, managed, newBoolean(true))
	}
}

func (im *importer) writeTeam() []byte {
	data, _ := yaml.Dump(im.team, yaml.WithIndent(2), yaml.WithCompactSeqIndent(false), yaml.WithLineWidth(-1)) // nodes can always be written
	return data
}

// Recognize reports whether a document that conclave refuses may be a team of MassGen: it
// has agents, and a key or a type of backend that only MassGen has.
func Recognize(data []byte) bool {
	root, err := readDocument(data)
	if err != nil || checkTeam(root) != nil {
		return false
	}
	if config.Lookup(root, "ui") != nil || config.Lookup(root, "memory") != nil || hasForeignKey("orchestrator", config.Lookup(root, "orchestrator")) {
		return true
	}
	return slices.ContainsFunc(agentsOf(root), func(agent entry) bool {
		backend := config.Lookup(agent.value, "backend")
		name := entryText(backend, "type")
		_, known := kindOf(name)
		return known && !isType(name) || hasForeignKey("backend", backend)
	})
}

// hasForeignKey reports whether a section has a key that only MassGen has there.
func hasForeignKey(section string, n *yaml.Node) bool {
	return slices.ContainsFunc(config.Entries(n), func(e config.Entry) bool {
		r, own := table.ruleOf(section, e.Key.Value)
		return own && r.reason != "" || section == "backend" && isParam(e.Key.Value)
	})
}

func (im *importer) translateAgents(root *yaml.Node) {
	list := newList(0)
	config.SetEntry(im.team, "agents", list)
	sources := agentsOf(root)
	for _, source := range sources {
		if id := entryText(source.value, "id"); legalID.MatchString(id) {
			im.kept[id] = true
		}
	}
	for _, source := range sources {
		s := &scope{importer: im, agent: newMapping(), model: model{backend: newMapping()}}
		config.SetEntry(s.agent, "id", newString(im.chooseID(source.path, source.value)))
		config.SetEntry(s.agent, "backend", s.backend)
		moved := func(e entry) bool { return !slices.Contains(strings.Fields(agentKeys), e.key) }
		keys := entriesOf(source.value, source.path)
		s.translateSection("agent", slices.DeleteFunc(slices.Clone(keys), moved)) // others may be appended to these
		s.translateSection("agent", slices.DeleteFunc(keys, func(e entry) bool { return !moved(e) }))
		list.Content = append(list.Content, s.agent)
	}
}

func (s *scope) addInstructions(e entry) {
	before := entryText(s.agent, "system_message")
	if before == "" {
		s.notes.noteEntry(e, "moved to the agent's system_message")
		s.placeValue(s.agent, "system_message", e.value, e.path)
		return
	}
	s.notes.noteEntry(e, "appended to the agent's system_message")
	s.placeValue(s.agent, "system_message", newString(strings.TrimRight(before, "\n")+"\n\n"+scalarText(e.value)), e.path)
}

var (
	refusedInIDs = regexp.MustCompile(`[^a-z0-9_-]+`)
	legalID      = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
	beforeLetter = regexp.MustCompile(`^[^a-z]+`)
)

// maxID is the longest ID, in bytes.
const maxID = 32

// chooseID returns a legal ID for an agent that is unique in the team. Legal IDs of the document
// stay as they are.
func (im *importer) chooseID(path string, source *yaml.Node) string {
	there := entryText(source, "id")
	id := refusedInIDs.ReplaceAllString(strings.ToLower(there), "_")
	if there == "" {
		id = "agent_" + string(rune('a'+len(im.used)%26))
	} else if beforeLetter.MatchString(id) {
		id = "agent_" + strings.TrimLeft(id, "_-")
	}
	id = uniqueName(id, func(id string) bool { return im.used[id] || id != there && im.kept[id] })
	im.used[id] = true
	switch {
	case there == "":
		im.notes.noteValue(path+".id", source, "missing; the agent is called %s", id)
		there = id
	case legalID.MatchString(there) && there != id:
		im.notes.noteValue(path+".id", config.Lookup(source, "id"), "%q is now %s: another agent has the same ID", there, id)
	case there != id:
		im.notes.noteValue(path+".id", config.Lookup(source, "id"), "%q is now %s: an ID is a lower-case letter and up to 31 lower-case letters, digits, _ or -", there, id)
	}
	if _, repeated := im.ids[there]; !repeated {
		im.ids[there] = id
	}
	return id
}

func uniqueName(name string, taken func(string) bool) string {
	name = name[:min(len(name), maxID)]
	for n := 2; ; n++ {
		if !taken(name) {
			return name
		}
		end := fmt.Sprintf("_%d", n)
		name = strings.TrimSuffix(name, fmt.Sprintf("_%d", n-1))
		name = name[:min(len(name), maxID-len(end))] + end
	}
}

func (s *scope) setShell(on bool) {
	config.SetEntry(subsectionOf(s.agent, "tools"), "shell", newBoolean(on))
}

// allowCommands carries the tool that runs commands over, unless somebody counts on its permissions.
func (s *scope) allowCommands(e entry) {
	on, ok := boolValue(e.value)
	switch {
	case !ok:
		s.leaveOutOfBackend(e)
	case on && s.guarded:
		s.notes.noteEntry(e, "not moved to the agent's tools.shell: the permissions of these commands are not enforced here")
	default:
		s.notes.noteEntry(e, "moved to the agent's tools.shell: commands run in conclave's sandbox, in the step's workspace, without network")
		s.setShell(on)
	}
}

// The names under which command-line agents know their shells and their file tools.
var (
	shellTools = []string{"Bash", "run_shell_command", "shell"}
	fileTools  = []string{
		"Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "Glob", "Grep", "LS",
		"read_file", "read_many_files", "write_file", "replace", "glob", "search_file_content", "list_directory", "write", "view",
	}
)

// equipAgent gives an agent the tools that replace those of a command-line agent: the shell and
// the file tools, as far as the backend's lists permit them.
func (s *scope) equipAgent(backend *yaml.Node) {
	allowed, disallowed := toolNames(config.Lookup(backend, "allowed_tools")), toolNames(config.Lookup(backend, "disallowed_tools"))
	permits := func(tools []string) bool {
		named := func(name string) bool { return slices.Contains(tools, name) }
		return (len(allowed) == 0 || slices.ContainsFunc(allowed, named)) && !slices.ContainsFunc(disallowed, named)
	}
	commands := permits(shellTools)
	if !commands && len(allowed) > 0 && !permits(fileTools) {
		config.SetEntry(subsectionOf(s.agent, "tools"), "files", newBoolean(false))
	}
	s.setShell(commands)
}

// toolNames returns the names of a list of tools, of Bash(git log:*) the part before the bracket.
func toolNames(list *yaml.Node) []string {
	names := scalarTexts(list)
	for i, name := range names {
		names[i], _, _ = strings.Cut(name, "(")
	}
	return names
}
