package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema returns the JSON Schema (2020-12) of team configurations, for editors
// and other programs. It accepts every configuration that Parse accepts, except
// for numbers in place of strings. Parse checks more: unique IDs, secrets,
// addresses.
func Schema() ([]byte, error) { return encode(teamSchema(), "team configuration") }

// PipelineSchema returns the JSON Schema (2020-12) of pipelines. ParsePipeline checks more:
// names, the arguments of tools, the keys of each kind of step.
func PipelineSchema() ([]byte, error) {
	s := object(reflect.TypeFor[Pipeline](), "")
	s.Required = []string{"start", "steps"}
	return encode(s, "pipeline")
}

func encode(s *jsonschema.Schema, title string) ([]byte, error) {
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "Conclave "+title
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("make the JSON Schema of a %s: %w", title, err)
	}
	return data, nil
}

func teamSchema() *jsonschema.Schema {
	s := object(teamType, "")
	s.Properties["agent"] = object(reflect.TypeFor[Agent](), "agents[]")
	s.Properties["agent"].Description = "The one agent of the team, in place of agents."
	s.PropertyOrder = append(s.PropertyOrder, "agent")
	s.OneOf = []*jsonschema.Schema{{Required: []string{"agents"}}, {Required: []string{"agent"}}}
	return s
}

// object describes a struct type.
func object(t reflect.Type, prefix string) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for _, r := range rules(t) {
		s.Properties[r.key] = property(t.Field(r.index).Type, join(prefix, r.key), r)
		s.PropertyOrder = append(s.PropertyOrder, r.key)
	}
	switch t {
	case reflect.TypeFor[Agent]():
		s.Required = []string{"id", "backend"}
		s.Properties["id"].Pattern = agentID.String()
	case reflect.TypeFor[Backend]():
		s.If = &jsonschema.Schema{Required: []string{"type"}, Properties: map[string]*jsonschema.Schema{"type": {Enum: []any{Offline}}}}
		s.Else = &jsonschema.Schema{Required: []string{"model"}}
	case reflect.TypeFor[PipelineStep]():
		s.Required = []string{"name"}
		s.Properties["name"].Pattern = agentID.String()
	case reflect.TypeFor[branch]():
		s.Required = []string{"to"}
	case reflect.TypeFor[toolUse]():
		s.Required = []string{"tool"}
	case reflect.TypeFor[MCPServer]():
		s.Required = []string{"name"}
		s.Properties["name"].Pattern = serverName.String()
	}
	return s
}

// property describes one key.
func property(t reflect.Type, pattern string, r rule) *jsonschema.Schema {
	s := value(t, pattern, r)
	s.Description = r.doc
	if r.def != nil {
		s.Default = json.RawMessage(r.def.text)
		if r.def.kind == str {
			s.Default = json.RawMessage(strconv.Quote(r.def.text))
		}
	}
	for _, choice := range r.enum {
		s.Enum = append(s.Enum, choice)
	}
	if r.booleans != nil {
		s.Enum, s.Types, s.Type = append(s.Enum, true, false), []string{"string", "boolean"}, ""
	}
	s.Minimum, s.Maximum = r.min, r.max
	if r.optional && s.Type == "string" {
		s.Types, s.Type = []string{"string", "null"}, ""
	}
	return s
}

// value describes the values from which a type is decoded. A section may be null, because
// YAML reads a key whose content is commented out as null.
func value(t reflect.Type, pattern string, r rule) *jsonschema.Schema {
	switch {
	case t == criteriaType:
		return &jsonschema.Schema{Types: []string{"array", "null"}, Items: criterionSchema()}
	case t.Kind() == reflect.Pointer:
		s := value(t.Elem(), pattern, r)
		if s.Type != "" {
			s.Types, s.Type = []string{s.Type, "null"}, ""
		}
		return s
	case t == teamType:
		return teamSchema()
	case t.Kind() == reflect.Struct:
		return nullable(object(t, pattern))
	case t.Kind() == reflect.Map:
		return &jsonschema.Schema{Types: []string{"object", "null"}, AdditionalProperties: value(t.Elem(), pattern, rule{})}
	case t.Kind() == reflect.Slice:
		return array(t, pattern, r)
	}
	names := map[reflect.Kind]string{reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number", reflect.String: "string"}
	return &jsonschema.Schema{Type: names[t.Kind()]} // empty for a value of any type
}

// criterionSchema describes a criterion of a team file.
func criterionSchema() *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type: "object", PropertyOrder: criterionKeys, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
		Properties: map[string]*jsonschema.Schema{
			"anti_patterns": {Types: []string{"array", "null"}, Items: &jsonschema.Schema{Type: "string"}},
			"score_anchors": {
				Types: []string{"object", "null"}, PropertyNames: &jsonschema.Schema{Pattern: scoreForm.String()},
				AdditionalProperties: &jsonschema.Schema{Type: "string"},
			},
		},
	}
	for _, key := range criterionKeys {
		if s.Properties[key] == nil {
			s.Properties[key] = &jsonschema.Schema{Types: []string{"string", "null"}}
		}
	}
	for _, key := range []string{"text", "description", "name"} {
		s.AnyOf = append(s.AnyOf, &jsonschema.Schema{Required: []string{key}})
	}
	return s
}

func array(t reflect.Type, pattern string, r rule) *jsonschema.Schema {
	s := &jsonschema.Schema{Types: []string{"array", "null"}}
	if t.Elem().Kind() == reflect.Struct {
		s.Items = object(t.Elem(), pattern+"[]")
	} else {
		s.Items = value(t.Elem(), pattern+"[]", rule{})
	}
	if r.shorthand != "" {
		s.Items = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: s.Items.Properties[r.shorthand].Pattern}, s.Items}}
	}
	if r.single {
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, s}}
	}
	if t == reflect.TypeFor[[]Agent]() {
		least, most := 1, maxAgents
		s.Types, s.Type, s.MinItems, s.MaxItems = nil, "array", &least, &most
	}
	return s
}

// nullable lets a section be null, unless it has required keys.
func nullable(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Required == nil && s.Else == nil {
		s.Types, s.Type = []string{"object", "null"}, ""
	}
	return s
}
