package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"conclave/engine/text"
)

// DataSchema is a JSON Schema that data from a model must fit: an answer, the output of a pipeline's
// step, or a structured reply to a caller.
type DataSchema struct {
	raw      string
	compiled *jsonschema.Schema

	// Unchecked names the formats, patterns and other keywords that models are shown, but that are
	// not checked.
	Unchecked []string
}

// The formats that are checked, and the keywords that are not.
var (
	checkedFormats = []string{"date-time", "date", "time", "duration", "email", "uri", "uuid", "ipv4", "ipv6"}
	uncheckedKeys  = []string{"$dynamicRef", "$recursiveRef", "contains", "dependencies", "dependentSchemas", "if", "unevaluatedItems", "unevaluatedProperties"}
)

// unchecked is a pattern that RE2 cannot read.
type unchecked string

func (p unchecked) String() string { return string(p) }

// MatchString implements jsonschema.Regexp.
func (unchecked) MatchString(string) bool { return true }

// ReadDataSchema reads a JSON Schema. It refuses references to other documents.
func ReadDataSchema(raw []byte) (*DataSchema, error) {
	s := &DataSchema{raw: Compact(string(raw))}
	tree, err := readJSON(raw)
	if err != nil {
		return nil, err
	}
	if _, isObject := tree.(map[string]any); !isObject {
		return nil, errors.New(`it is not a JSON object; give a schema such as {"type": "object", "properties": {"choice": {"type": "string"}}, "required": ["choice"]}`)
	}
	const url = "schema:///schema"
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // loads nothing
	c.UseRegexpEngine(s.compilePattern)
	c.AssertFormat()
	c.AssertVocabs()
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: ownKeywords, Compile: s.compileOwn})
	if err = c.AddResource(url, tree); err == nil {
		s.compiled, err = c.Compile(url)
	}
	var faulty *jsonschema.ValidationError
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok && errors.As(invalid.Err, &faulty) {
		err = errors.New(joinFaults(faultsOf("", faulty), "; "))
	}
	if other, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		err = fmt.Errorf("it refers to another document, %s; put what is there under $defs and refer to it as #/$defs/NAME", text.Truncate(strings.TrimPrefix(other.URL, "schema:///"), 80))
	}
	if err != nil {
		return nil, fmt.Errorf("it is not a JSON Schema: %s", strings.ReplaceAll(err.Error(), url, ""))
	}
	slices.Sort(s.Unchecked)
	s.Unchecked = slices.Compact(s.Unchecked)
	return s, nil
}

func (s *DataSchema) compilePattern(pattern string) (jsonschema.Regexp, error) {
	read, err := regexp.Compile(pattern)
	if err != nil {
		s.Unchecked = append(s.Unchecked, "pattern "+text.Truncate(pattern, 80))
		return unchecked(pattern), nil //nolint:nilerr // other programs read it
	}
	return read, nil
}

// compileOwn reads conclave's own keywords of a schema, and notes those that are not checked.
func (s *DataSchema) compileOwn(_ *jsonschema.CompilerContext, o map[string]any) (jsonschema.SchemaExt, error) {
	for _, name := range uncheckedKeys {
		if _, there := o[name]; there {
			s.Unchecked = append(s.Unchecked, name)
		}
	}
	if format, _ := o["format"].(string); format != "" && !slices.Contains(checkedFormats, format) {
		s.Unchecked = append(s.Unchecked, "format "+text.Truncate(format, 80))
	}
	return comparison{set: o[ownKeywords+"set"] == true, ignore: o[ownKeywords+"ignore"] == true}, nil
}

// MarshalJSON returns the schema as it is written.
func (s *DataSchema) MarshalJSON() ([]byte, error) { return []byte(s.raw), nil }

// Sent returns the schema as models see it.
func (s *DataSchema) Sent() json.RawMessage { return json.RawMessage(s.sentAt("")) }

// Arguments returns the parameters of a tool whose argument name is the data, and the other is
// optional.
func (s *DataSchema) Arguments(name, other string, about Property) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%q:%s,%q:%s},"required":[%[1]q],"additionalProperties":false}`,
		name, s.sentAt("/properties/"+name), other, encodeJSON(about)))
}

// sentAt returns the schema as it is sent at a place within another one.
func (s *DataSchema) sentAt(place string) string {
	d := json.NewDecoder(strings.NewReader(s.raw))
	d.UseNumber()
	return sendPart(d, aSchema, place)
}

// The parts of a schema: a schema, schemas by name, or a value that is no schema.
const (
	aSchema = iota
	namedSchemas
	aValue
)

// keywordParts has the keywords of a schema with other parts than schemas.
var keywordParts = map[string]int{
	"properties": namedSchemas, "patternProperties": namedSchemas, "$defs": namedSchemas, "definitions": namedSchemas, "dependentSchemas": namedSchemas,
	"dependencies": namedSchemas, "enum": aValue, "const": aValue, "default": aValue, "examples": aValue,
}

// sendPart returns the next part of a schema without what models do not see, its keys in their order,
// which models follow, and with references to the place of the schema.
func sendPart(d *json.Decoder, part int, place string) string {
	token, _ := d.Token() // the schema is valid
	begin, _ := token.(json.Delim)
	if begin == 0 {
		return encodeJSON(token)
	}
	var parts []string
	for d.More() {
		if begin == '[' {
			parts = append(parts, sendPart(d, part, place))
			continue
		}
		key, _ := d.Token()
		name, _ := key.(string)
		inner := part
		if part != aValue {
			inner = map[int]int{aSchema: keywordParts[name], namedSchemas: aSchema}[part]
		}
		text := sendPart(d, inner, place)
		if part == aSchema && name == "$ref" && (text == `"#"` || strings.HasPrefix(text, `"#/`)) {
			text = `"#` + place + text[2:]
		}
		if part != aSchema || name != "$id" && name != "$schema" && !strings.HasPrefix(name, ownKeywords) {
			parts = append(parts, encodeJSON(name)+":"+text)
		}
	}
	end, _ := d.Token()
	return begin.String() + strings.Join(parts, ",") + fmt.Sprint(end)
}

// Read reads data that fit the schema. Errors name the places of faults, as JSON pointers, and the
// reasons. An object that a model has quoted, as a text, is accepted, too.
func (s *DataSchema) Read(raw []byte) (Data, error) {
	value, err := readJSON(raw)
	if err != nil {
		return Data{}, err
	}
	c := checker{known: map[pair][]string{}}
	faults := c.check(s.compiled, value, "")
	if len(faults) == 0 {
		return c.compare(raw, value, s.compiled), nil
	}
	if quoted, _ := value.(string); strings.HasPrefix(quoted, "{") {
		if d, err := s.Read([]byte(quoted)); err == nil {
			return d, nil
		}
	}
	return Data{}, errors.New(joinFaults(faults, "; "))
}
