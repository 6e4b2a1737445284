package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
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
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: "conclave", Compile: s.compileOwn})
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
	return comparison{set: o["x-conclave-set"] == true, ignore: o["x-conclave-ignore"] == true}, nil
}

// MarshalJSON returns the schema as it is written.
func (s *DataSchema) MarshalJSON() ([]byte, error) { return []byte(s.raw), nil }

// Arguments returns the parameters of a tool whose argument name is the data, and the other is
// optional.
func (s *DataSchema) Arguments(name, other string, about Property) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%q:%s,%q:%s},"required":[%[1]q],"additionalProperties":false}`,
		name, s.Sent("/properties/"+name), other, encodeJSON(about)))
}

// unsent matches, in a schema without white space, the parts hidden from models.
var unsent = regexp.MustCompile(`,"(x-conclave-\w+|\$id|\$schema)":("[^"]*"|[\w.+-]+)|"(x-conclave-\w+|\$id|\$schema)":("[^"]*"|[\w.+-]+),?`)

// localReference matches the beginning of a reference within a schema.
var localReference = regexp.MustCompile(`"\$ref":"#(/|")`)

// Sent returns the schema as models see it at a place within another one, which its references name;
// the place is empty for a schema alone.
func (s *DataSchema) Sent(place string) string {
	return localReference.ReplaceAllString(unsent.ReplaceAllString(s.raw, ""), `"$$ref":"#`+place+`$1`)
}

// Read reads data that fit the schema. Errors name the places of faults, as JSON pointers, and the
// reasons. An object that a model has quoted, as a text, is accepted, too.
func (s *DataSchema) Read(raw []byte) (Data, error) {
	value, err := readJSON(raw)
	if err != nil {
		return Data{}, err
	}
	c := checker{known: map[pair][]string{}}
	if s.compiled != nil {
		if faults := c.check(s.compiled, value, ""); len(faults) > 0 {
			if quoted, _ := value.(string); strings.HasPrefix(quoted, "{") {
				return s.Read([]byte(quoted))
			}
			return Data{}, errors.New(joinFaults(faults, "; "))
		}
	}
	d := Data{JSON: json.RawMessage(Compact(string(raw)))}
	d.Canonical, _ = c.canonical(&d.Fields, []*jsonschema.Schema{s.compiled}, value, "")
	slices.SortFunc(d.Fields, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	return d, nil
}

// CanHave reports whether data that fit the schema can have a part: a property that the schema lists, or any
// where it lists none or refers to other schemas.
func (s *DataSchema) CanHave(path []string) bool {
	at := json.RawMessage(s.raw)
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(at, &object) != nil {
			return true
		}
		for _, open := range []string{"$ref", "allOf", "anyOf", "oneOf", "additionalProperties", "patternProperties", "prefixItems"} {
			if value, there := object[open]; there && string(value) != "false" {
				return true
			}
		}
		var properties map[string]json.RawMessage
		_, err := strconv.Atoi(name)
		switch {
		case err == nil && object["items"] != nil:
			at = object["items"]
		case json.Unmarshal(object["properties"], &properties) != nil:
			return true
		case properties[name] == nil:
			return false
		default:
			at = properties[name]
		}
	}
	return true
}
