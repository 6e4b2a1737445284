package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/llm"
	"conclave/engine/text"
)

const (
	maxDescription = 4 << 10   // bytes of a tool's description
	maxSchema      = 128 << 10 // bytes of a tool's schema
)

// tool is one tool of a server, as models are told of it.
type tool struct {
	own     string // its name at the server
	told    llm.Tool
	checked *schema // nil if its schema cannot be checked against
}

func newTool(names *names, server string, described *sdk.Tool) (tool, error) {
	if described.Name == "" {
		return tool{}, errors.New("it has no name")
	}
	parameters, err := parameters(described.InputSchema)
	if err != nil {
		return tool{}, err
	}
	description := described.Description
	if description == "" {
		description = described.Title
	}
	name := names.of(owner{server, described.Name})
	return tool{
		own:     described.Name,
		told:    llm.Tool{Name: name, Description: text.Truncate(strings.ToValidUTF8(description, "\uFFFD"), maxDescription), Parameters: parameters},
		checked: compile(described.InputSchema),
	}, nil
}

// parameters is the schema as models are told: the server's own, without the
// dialect, which providers refuse.
func parameters(schema any) (json.RawMessage, error) {
	given, ok := schema.(map[string]any)
	if kind, typed := given["type"]; !ok || typed && kind != "object" {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	told := make(map[string]any, len(given)+2)
	for key, value := range given {
		if key != "$schema" {
			told[key] = value
		}
	}
	told["type"] = "object"
	if _, ok := told["properties"].(map[string]any); !ok {
		told["properties"] = map[string]any{}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(told); err != nil {
		return nil, fmt.Errorf("encoding its schema: %w", err)
	}
	if text.Len() > maxSchema {
		return nil, fmt.Errorf("its schema has %d KiB, more than %d", text.Len()>>10, maxSchema>>10)
	}
	return bytes.TrimSpace(text.Bytes()), nil
}

// Prefix begins the name of every tool of an MCP server: mcp__<server>__<tool>.
const Prefix = "mcp__"

// maxName is how long a tool's name may be for model providers, in bytes.
const maxName = 64

// Is says whether a tool's name is one that this package gives.
func Is(name string) bool { return strings.HasPrefix(name, Prefix) }

// owner is the tool that a name stands for.
type owner struct{ server, tool string }

// names gives each tool one name, and never gives a name to another tool later:
// a model may still call by what an earlier list said.
type names struct {
	mu     sync.Mutex
	owners map[string]owner
}

// of is the name of a tool. The first to come has the plain name; a hash tells
// apart those whose names would be too long or the same.
func (n *names) of(o owner) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := Prefix + mapped(o.server) + "__" + mapped(o.tool)
	if holder, taken := n.owners[name]; len(name) > maxName || taken && holder != o {
		sum := sha256.Sum256([]byte(o.server + "\x00" + o.tool))
		tail := "_" + hex.EncodeToString(sum[:4])
		name = name[:min(len(name), maxName-len(tail))] + tail
	}
	n.owners[name] = o
	return name
}

// mapped replaces the characters that providers refuse in names.
func mapped(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}

// maxObjection bounds what is said about wrong arguments, in bytes.
const maxObjection = 1 << 10

// schema checks arguments before they are sent.
type schema struct{ resolved *jsonschema.Resolved }

// compile returns nil for what cannot be checked: a schema in another dialect,
// with references to elsewhere, or one that would be checked forever. The
// server checks its arguments itself anyway.
func compile(given any) *schema {
	root, ok := given.(map[string]any)
	if !ok || !finite(root) {
		return nil
	}
	text, err := json.Marshal(root)
	if err != nil {
		return nil
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil
	}
	if !strings.Contains(s.Schema, "draft-07") && !strings.Contains(s.Schema, "2020-12") {
		s.Schema = ""
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil
	}
	return &schema{resolved}
}

// arguments returns what is sent for a model's text, or what is wrong with it.
// Optional arguments that are null count as absent where the schema has no
// room for null: models that must name every key send that.
func (t tool) arguments(sent string) (json.RawMessage, error) {
	if strings.TrimSpace(sent) == "" {
		sent = "{}"
	}
	var given map[string]any
	if err := json.Unmarshal([]byte(sent), &given); err != nil {
		return nil, fmt.Errorf("the arguments are not a JSON object (%w); send one that fits the tool's schema", err)
	}
	if given == nil {
		return nil, errors.New("the arguments are null, not a JSON object; send one that fits the tool's schema")
	}
	if t.checked == nil {
		return json.RawMessage(sent), nil
	}
	t.checked.complete(given)
	err := t.checked.resolved.Validate(given)
	if err == nil {
		return json.RawMessage(sent), nil
	}
	required := t.checked.resolved.Schema().Required
	for name, value := range given {
		if value == nil && !slices.Contains(required, name) {
			delete(given, name)
		}
	}
	t.checked.complete(given)
	if t.checked.resolved.Validate(given) == nil {
		return json.Marshal(given)
	}
	said := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "validating root: "), "validating /properties/", "argument ")
	return nil, fmt.Errorf("wrong arguments: %s", text.Truncate(said, maxObjection))
}

// complete fills in what is required but has a default. Some servers describe
// their arguments as they are after that.
func (s *schema) complete(given map[string]any) {
	spec := s.resolved.Schema()
	for _, name := range spec.Required {
		property := spec.Properties[name]
		if _, ok := given[name]; ok || property == nil || property.Default == nil {
			continue
		}
		var value any
		if json.Unmarshal(property.Default, &value) == nil {
			given[name] = value
		}
	}
}
