package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/excerpt"
	"conclave/engine/llm"
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
		told:    llm.Tool{Name: name, Description: excerpt.Marked(strings.ToValidUTF8(description, "\uFFFD"), maxDescription), Parameters: parameters},
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
