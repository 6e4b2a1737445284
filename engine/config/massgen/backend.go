package massgen

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"conclave/engine/config"
)

// model is the backend of an agent.
type model struct {
	backend *yaml.Node // the translated backend
	kind    kind
	name    string // the model's name
	address string // address as in the document; "" for the type's own
	guarded bool   // has permissions for commands, which conclave does not enforce
}

func (s *scope) translateBackend(e entry) {
	permissions := config.Lookup(e.value, "permissions")
	enabled := config.Lookup(permissions, "enabled")
	s.guarded = permissions != nil && (enabled == nil || !isOff(enabled))
	s.identifyModel(e)
	s.translateSection("backend", entriesOf(e.value, e.path))
	s.applyFilters(e)
	s.locateServer(e)
	s.limitReplyOnce()
	first := []string{"type", "provider", "model", "base_url", "api_key_env", "params"}
	order := func(e config.Entry) int {
		if i := slices.Index(first, e.Key.Value); i >= 0 {
			return i
		}
		return len(first)
	}
	keys := config.Entries(s.backend)
	slices.SortStableFunc(keys, func(a, b config.Entry) int { return cmp.Compare(order(a), order(b)) })
	s.backend.Content = nil
	for _, key := range keys {
		s.backend.Content = append(s.backend.Content, key.Key, key.Value)
	}
}

// identifyModel asks the model of an agent that another framework runs through the API behind it.
func (s *scope) identifyModel(e entry) {
	source := e.value
	there := config.Lookup(source, "type")
	k, known := kindOf(scalarText(there))
	s.kind, s.name, s.address = k, entryText(source, "model"), entryText(source, "base_url")
	if endpoint := s.replacement(e, "azure_endpoint", "base_url", "moved to backend.base_url"); endpoint != nil {
		s.address = scalarText(endpoint)
	}
	if deployment := s.replacement(e, "azure_deployment", "model", "moved to backend.model: the service is asked for a deployment"); deployment != nil {
		s.name = scalarText(deployment)
	}
	note := func(n *yaml.Node, format string, args ...any) { s.notes.noteValue(e.path+".type", n, format, args...) }
	as := typeOf(k, s.name)
	switch {
	case scalarText(there) == "":
		as = config.OpenAI
		note(source, "missing; it is openai here")
	case !known && isType(scalarText(there)):
		as = scalarText(there) // a type that conclave has, too
	case !known:
		as = config.OpenAI
		note(there, "unknown type %q; openai, which stands for any server of the Chat Completions API, replaces it: set backend.base_url and backend.api_key_env", scalarText(there))
	case k.agent == "AG2":
		note(there, "agents of AG2 have no counterpart: conclave calls the model itself and offers its own tools")
		as = s.translateFramework(e)
	case k.agent != "":
		note(there, "runs %s; here its model is asked through the API of %s, whose key is in %s, with conclave's own tools", k.agent, as, keyVariable(as))
		s.equipAgent(source)
	case as == config.OpenAI && typeAt(s.address) != "":
		as = typeAt(s.address)
	}
	if known && as != k.name && k.agent == "" {
		note(there, "%s is %s here", k.name, as)
	}
	config.SetEntry(s.backend, "type", newString(as))
	s.setModel(e)
}

// replacement returns the value of a key of Azure that replaces another key, with notes of both.
func (s *scope) replacement(backend entry, key, replaced, place string) *yaml.Node {
	value := config.Lookup(backend.value, key)
	if value == nil {
		return nil
	}
	s.notes.noteValue(backend.path+"."+key, value, "%s", place)
	for _, e := range entriesOf(backend.value, backend.path) {
		if e.key == replaced && scalarText(e.value) != scalarText(value) {
			s.noteDisplaced(e, backend.path+"."+key)
		}
	}
	return value
}

// setModel sets the model, by default MassGen's.
func (s *scope) setModel(e entry) {
	name := s.name
	switch {
	case name != "":
	case s.kind.model != "":
		name = s.kind.model
		s.notes.noteValue(e.path+".model", e.value, "missing; MassGen's default is %s", name)
	case entryText(e.value, "type") == config.Offline:
		return
	default:
		name = "MODEL"
		s.notes.noteValue(e.path+".model", e.value, "missing, and MassGen has no default; replace the placeholder MODEL with the server's name for the model")
	}
	config.SetEntry(s.backend, "model", newString(name))
}

// variable matches a value that MassGen takes from the environment.
var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)

// references matches variables within a value.
var references = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// translateKey translates a reference to a variable. It leaves literal keys out.
func (s *scope) translateKey(e entry) {
	named := variable.FindStringSubmatch(scalarText(e.value))
	if named == nil {
		s.notes.noteEntry(e, "a literal key (not shown) does not belong in a file; put it into an environment variable and name that in backend.api_key_env")
		return
	}
	e.value = newStringAt(named[1], e.value)
	s.carryOver(rule{to: "backend", name: "api_key_env", note: "moved to backend.", end: ", which takes the name of the variable"}, e)
}

// noServer stands for an address that only the user knows.
const noServer = "http://SERVER.invalid/v1"

// locateServer sets the address and the variable of the key that MassGen sends to it.
func (s *scope) locateServer(e entry) {
	as, at := entryText(s.backend, "type"), e.path+".base_url"
	address := cmp.Or(s.address, s.kind.baseURL)
	given := cmp.Or(config.Lookup(e.value, "base_url"), config.Lookup(e.value, "azure_endpoint"), e.value)
	switch {
	case as == "azure":
		address = s.locateAzure(at, given, address)
	case references.MatchString(address):
		s.notes.noteValue(at, given, "an address takes no variables here; replace %s, the placeholder for %s, with the address itself", noServer, address)
		address = noServer
	case address == "" && s.kind.name == "uitars":
		address = noServer
		s.notes.noteValue(at, e.value, "missing; replace the placeholder %s with the address of the server", noServer)
	}
	if address == "" {
		return
	}
	s.placeValue(s.backend, "base_url", newStringAt(address, given), at)
	if config.Lookup(s.backend, "api_key_env") != nil {
		return
	}
	name := cmp.Or(s.kind.keyVariable, variableOf(address))
	if name == "" && s.kind.name != "chatcompletion" && s.kind.name != "inference" {
		if name = keyVariable(as); name != "" && as != "azure" {
			s.notes.noteValue(at, given, "this server is sent the key in %s, as MassGen does; change backend.api_key_env if the server has a key of its own", name)
		}
	}
	if name != "" {
		config.SetEntry(s.backend, "api_key_env", newString(name))
	}
}

// locateAzure returns the address of the version 1 API of an endpoint.
func (s *scope) locateAzure(path string, given *yaml.Node, endpoint string) string {
	const example = "https://NAME.openai.azure.com/openai/v1"
	u, err := url.Parse(endpoint)
	switch {
	case endpoint == "":
		s.notes.noteValue(path, given, "missing; replace %s, the placeholder for AZURE_OPENAI_ENDPOINT, with your own address", example)
		return example
	case references.MatchString(endpoint) || err != nil:
		s.notes.noteValue(path, given, "an address takes no variables here; replace %s, the placeholder for %s, with your own address", example, endpoint)
		return example
	case strings.Trim(u.Path, "/") == "":
		s.notes.noteValue(path, given, "now ends in /openai/v1, the address of the API that needs no api_version")
		return strings.TrimSuffix(endpoint, "/") + "/openai/v1"
	}
	return endpoint
}

// refuseFramework leaves out the agents of AG2 in a backend of another type; translateFramework
// has those of AG2.
func (s *scope) refuseFramework(e entry) {
	if s.kind.agent != "AG2" {
		s.leaveOutOfBackend(e)
	}
}

// frameworkTypes are the types of backend by AG2's api_type.
var frameworkTypes = map[string]string{
	"anthropic": "anthropic", "google": "gemini", "mistral": "mistral", "groq": "groq", "together": "together", "ollama": "ollama", "deepseek": "deepseek",
}

// translateFramework translates the model and the instructions of an AG2 agent or group, and
// returns the type of backend.
func (s *scope) translateFramework(backend entry) string {
	var e entry
	for _, key := range entriesOf(backend.value, backend.path) {
		if key.key == "agent_config" || key.key == "group_config" {
			e = key
		}
	}
	llm := config.Lookup(e.value, "llm_config")
	if llm != nil && llm.Kind == yaml.SequenceNode && len(llm.Content) > 0 {
		llm = llm.Content[0]
	}
	s.name = cmp.Or(entryText(llm, "model"), s.name)
	for _, key := range entriesOf(llm, e.path+".llm_config") {
		if isParam(key.key) {
			s.carryOver(keep("params"), key)
		}
	}
	if said := config.Lookup(e.value, "system_message"); scalarText(said) != "" && config.Lookup(s.agent, "system_message") == nil {
		config.SetEntry(s.agent, "system_message", said)
	}
	kept := "its first model with its parameters and the system message are carried over"
	if config.Lookup(e.value, "code_execution_config") != nil {
		s.setShell(true)
		kept += ", and code execution becomes tools.shell"
	}
	if e.key == "group_config" {
		kept = "one agent with the group's model stands for the group; make its members agents of the team"
	}
	if e.value != nil {
		s.notes.noteEntry(e, "%s; the rest belongs to AG2 and has no counterpart", kept)
	}
	return cmp.Or(frameworkTypes[entryText(llm, "api_type")], config.OpenAI)
}

// translateParam moves a parameter of the API to params, under the name that the API has for it.
// The objects of the Responses API are parted.
func (s *scope) translateParam(e entry) {
	r := move("params", inParams, "")
	openRouter := s.kind.name == "openrouter" || variableOf(s.address) == "OPENROUTER_API_KEY"
	switch {
	case e.value.Kind == yaml.MappingNode && (e.key == "text" || e.key == "extra_body" || e.key == "reasoning" && !openRouter):
		s.translateSection(e.key, entriesOf(e.value, e.path))
		return
	case e.key == "max_tokens" && s.kind.name == "openai" && s.address == "":
		r.name = "max_completion_tokens"
		r.end = ", the name of the limit for the newer models of OpenAI"
	}
	s.carryOver(r, e)
}

// leaveOutParam leaves out a key without a rule, since a service refuses unknown parameters, and a
// guardrail sent as a parameter guards nothing.
func (s *scope) leaveOutParam(e entry) {
	reason := unknownParam
	for _, section := range []string{"orchestrator", "coordination"} {
		if r, own := s.table.ruleOf(section, e.key); own {
			reason = cmp.Or(r.reason, reason)
		}
	}
	set := []string{"model", "messages", "tools", "stream", "stream_options", "n"} // by conclave
	if slices.Contains(set, e.key) || strings.HasPrefix(e.key, "_") {
		reason = noCounterpart
	}
	s.leaveOut(e, reason)
}

// limitReplyOnce leaves out one of the two limits of a reply's length, because servers refuse a request
// with both. OpenAI needs the newer one, and every other server takes the older one.
func (s *scope) limitReplyOnce() {
	kept, other := "max_tokens", "max_completion_tokens"
	if as := entryText(s.backend, "type"); as == config.OpenAI && config.Lookup(s.backend, "base_url") == nil || as == "azure" {
		kept, other = other, kept
	}
	params := config.Lookup(s.backend, "params")
	limit, second := config.Lookup(params, kept), config.Lookup(params, other)
	if limit == nil || second == nil {
		return
	}
	s.notes.removeKey(s.paths[second])
	s.notes.noteValue(s.paths[second], second, "not carried over: %s sets the same limit, and is used", s.paths[limit])
	*second = yaml.Node{} // pruneEmpty removes it
}

// Note explains why keys are not carried over unchanged.
type Note struct {
	Keys []string `json:"keys"` // their paths in the document: agents[0].backend.cwd
	Line int      `json:"line"` // line of the first key; 0 for a missing key

	// Below lists the keys inside Keys, relative to them and without positions in lists.
	Below []string `json:"below,omitempty"`

	Message string `json:"message"`
}

// String returns the note as one line: its keys and the sentence.
func (n Note) String() string {
	keys := strings.Join(n.Keys, ", ")
	if len(n.Below) > 0 {
		keys += " (with " + strings.Join(n.Below, ", ") + ")"
	}
	return keys + ": " + n.Message
}

// notes collects notes. It merges notes of different agents that have the same message.
type notes []Note

func (ns *notes) addNote(path string, line int, below []string, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	i := slices.IndexFunc(*ns, func(n Note) bool { return n.Message == message && lastKey(n.Keys[0]) == lastKey(path) })
	if i < 0 {
		i = len(*ns)
		*ns = append(*ns, Note{Line: line, Message: message})
	}
	n := &(*ns)[i]
	n.Keys, n.Below = appendMissing(n.Keys, path), appendMissing(n.Below, below...)
}

func appendMissing(list []string, names ...string) []string {
	for _, name := range names {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// noteEntry adds a note about an entry that was left out, moved or changed, with the keys in it.
func (ns *notes) noteEntry(e entry, format string, args ...any) {
	ns.addNote(e.path, e.line, keysBelow(e.value, ""), format, args...)
}

func (ns *notes) noteValue(path string, n *yaml.Node, format string, args ...any) {
	line := 0 // of a missing value
	if n != nil {
		line = n.Line
	}
	ns.addNote(path, line, nil, format, args...)
}

func (ns *notes) removeKey(path string) {
	for i := range *ns {
		(*ns)[i].Keys = slices.DeleteFunc((*ns)[i].Keys, func(key string) bool { return key == path })
	}
	*ns = slices.DeleteFunc(*ns, func(n Note) bool { return len(n.Keys) == 0 })
}

func (ns notes) sortByLine() []Note {
	slices.SortStableFunc(ns, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	return ns
}

func lastKey(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
