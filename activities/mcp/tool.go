package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/llm"
	"conclave/engine/text"
)

const (
	maxDescription = 4 << 10   // bytes of a tool's description
	maxSchema      = 128 << 10 // bytes of a tool's schema
	maxName        = 64        // bytes of a tool's name at model providers
)

type tool struct {
	own     string   // its name at the server
	offered llm.Tool // the tool as models see it

	// optional lists the top-level arguments that may be omitted but must not be null.
	optional []string
}

func newTool(names *names, server string, described *sdk.Tool) (tool, error) {
	if described.Name == "" {
		return tool{}, errors.New("it has no name")
	}
	schema, _ := described.InputSchema.(map[string]any)
	parameters, err := providerSchema(schema)
	if err != nil {
		return tool{}, err
	}
	description := described.Description
	if description == "" {
		description = described.Title
	}
	hints := described.Annotations
	return tool{
		own: described.Name,
		offered: llm.Tool{
			Name:        names.assignName(owner{server, described.Name}),
			Description: text.Truncate(strings.ToValidUTF8(description, "\uFFFD"), maxDescription),
			Parameters:  parameters,
			ReadOnly:    hints != nil && hints.ReadOnlyHint,
		},
		optional: optionalArguments(schema),
	}, nil
}

// providerSchema converts the server's schema to a form that providers accept: an object with
// properties and without $schema.
func providerSchema(schema map[string]any) (json.RawMessage, error) {
	if kind, typed := schema["type"]; schema == nil || typed && kind != "object" {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	shown := make(map[string]any, len(schema)+2)
	for key, value := range schema {
		if key != "$schema" {
			shown[key] = value
		}
	}
	shown["type"] = "object"
	if _, ok := shown["properties"].(map[string]any); !ok {
		shown["properties"] = map[string]any{}
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(shown); err != nil {
		return nil, fmt.Errorf("encode its schema: %w", err)
	}
	if encoded.Len() > maxSchema {
		return nil, fmt.Errorf("its schema has %d KiB, more than %d", encoded.Len()>>10, maxSchema>>10)
	}
	return bytes.TrimSpace(encoded.Bytes()), nil
}

func optionalArguments(schema map[string]any) []string {
	required, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(map[string]any)
	var names []string
	for name, property := range properties {
		if !slices.Contains(required, any(name)) && !isNullable(property) {
			names = append(names, name)
		}
	}
	return names
}

// isNullable reports whether a schema may accept null. It considers only types, anyOf and oneOf.
func isNullable(schema any) bool {
	s, _ := schema.(map[string]any)
	for _, key := range []string{"anyOf", "oneOf"} {
		if alternatives, ok := s[key].([]any); ok {
			return slices.ContainsFunc(alternatives, isNullable)
		}
	}
	switch kind := s["type"].(type) {
	case string:
		return kind == "null"
	case []any:
		return slices.Contains(kind, any("null"))
	}
	return true
}

// sendableArguments returns a model's arguments without nulls for optional properties, which some models
// always send.
func (t tool) sendableArguments(sent string) (json.RawMessage, error) {
	if strings.TrimSpace(sent) == "" {
		sent = "{}"
	}
	var arguments map[string]json.RawMessage
	if err := json.Unmarshal([]byte(sent), &arguments); err != nil {
		return nil, fmt.Errorf("the arguments are not a JSON object (%w); send one that fits the tool's schema", err)
	}
	if arguments == nil {
		return nil, errors.New("the arguments are null, not a JSON object; send one that fits the tool's schema")
	}
	given := len(arguments)
	for _, name := range t.optional {
		if string(arguments[name]) == "null" {
			delete(arguments, name)
		}
	}
	if len(arguments) == given {
		return json.RawMessage(sent), nil
	}
	return json.Marshal(arguments)
}

// prefix begins the name of every tool of an MCP server: mcp__<server>__<tool>.
const prefix = "mcp__"

type owner struct{ server, tool string }

// names assigns names to tools. A name is never reused for another tool, since a model could confuse the two.
type names struct {
	mu     sync.Mutex
	owners map[string]owner
}

// assignName returns the name of a tool. It appends a hash if the name would be too long or is taken.
func (n *names) assignName(o owner) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := prefix + refusedInNames.ReplaceAllString(o.server+"__"+o.tool, "_")
	if holder, taken := n.owners[name]; len(name) > maxName || taken && holder != o {
		sum := sha256.Sum256([]byte(o.server + "\x00" + o.tool))
		tail := "_" + hex.EncodeToString(sum[:4])
		name = name[:min(len(name), maxName-len(tail))] + tail
	}
	n.owners[name] = o
	return name
}

// refusedInNames matches characters that providers refuse in tool names.
var refusedInNames = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
