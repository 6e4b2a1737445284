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

// arguments of all the file tools. Each uses those that its schema names.
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
	Offset     float64 `json:"offset"` // a model's integer may be 2.0
	Limit      float64 `json:"limit"`
}

// schema checks the arguments of one tool against what the model was told.
type schema struct {
	tool     string
	resolved *jsonschema.Resolved
}

func compile(t llm.Tool) (*schema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(t.Parameters, &s); err != nil {
		return nil, fmt.Errorf("reading the schema of tool %s: %w", t.Name, err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("resolving the schema of tool %s: %w", t.Name, err)
	}
	return &schema{tool: t.Name, resolved: resolved}, nil
}

// decode checks a model's arguments and reads them into the struct that into
// points to. Optional arguments
// that are null count as absent: models that must name every key send that.
func (s *schema) decode(text string, into any) error {
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	var given map[string]any
	if err := json.Unmarshal([]byte(text), &given); err != nil || given == nil {
		return refuse("the arguments of %s are not a JSON object (%v); send %s", s.tool, err, s.usage())
	}
	spec := s.resolved.Schema()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, known := spec.Properties[name]; !known {
			return refuse("%s has no argument %q%s; it takes %s", s.tool, name, suggestion(name, s.names()), s.usage())
		}
		if given[name] == nil && !slices.Contains(spec.Required, name) {
			delete(given, name)
		}
	}
	for _, name := range spec.Required {
		if _, ok := given[name]; !ok {
			return refuse("%s needs the argument %q; it takes %s", s.tool, name, s.usage())
		}
	}
	if err := s.resolved.Validate(given); err != nil {
		return refuse("wrong arguments for %s: %s", s.tool, strings.TrimPrefix(err.Error(), "validating root: "))
	}
	checked, err := json.Marshal(given)
	if err != nil {
		return fmt.Errorf("encoding checked arguments: %w", err)
	}
	return json.Unmarshal(checked, into)
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

// suggestion names the choice that a wrong name was probably meant to be.
func suggestion(wrong string, choices []string) string {
	choice, ok := text.Nearest(wrong, choices)
	if !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", choice)
}
