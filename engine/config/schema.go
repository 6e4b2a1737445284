package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"
)

// Schema returns the JSON Schema (2020-12) of team configurations, for editors
// and other programs. It accepts every configuration that Parse accepts, except
// for numbers in place of strings. Parse checks more: unique IDs, secrets,
// addresses.
func Schema() ([]byte, error) { return encodeSchema(teamSchema(), "team configuration") }

// PipelineSchema returns the JSON Schema (2020-12) of pipelines. ParsePipeline checks more:
// names, the arguments of tools, the keys of each kind of step.
func PipelineSchema() ([]byte, error) {
	s := objectSchema(reflect.TypeFor[Pipeline](), "")
	s.Required = []string{"start", "steps"}
	return encodeSchema(s, "pipeline")
}

func encodeSchema(s *jsonschema.Schema, title string) ([]byte, error) {
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "Conclave "+title
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("make the JSON Schema of a %s: %w", title, err)
	}
	return data, nil
}

func teamSchema() *jsonschema.Schema {
	s := objectSchema(teamType, "")
	s.Properties["agent"] = objectSchema(reflect.TypeFor[Agent](), "agents[]")
	s.Properties["agent"].Description = "The one agent of the team, in place of agents."
	s.PropertyOrder = append(s.PropertyOrder, "agent")
	s.OneOf = []*jsonschema.Schema{{Required: []string{"agents"}}, {Required: []string{"agent"}}}
	return s
}

func objectSchema(t reflect.Type, prefix string) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for _, r := range rulesOf(t) {
		s.Properties[r.key] = propertySchema(t.Field(r.index).Type, joinKey(prefix, r.key), r)
		s.PropertyOrder = append(s.PropertyOrder, r.key)
	}
	switch t {
	case reflect.TypeFor[Agent]():
		s.Required = []string{"id", "backend"}
		s.Properties["id"].Pattern = agentID.String()
	case reflect.TypeFor[Backend]():
		s.If = &jsonschema.Schema{Required: []string{"type"}, Properties: map[string]*jsonschema.Schema{"type": {Enum: []any{Offline, Recorded}}}}
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

func propertySchema(t reflect.Type, pattern string, r rule) *jsonschema.Schema {
	s := valueSchema(t, pattern, r)
	s.Description = r.doc
	if r.def != nil {
		s.Default = json.RawMessage(r.def.Value)
		if kindOf(r.def) == str {
			s.Default = json.RawMessage(strconv.Quote(r.def.Value))
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

// valueSchema describes the values from which a type is decoded. A section may be null, because
// YAML reads a key whose content is commented out as null.
func valueSchema(t reflect.Type, pattern string, r rule) *jsonschema.Schema {
	switch {
	case t == criteriaType:
		return &jsonschema.Schema{Types: []string{"array", "null"}, Items: criterionSchema()}
	case t == reflect.PointerTo(calibrationType):
		s := objectSchema(t.Elem(), pattern)
		s.Types, s.Type = []string{"string", "object", "null"}, ""
		return s
	case t == dataSchemaType:
		return &jsonschema.Schema{Types: []string{"object", "null"}}
	case t.Kind() == reflect.Pointer:
		s := valueSchema(t.Elem(), pattern, r)
		if s.Type != "" {
			s.Types, s.Type = []string{s.Type, "null"}, ""
		}
		return s
	case t == teamType:
		return teamSchema()
	case t.Kind() == reflect.Struct:
		return nullableObject(objectSchema(t, pattern))
	case t.Kind() == reflect.Map:
		return &jsonschema.Schema{Types: []string{"object", "null"}, AdditionalProperties: valueSchema(t.Elem(), pattern, rule{})}
	case t.Kind() == reflect.Slice:
		return arraySchema(t, pattern, r)
	}
	names := map[reflect.Kind]string{reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number", reflect.String: "string"}
	return &jsonschema.Schema{Type: names[t.Kind()]} // empty for a value of any type
}

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

func arraySchema(t reflect.Type, pattern string, r rule) *jsonschema.Schema {
	s := &jsonschema.Schema{Types: []string{"array", "null"}}
	if t.Elem().Kind() == reflect.Struct {
		s.Items = objectSchema(t.Elem(), pattern+"[]")
	} else {
		s.Items = valueSchema(t.Elem(), pattern+"[]", rule{})
	}
	if r.shorthand != "" {
		s.Items = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: s.Items.Properties[r.shorthand].Pattern}, s.Items}}
	}
	if r.single {
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, s}}
	}
	if t == reflect.TypeFor[[]Agent]() {
		least, most := 1, MaxAgents
		s.Types, s.Type, s.MinItems, s.MaxItems = nil, "array", &least, &most
	}
	return s
}

// nullableObject lets a section be null, unless it has required keys.
func nullableObject(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Required == nil && s.Else == nil {
		s.Types, s.Type = []string{"object", "null"}, ""
	}
	return s
}

// rule is the specification of one key, from the tags of its field.
type rule struct {
	index     int // index of the field
	key       string
	enum      []string
	def       *yaml.Node // the default; nil without one
	min, max  *float64   // nil for no bound
	doc       string
	shorthand string // the key that a plain string sets, in place of a mapping
	single    bool   // a list that may be written as its only item
	optional  bool   // a string that may be null
	path      string // program or argument for a string that may be a relative path, or for a list of them

	booleans []string // the choices that true and false stand for; nil if booleans are refused
}

// rulesByType has a []rule for each reflect.Type: the tags are long, and every step reads its team.
var rulesByType sync.Map

func rulesOf(t reflect.Type) []rule {
	if known, ok := rulesByType.Load(t); ok {
		return known.([]rule) //nolint:forcetypeassert // the map has no others
	}
	rs := make([]rule, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		key, options, _ := strings.Cut(tag.Get("json"), ",")
		r := rule{
			index: i, key: key, doc: tag.Get("doc"), shorthand: tag.Get("shorthand"),
			min: parseBound(tag.Get("min")), max: parseBound(tag.Get("max")), single: tag.Get("single") != "", optional: options == "omitempty", path: tag.Get("path"),
		}
		if enum := tag.Get("enum"); enum != "" {
			r.enum = strings.Split(enum, ",")
		}
		if booleans := tag.Get("booleans"); booleans != "" {
			r.booleans = strings.Split(booleans, ",")
		}
		if def, ok := tag.Lookup("default"); ok {
			r.def = scalarOf(t.Field(i).Type, def)
		}
		rs = append(rs, r)
	}
	rulesByType.Store(t, rs)
	return rs
}

func parseBound(tag string) *float64 {
	f, err := strconv.ParseFloat(tag, 64)
	if err != nil {
		return nil
	}
	return &f
}

func scalarOf(t reflect.Type, value string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: value}
	switch t.Kind() {
	case reflect.Bool:
		n.Tag = "!!bool"
	case reflect.String:
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func keysOf(rs []rule) []string {
	names := make([]string, len(rs))
	for i, r := range rs {
		names[i] = r.key
	}
	return names
}

func (r rule) rangeText() string {
	switch {
	case r.min != nil && r.max != nil:
		return fmt.Sprintf("%.0f to %.0f", *r.min, *r.max)
	case r.min != nil:
		return fmt.Sprintf("%.0f or more", *r.min)
	}
	return "a smaller number"
}

func setDefaults(v reflect.Value) {
	for _, r := range rulesOf(v.Type()) {
		switch field := v.Field(r.index); {
		case field.Kind() == reflect.Struct:
			setDefaults(field)
		case r.def != nil:
			r.setDefault(field)
		}
	}
}

// setDefault decodes the default; TestDefaultsAreValid checks that it is valid.
func (r rule) setDefault(v reflect.Value) {
	if r.def != nil {
		newDecoder("", Local, teamType).decodeValue(r.def, "", v, r)
	}
}

// withDefaults returns a new value of type t, with its defaults if it is a struct.
func withDefaults(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	if t.Kind() == reflect.Struct {
		setDefaults(v)
	}
	return v
}

func isDefault(v reflect.Value, r rule) bool {
	def := reflect.New(v.Type()).Elem()
	r.setDefault(def)
	return reflect.DeepEqual(v.Interface(), def.Interface())
}

// walkKeys visits every key of a struct type in order, nested ones included. Keys in
// lists are visited as patterns: agents[].id.
func walkKeys(t reflect.Type, prefix string, visit func(pattern string, r rule)) {
	for _, r := range rulesOf(t) {
		pattern := joinKey(prefix, r.key)
		visit(pattern, r)
		switch field := t.Field(r.index).Type; {
		case field.Kind() == reflect.Struct:
			walkKeys(field, pattern, visit)
		case field.Kind() == reflect.Slice && field.Elem().Kind() == reflect.Struct && field != criteriaType:
			walkKeys(field.Elem(), pattern+"[]", visit)
		case field.Kind() == reflect.Map && field.Elem().Kind() == reflect.Struct:
			walkKeys(field.Elem(), pattern+".NAME", visit)
		}
	}
}

// decodeAny decodes a value of any type to nil, bool, int64, float64, string, []any or
// map[string]any.
func (d *Decoder) decodeAny(n *yaml.Node, key string) any {
	d.decoded[key] = n
	switch kindOf(n) {
	case boolean:
		return isTrue(n)
	case number:
		return d.decodeAnyNumber(n, key)
	case str:
		return n.Value
	case list:
		items := make([]any, len(n.Content))
		for i, item := range n.Content {
			items[i] = d.decodeAny(item, itemKey(key, i))
		}
		return items
	case mapping:
		values := make(map[string]any, len(n.Content)/2)
		for _, f := range d.uniqueEntries(n, key) {
			values[f.Key.Value] = d.decodeAny(f.Value, joinKey(key, f.Key.Value))
		}
		return values
	}
	return nil
}

// decodeAnyNumber returns an int64 for a whole number in any notation, and otherwise a float64.
// A number therefore keeps its type when it is written and read again, even 1.0, which JSON
// writes as 1.
func (d *Decoder) decodeAnyNumber(n *yaml.Node, key string) any {
	if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
		return i
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	if err != nil {
		d.reportAt(n, key, "%s is out of the range of numbers", quoteSafely(n.Value))
		return nil
	}
	if f == math.Trunc(f) && f >= math.MinInt64 && f < math.MaxInt64 {
		return int64(f)
	}
	return f
}

func (d *Decoder) decodeString(n *yaml.Node, key string, v reflect.Value, r rule) {
	switch {
	case kindOf(n) == null && r.optional: // absent, as an empty string is
	case kindOf(n) == boolean && r.booleans != nil:
		v.SetString(r.booleans[1])
		if isTrue(n) {
			v.SetString(r.booleans[0])
		}
	case kindOf(n) != str && !(kindOf(n) == number && isPlain(n)):
		expected := "a string"
		if isPlain(n) && kindOf(n) == boolean {
			expected += " (in quotes)"
		}
		d.reportType(n, key, expected)
	case len(r.enum) > 0 && !slices.Contains(r.enum, n.Value):
		hint := suggestChoice(n.Value, r.enum)
		if alias := backendAliases[n.Value]; alias != "" && strings.HasSuffix(key, ".backend.type") {
			hint = alias
		}
		d.reportAt(n, key, "unknown value %s; %s", quoteSafely(n.Value), hint)
	default:
		v.SetString(d.reach.locatePath(n.Value, r.path))
	}
}

func (d *Decoder) decodeNumber(n *yaml.Node, key string, v reflect.Value, r rule) {
	expected, whole := "a number", v.Kind() == reflect.Int
	if whole {
		expected = "a whole number"
	}
	if kindOf(n) != number {
		d.reportType(n, key, expected)
		return
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), whole && f != math.Trunc(f):
		d.reportType(n, key, expected)
	case err != nil, whole && math.Abs(f) > 1<<53, r.min != nil && f < *r.min, r.max != nil && f > *r.max:
		d.reportAt(n, key, "%s is out of range; valid: %s", describeValue(n), r.rangeText())
	case whole:
		v.SetInt(int64(f))
	default:
		v.SetFloat(f)
	}
}
