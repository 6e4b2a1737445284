package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"conclave/engine/excerpt"
)

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
func (t tool) arguments(text string) (json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	var given map[string]any
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return nil, fmt.Errorf("the arguments are not a JSON object (%w); send one that fits the tool's schema", err)
	}
	if given == nil {
		return nil, errors.New("the arguments are null, not a JSON object; send one that fits the tool's schema")
	}
	if t.checked == nil {
		return json.RawMessage(text), nil
	}
	t.checked.complete(given)
	err := t.checked.resolved.Validate(given)
	if err == nil {
		return json.RawMessage(text), nil
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
	return nil, fmt.Errorf("wrong arguments: %s", excerpt.Marked(said, maxObjection))
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
