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
	JSON json.RawMessage // as it is written, without white space

	// Canonical is canonical JSON, the same for equal data: keys are sorted, numbers are decimals,
	// texts are in NFC, sets are sorted, and ignored fields are missing.
	Canonical string

	// Fields are the values in Canonical, ordered by their paths.
	Fields []Field
}

// Field is a value within data: a text, a number, a set, or an empty object or array.
type Field struct {
	Path  string // JSON pointer; empty for the whole
	Value string // canonical JSON
}

// ReadData reads JSON that need not fit a schema.
func ReadData(raw []byte) (Data, error) {
	value, err := readJSON(raw)
	if err != nil {
		return Data{}, err
	}
	return (&checker{}).compare(raw, value, nil), nil
}

// comparison says how the values of a schema are compared. An array can be a set; a value can be
// ignored.
type comparison struct{ set, ignore bool }

// Validate implements jsonschema.SchemaExt.
func (comparison) Validate(*jsonschema.ValidatorContext, any) {}

// compare returns the forms of a value that fits a schema, which may be nil.
func (c *checker) compare(raw []byte, value any, s *jsonschema.Schema) Data {
	d := Data{JSON: json.RawMessage(Compact(string(raw)))}
	d.Canonical, _ = c.canonical(&d.Fields, []*jsonschema.Schema{s}, value, "")
	slices.SortFunc(d.Fields, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	return d
}

// canonical returns the canonical JSON of a value that fits schemas, and whether it is compared at
// all. It appends the values within it to fields.
func (c *checker) canonical(fields *[]Field, schemas []*jsonschema.Schema, value any, path string) (canonical string, compared bool) {
	applied, how := c.applied(schemas, value, path)
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

// applied returns the schemas that a value fits, and how they have it compared.
func (c *checker) applied(schemas []*jsonschema.Schema, value any, path string) (applied []*jsonschema.Schema, how comparison) {
	var apply func(s *jsonschema.Schema)
	apply = func(s *jsonschema.Schema) {
		if s == nil || slices.Contains(applied, s) {
			return
		}
		applied = append(applied, s)
		for _, extension := range s.Extensions {
			own, _ := extension.(comparison)
			how.set, how.ignore = how.set || own.set, how.ignore || own.ignore
		}
		for _, of := range append(slices.Clone(s.AllOf), s.Ref) {
			apply(of)
		}
		for _, of := range slices.Concat(s.AnyOf, s.OneOf) {
			if len(c.check(of, value, path)) == 0 {
				apply(of)
			}
		}
	}
	for _, s := range schemas {
		apply(s)
	}
	return applied, how
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
	others := append(slices.Clone(s.AnyOf), s.OneOf...)
	switch {
	case s.Const != nil:
		return *s.Const
	case s.Enum != nil && len(s.Enum.Values) > 0:
		return s.Enum.Values[seed%len(s.Enum.Values)]
	case s.Ref != nil && depth < maxJSONDepth:
		return exampleOf(s.Ref, seed, depth+1)
	case len(others) > 0 && depth < maxJSONDepth:
		return exampleOf(others[len(others)-1], seed, depth+1)
	case s.Types == nil:
		return fields
	}
	values := map[string]any{"object": fields, "boolean": seed%2 == 0, "number": seed % 3, "integer": seed % 3, "string": "offline", "array": []any{}}
	return values[s.Types.ToStrings()[0]]
}
