package massgen

import (
	"cmp"
	"errors"
	"fmt"
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
	team  *yaml.Node
	notes notes
	paths map[*yaml.Node]string // paths in the document of the values carried over
	ids   map[string]string     // the agents' new IDs by their IDs in the document
	kept  map[string]bool       // IDs of the document that stay as they are
	used  map[string]bool       // new IDs in use
}

// Import translates a configuration. It fails if the document is not a team of MassGen.
// name stands for the document in the positions of Invalid.
func Import(name string, data []byte) (Translation, error) {
	root, err := read(data)
	if err != nil {
		return Translation{}, err
	}
	if err := checkTeam(root); err != nil {
		return Translation{}, err
	}
	im := &importer{team: mapping(), paths: map[*yaml.Node]string{}, ids: map[string]string{}, kept: map[string]bool{}, used: map[string]bool{}}
	im.agents(root)
	for _, e := range entries(root, "") {
		switch e.key {
		case "agents", "agent":
		case "orchestrator":
			im.orchestrator(e)
		case "timeout_settings", "timeout":
			im.timeouts(e)
		default:
			im.leaveOut(topLevel, e)
		}
	}
	t := Translation{Invalid: im.settle(name)}
	if t.YAML, err = im.write(); err != nil {
		return Translation{}, err
	}
	t.Notes = im.notes.sorted()
	return t, nil
}

// versionOne are keys of a format that MassGen itself no longer reads.
var versionOne = []string{"models", "model_configs", "num_agents", "consensus_threshold", "voting_enabled", "enable_voting"}

func checkTeam(root *yaml.Node) error {
	agents, agent := get(root, "agents"), get(root, "agent")
	for _, key := range versionOne {
		if get(root, key) != nil {
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

// carry sets a key of the team to an entry's value, and reports whether it could.
func (im *importer) carry(into *yaml.Node, key string, e entry) bool {
	if im.taken(into, key, e) {
		return false
	}
	im.paths[e.value] = e.path
	set(into, key, e.value)
	return true
}

// move carries an entry over to a key, with a note of its new place.
func (im *importer) move(into *yaml.Node, key string, e entry, place string) {
	if im.carry(into, key, e) {
		im.notes.of(e, "%s", place)
	}
}

// taken reports whether an earlier entry of the document has set a key of the team. It notes
// that e is left out then.
func (im *importer) taken(into *yaml.Node, key string, e entry) bool {
	there := get(into, key)
	if there != nil {
		im.displace(e, cmp.Or(im.paths[there], "an earlier key"))
	}
	return there != nil
}

// displace notes that an entry is left out because another has its place.
func (im *importer) displace(e entry, by string) {
	im.notes.drop(e, "not carried over: %s sets the same key here, and is used", by)
}

// leaveOut notes that an entry is not carried over, with the reason of its section.
func (im *importer) leaveOut(reasons map[string]string, e entry) {
	reason, known := reasons[e.key]
	switch {
	case !known:
		reason = noCounterpart
	case isOff(e.value):
		reason = "switched off in MassGen, and not needed here"
	}
	im.notes.drop(e, "%s", reason)
}

// timeouts carries the section of time limits over.
func (im *importer) timeouts(e entry) {
	if e.value.Kind != yaml.MappingNode {
		im.notes.drop(e, "not a mapping; it is left out")
		return
	}
	into := section(im.team, "timeout_settings")
	for _, limit := range entries(e.value, e.path) {
		if e.key == "timeout" {
			im.move(into, limit.key, limit, "moved to timeout_settings."+limit.key)
		} else {
			im.carry(into, limit.key, limit)
		}
	}
}

// write returns the team as YAML.
func (im *importer) write() ([]byte, error) {
	data, err := yaml.Dump(im.team, yaml.WithIndent(2), yaml.WithCompactSeqIndent(false), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fmt.Errorf("write the translated team: %w", err)
	}
	return data, nil
}

// Recognize reports whether a document that conclave refuses may be a team of MassGen: it
// has agents, and a key or a type of backend that only MassGen has.
func Recognize(data []byte) bool {
	root, err := read(data)
	if err != nil || checkTeam(root) != nil {
		return false
	}
	if get(root, "ui") != nil || get(root, "memory") != nil {
		return true
	}
	for _, e := range entries(get(root, "orchestrator"), "") {
		if _, known := orchestratorKeys[e.key]; known {
			return true
		}
	}
	agents := get(root, "agents")
	if agents == nil {
		agents = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{get(root, "agent")}}
	}
	return slices.ContainsFunc(agents.Content, isMassGens)
}

// isMassGens reports whether an agent has a key or a type of backend that only MassGen
// has.
func isMassGens(agent *yaml.Node) bool {
	backend := get(agent, "backend")
	name := text(get(backend, "type"))
	if _, known := kindOf(name); known && !slices.ContainsFunc(config.BackendTypes(), func(t config.BackendType) bool { return t.Name == name }) {
		return true
	}
	return slices.ContainsFunc(entries(backend, ""), func(e entry) bool {
		_, known := backendKeys[e.key]
		return known || e.key == "mcp_servers" || slices.Contains(apiParams, e.key)
	})
}

// apiParams are the parameters of the API, and those of servers that extend it, as keys of a backend.
var apiParams = []string{
	"temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "seed", "stop", "frequency_penalty", "presence_penalty",
	"parallel_tool_calls", "reasoning", "reasoning_effort", "text", "verbosity", "extra_body", "service_tier", "thinking",
	"chat_template_kwargs", "logit_bias", "logprobs", "top_logprobs", "metadata", "min_p", "prediction", "prompt_cache_key", "repetition_penalty", "response_format",
	"safety_identifier", "store", "user",
}

// reserved reports whether conclave sets a parameter itself.
func reserved(name string) bool {
	return slices.Contains([]string{"model", "messages", "tools", "stream", "stream_options", "n"}, name) || strings.HasPrefix(name, "_")
}
