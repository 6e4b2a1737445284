package tools

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

// arguments are those of all file tools; each tool's schema names its own.
type arguments struct {
	Path       string  `json:"path"`
	Content    string  `json:"content"`
	OldString  string  `json:"old_string"`
	NewString  string  `json:"new_string"`
	ReplaceAll bool    `json:"replace_all"`
	Pattern    string  `json:"pattern"`
	Glob       string  `json:"glob"`
	From       string  `json:"from"`
	To         string  `json:"to"`
	Offset     float64 `json:"offset"` // float64 because models also write 2.0
	Limit      float64 `json:"limit"`
}

// schema validates the arguments of one tool.
type schema struct {
	tool     string
	resolved *jsonschema.Resolved
}

func compile(t llm.Tool) (*schema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(t.Parameters, &s); err != nil {
		return nil, fmt.Errorf("read the schema of tool %s: %w", t.Name, err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("resolve the schema of tool %s: %w", t.Name, err)
	}
	return &schema{tool: t.Name, resolved: resolved}, nil
}

// decode validates a model's arguments and reads them into a struct. Optional nulls count as absent.
func (s *schema) decode(text string, into any) error {
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
			return refuse("%s has no argument %q%s; it takes %s", s.tool, name, suggestion(name, s.names()), s.usage())
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

func (s *schema) names() []string {
	return slices.Sorted(maps.Keys(s.resolved.Schema().Properties))
}

// usage shows the arguments in the form {"path": string, "limit"?: integer}.
func (s *schema) usage() string {
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

func suggestion(wrong string, choices []string) string {
	choice, ok := text.Nearest(wrong, choices)
	if !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", choice)
}
