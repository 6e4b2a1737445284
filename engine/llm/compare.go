package llm

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/unicode/norm"
)

// Data is JSON that was read, with the form in which it is compared.
type Data struct {
	JSON      json.RawMessage // as it is written, without white space
	Canonical string          // the same for equal data: with sorted keys and sets, decimals, texts in NFC, and without ignored values
	Fields    []Field         // the values in Canonical, ordered by their paths
}

// Field is a value within data: a text, a number, a set, or an empty object or array.
type Field struct {
	Path  string // JSON pointer; empty for the whole
	Value string // canonical JSON
}

// ReadData reads JSON that need not fit a schema.
func ReadData(raw []byte) (Data, error) { return new(DataSchema).Read(raw) }

// comparison says how the values of a schema are compared. An array can be a set; a value can be
// ignored.
type comparison struct{ set, ignore bool }

// Validate implements jsonschema.SchemaExt.
func (comparison) Validate(*jsonschema.ValidatorContext, any) {}

// canonical returns the canonical JSON of a value that fits schemas, and whether it is compared at
// all. It appends the values within it to fields.
func (c *checker) canonical(fields *[]Field, schemas []*jsonschema.Schema, value any, path string) (canonical string, compared bool) {
	var applied []*jsonschema.Schema
	for _, s := range schemas {
		applied = c.appendFitting(applied, s, value, path)
	}
	var how comparison
	for _, s := range applied {
		for _, extension := range s.Extensions {
			own, _ := extension.(comparison)
			how.set, how.ignore = how.set || own.set, how.ignore || own.ignore
		}
	}
	if how.ignore {
		return "", false
	}
	inner, parts := fields, []string{}
	if how.set { // which is one value
		inner = &[]Field{}
	}
	for _, part := range partsOf(value) {
		var within []*jsonschema.Schema
		for _, s := range applied {
			found, _ := part.schemasOf(s)
			within = append(within, found...)
		}
		name := norm.NFC.String(part.name)
		text, compared := c.canonical(inner, within, part.value, path+"/"+escapeToken(name))
		if part.index < 0 {
			text = encodeJSON(name) + ":" + text
		}
		if compared {
			parts = append(parts, text)
		}
	}
	switch value.(type) {
	case []any:
		if how.set {
			parts = slices.Compact(slices.Sorted(slices.Values(parts)))
		}
		canonical = "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		canonical = "{" + strings.Join(slices.Sorted(slices.Values(parts)), ",") + "}"
	default:
		canonical = canonicalScalar(value)
	}
	if len(parts) == 0 || how.set {
		*fields = append(*fields, Field{path, canonical})
	}
	return canonical, true
}

// appendFitting appends a schema that a value fits, and those within it.
func (c *checker) appendFitting(to []*jsonschema.Schema, s *jsonschema.Schema, value any, path string) []*jsonschema.Schema {
	if s == nil || slices.Contains(to, s) || len(c.check(s, value, path)) > 0 {
		return to
	}
	to = append(to, s)
	for _, of := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Ref}) {
		to = c.appendFitting(to, of, value, path)
	}
	return to
}

// Difference is a field in which data differ.
type Difference struct {
	Path   string
	Values []string // canonical JSON of each; empty where the field is missing
}

// Differences returns the fields in which data differ, ordered by their paths.
func Differences(data []Data) []Difference {
	values := map[string][]string{}
	for i, d := range data {
		for _, f := range d.Fields {
			if values[f.Path] == nil {
				values[f.Path] = make([]string, len(data))
			}
			values[f.Path][i] = f.Value
		}
	}
	var differ []Difference
	for _, path := range slices.Sorted(maps.Keys(values)) {
		if len(slices.Compact(slices.Clone(values[path]))) > 1 {
			differ = append(differ, Difference{path, values[path]})
		}
	}
	return differ
}

// Example returns simple data that fit the schema, which depend on the seed where it has a choice, or
// nil if they are not found easily.
func (s *DataSchema) Example(seed int) json.RawMessage {
	d, err := s.Read([]byte(encodeJSON(exampleOf(s.compiled, seed, 0))))
	if err != nil {
		return nil
	}
	return d.JSON
}

func exampleOf(s *jsonschema.Schema, seed, depth int) any {
	fields := map[string]any{}
	for _, name := range s.Required {
		if of, _ := (part{name: name, index: -1}).schemasOf(s); len(of) > 0 && depth < maxJSONDepth {
			fields[name] = exampleOf(of[0], seed, depth+1)
		}
	}
	others := slices.Concat([]*jsonschema.Schema{s.Ref}, s.AnyOf, s.OneOf)
	switch last := others[len(others)-1]; {
	case s.Const != nil:
		return *s.Const
	case s.Enum != nil && len(s.Enum.Values) > 0:
		return s.Enum.Values[seed%len(s.Enum.Values)]
	case last != nil && depth < maxJSONDepth:
		return exampleOf(last, seed, depth+1)
	case s.Types == nil:
		return fields
	}
	values := map[string]any{"object": fields, "boolean": seed%2 == 0, "number": seed % 3, "integer": seed % 3, "string": "offline", "array": []any{}}
	return values[s.Types.ToStrings()[0]]
}
