package massgen

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"conclave/engine/config"
)

// model is the state of translating one backend.
type model struct {
	*importer
	agent   *yaml.Node // the translated agent
	backend *yaml.Node // its translated backend
	kind    kind
	name    string // the model's name
	address string // address as in the document; "" for the type's own
}

// backend translates the backend of an agent, with the servers and tools in it.
func (im *importer) backend(a *yaml.Node, e entry) {
	m := &model{importer: im, agent: a, backend: get(a, "backend")}
	m.identify(e)
	var filters filters
	for _, key := range entries(e.value, e.path) {
		switch key.key {
		case "type", "model", "base_url", "azure_endpoint", "azure_deployment":
		case "params":
			m.own(key)
		case "provider", "api_key_env", "context_window", "price_per_million", "silent_timeout_seconds", "max_concurrent_calls":
			im.carry(m.backend, key.key, key) // keys that conclave has, too
		case "api_key":
			m.key(key)
		case "agent_config", "group_config":
			if m.kind.agent != "AG2" {
				im.leaveOut(backendKeys, key)
			}
		case "mcp_servers":
			filters.servers = append(filters.servers, im.servers(a, key)...)
		case "allowed_tools":
			filters.allowed = key
		case "exclude_tools":
			filters.excluded = key
		case "enable_mcp_command_line":
			if on, ok := truth(key.value); ok && on && get(e.value, "permissions") != nil && !isOff(get(get(e.value, "permissions"), "enabled")) {
				im.notes.of(key, "not moved to the agent's tools.shell: the permissions of these commands are not enforced here")
			} else if ok {
				im.notes.of(key, "moved to the agent's tools.shell: commands run in conclave's sandbox, in the step's workspace, without network")
				shell(a, on)
			} else {
				im.leaveOut(backendKeys, key)
			}
		case "subtask":
			im.move(a, "subtask", key, "moved to the agent's subtask")
		case "system_prompt", "append_system_prompt":
			im.instruct(a, key)
		default:
			m.param(key)
		}
	}
	filters.apply(im, m.kind)
	m.locate(e)
	m.limitOnce()
	arrange(m.backend, "type", "provider", "model", "base_url", "api_key_env", "params")
}

// identify sets the type and the model.
func (m *model) identify(e entry) {
	source := e.value
	there := get(source, "type")
	path := e.path + ".type"
	k, known := kindOf(text(there))
	m.kind, m.name = k, text(get(source, "model"))
	m.address = text(get(source, "base_url"))
	if endpoint := get(source, "azure_endpoint"); endpoint != nil {
		m.notes.at(e.path+".azure_endpoint", endpoint, "moved to backend.base_url")
		m.replace(e, "base_url", "azure_endpoint")
		m.address = text(endpoint)
	}
	if deployment := get(source, "azure_deployment"); deployment != nil {
		m.notes.at(e.path+".azure_deployment", deployment, "moved to backend.model: the service is asked for a deployment")
		m.replace(e, "model", "azure_deployment")
		m.name = text(deployment)
	}
	as := typeOf(k, m.name)
	switch {
	case text(there) == "":
		as = config.OpenAI
		m.notes.at(path, source, "missing; it is openai here")
	case !known && isType(text(there)):
		as = text(there) // a type that conclave has, too
	case !known:
		as = config.OpenAI
		m.notes.at(path, there, "unknown type %q; openai, which stands for any server of the Chat Completions API, replaces it: set backend.base_url and backend.api_key_env", text(there))
	case k.agent == "AG2":
		m.notes.at(path, there, "agents of AG2 have no counterpart: conclave calls the model itself and offers its own tools")
		as = m.framework(e)
	case k.agent != "":
		m.notes.at(path, there, "runs %s; here its model is asked through the API of %s, whose key is in %s, with conclave's own tools", k.agent, as, keyVariable(as))
		m.equip(source)
	case as == config.OpenAI && typeAt(m.address) != "":
		as = typeAt(m.address)
	}
	if known && as != k.name && k.agent == "" {
		m.notes.at(path, there, "%s is %s here", k.name, as)
	}
	set(m.backend, "type", str(as))
	m.setModel(e, k.model)
}

// replace notes that a key of the backend is left out because another replaces its value.
func (m *model) replace(backend entry, key, by string) {
	for _, e := range entries(backend.value, backend.path) {
		if e.key == key && text(e.value) != text(get(backend.value, by)) {
			m.displace(e, backend.path+"."+by)
		}
	}
}

// setModel sets the model, by default MassGen's.
func (m *model) setModel(e entry, standard string) {
	switch {
	case m.name != "":
		set(m.backend, "model", str(m.name))
	case standard != "":
		m.notes.at(e.path+".model", e.value, "missing; MassGen's default is %s", standard)
		set(m.backend, "model", str(standard))
	case isType(text(get(e.value, "type"))) && text(get(e.value, "type")) == config.Offline:
	default:
		m.notes.at(e.path+".model", e.value, "missing, and MassGen has no default; replace the placeholder MODEL with the server's name for the model")
		set(m.backend, "model", str("MODEL"))
	}
}

func isType(name string) bool {
	return name == config.Offline || slices.ContainsFunc(config.BackendTypes(), func(t config.BackendType) bool { return t.Name == name })
}

// variable matches a value that MassGen takes from the environment.
var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)

// references matches variables within a value.
var references = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// key translates a reference to a variable. It leaves literal keys out.
func (m *model) key(e entry) {
	named := variable.FindStringSubmatch(text(e.value))
	if named == nil {
		m.notes.of(e, "a literal key (not shown) does not belong in a file; put it into an environment variable and name that in backend.api_key_env")
		return
	}
	if m.taken(m.backend, "api_key_env", e) {
		return
	}
	m.notes.of(e, "moved to backend.api_key_env, which takes the name of the variable")
	name := strAt(named[1], e.value)
	m.paths[name] = e.path
	set(m.backend, "api_key_env", name)
}

// locate sets the address and the variable of the key that MassGen sends to it.
func (m *model) locate(e entry) {
	as := text(get(m.backend, "type"))
	address := m.address
	if address == "" {
		address = m.kind.baseURL
	}
	given := cmp.Or(get(e.value, "base_url"), get(e.value, "azure_endpoint"), e.value)
	switch {
	case as == "azure":
		address = m.azure(e.path+".base_url", given, address)
	case references.MatchString(address):
		m.notes.at(e.path+".base_url", given, "an address takes no variables here; replace http://SERVER.invalid/v1, the placeholder for %s, with the address itself", address)
		address = "http://SERVER.invalid/v1"
	case address == "" && m.kind.name == "uitars":
		address = "http://SERVER.invalid/v1"
		m.notes.at(e.path+".base_url", e.value, "missing; replace the placeholder http://SERVER.invalid/v1 with the address of the server")
	}
	if address == "" {
		return
	}
	location := strAt(address, given)
	m.paths[location] = e.path + ".base_url"
	set(m.backend, "base_url", location)
	if get(m.backend, "api_key_env") != nil {
		return
	}
	name := m.kind.keyVariable
	if name == "" {
		name = variableOf(address)
	}
	if name == "" && m.kind.name != "chatcompletion" && m.kind.name != "inference" {
		if name = keyVariable(as); name != "" && as != "azure" {
			m.notes.at(e.path+".base_url", given, "this server is sent the key in %s, as MassGen does; change backend.api_key_env if the server has a key of its own", name)
		}
	}
	if name != "" {
		set(m.backend, "api_key_env", str(name))
	}
}

// azure returns the address of the version 1 API of an endpoint.
func (m *model) azure(path string, given *yaml.Node, endpoint string) string {
	const example = "https://NAME.openai.azure.com/openai/v1"
	u, err := url.Parse(endpoint)
	switch {
	case endpoint == "":
		m.notes.at(path, given, "missing; replace %s, the placeholder for AZURE_OPENAI_ENDPOINT, with your own address", example)
		return example
	case references.MatchString(endpoint) || err != nil:
		m.notes.at(path, given, "an address takes no variables here; replace %s, the placeholder for %s, with your own address", example, endpoint)
		return example
	case strings.Trim(u.Path, "/") == "":
		m.notes.at(path, given, "now ends in /openai/v1, the address of the API that needs no api_version")
		return strings.TrimSuffix(endpoint, "/") + "/openai/v1"
	}
	return endpoint
}

// frameworkTypes are the types of backend by AG2's api_type.
var frameworkTypes = map[string]string{
	"anthropic": "anthropic", "google": "gemini", "mistral": "mistral", "groq": "groq", "together": "together", "ollama": "ollama", "deepseek": "deepseek",
}

// framework translates the model and the instructions of an AG2 agent or group, and
// returns the type of backend.
func (m *model) framework(backend entry) string {
	var e entry
	for _, key := range entries(backend.value, backend.path) {
		if key.key == "agent_config" || key.key == "group_config" {
			e = key
		}
	}
	llm := get(e.value, "llm_config")
	if llm != nil && llm.Kind == yaml.SequenceNode && len(llm.Content) > 0 {
		llm = llm.Content[0]
	}
	if name := text(get(llm, "model")); name != "" {
		m.name = name
	}
	for _, key := range entries(llm, e.path+".llm_config") {
		if slices.Contains(apiParams, key.key) {
			m.carry(section(m.backend, "params"), key.key, key)
		}
	}
	if said := get(e.value, "system_message"); text(said) != "" && get(m.agent, "system_message") == nil {
		set(m.agent, "system_message", said)
	}
	kept := "its first model with its parameters and the system message are carried over"
	if get(e.value, "code_execution_config") != nil {
		shell(m.agent, true)
		kept += ", and code execution becomes tools.shell"
	}
	if e.key == "group_config" {
		kept = "one agent with the group's model stands for the group; make its members agents of the team"
	}
	if e.value != nil {
		m.notes.drop(e, "%s; the rest belongs to AG2 and has no counterpart", kept)
	}
	return cmp.Or(frameworkTypes[text(get(llm, "api_type"))], config.OpenAI)
}
