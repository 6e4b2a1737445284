package builtin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// ArgumentError tells the model why the arguments of a call do not fit its tool.
type ArgumentError string

func (e ArgumentError) Error() string { return string(e) }

func refuse(format string, args ...any) error { return ArgumentError(fmt.Sprintf(format, args...)) }

// Schema validates the arguments of one tool.
type Schema struct {
	tool     string
	resolved *jsonschema.Resolved
}

// Compile reads the schema of a tool's parameters.
func Compile(t llm.Tool) (*Schema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(t.Parameters, &s); err != nil {
		return nil, fmt.Errorf("read the schema of tool %s: %w", t.Name, err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("resolve the schema of tool %s: %w", t.Name, err)
	}
	return &Schema{tool: t.Name, resolved: resolved}, nil
}

// Decode validates the JSON arguments of a call and reads them into a struct. An optional
// argument that is null counts as absent.
func (s *Schema) Decode(text string, into any) error {
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return refuse("the arguments of %s are not a JSON object (%v); send %s", s.tool, err, s.usage())
	}
	spec := s.resolved.Schema()
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if _, known := spec.Properties[name]; !known {
			return refuse("%s has no argument %q%s; it takes %s", s.tool, name, Suggest(name, s.names()), s.usage())
		}
		if object[name] == nil && !slices.Contains(spec.Required, name) {
			delete(object, name)
		}
	}
	for _, name := range spec.Required {
		if _, ok := object[name]; !ok {
			return refuse("%s needs the argument %q; it takes %s", s.tool, name, s.usage())
		}
	}
	if err := s.resolved.Validate(object); err != nil {
		return refuse("wrong arguments for %s: %s", s.tool, strings.TrimPrefix(err.Error(), "validating root: "))
	}
	valid, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode validated arguments: %w", err)
	}
	return json.Unmarshal(valid, into)
}

func (s *Schema) names() []string {
	return slices.Sorted(maps.Keys(s.resolved.Schema().Properties))
}

// usage shows the arguments in the form {"path": string, "limit"?: integer}.
func (s *Schema) usage() string {
	spec := s.resolved.Schema()
	var parts []string
	for _, name := range s.names() {
		mark := "?"
		if slices.Contains(spec.Required, name) {
			mark = ""
		}
		parts = append(parts, fmt.Sprintf("%q%s: %s", name, mark, spec.Properties[name].Type))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Suggest returns a suffix for messages that suggests the choice nearest to wrong, or "" if
// none is near.
func Suggest(wrong string, choices []string) string {
	choice, ok := text.Nearest(wrong, choices)
	if !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", choice)
}
