package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	tree     any                 // as it is written
	order    map[string][]string // of its keys
	compiled *jsonschema.Schema

	// Unchecked names, with their places, the formats, patterns and other keywords that models are
	// shown, but that are not checked.
	Unchecked []string
}

// The keywords of a schema that have schemas as values, or as the values of their members; those
// that are not checked; and the formats that are.
var (
	subschemas      = []string{"additionalItems", "additionalProperties", "allOf", "anyOf", "items", "not", "oneOf", "prefixItems", "propertyNames"}
	namedSubschemas = []string{"$defs", "definitions", "patternProperties", "properties"}
	uncheckedKeys   = []string{
		"$dynamicRef", "$recursiveRef", "contains", "dependencies", "dependentSchemas", "else", "if", "maxContains", "minContains", "then", "unevaluatedItems", "unevaluatedProperties",
	}
	checkedFormats = []string{"date-time", "date", "time", "duration", "email", "uri", "uuid", "ipv4", "ipv6"}
)

// ownKeywords begins the keywords that say how data are compared; models do not see them.
const ownKeywords = "x-conclave-"

// ReadDataSchema reads a JSON Schema. It refuses references to other documents.
func ReadDataSchema(raw []byte) (*DataSchema, error) {
	s := &DataSchema{}
	var err error
	if s.tree, s.order, err = readJSON(raw); err != nil {
		return nil, err
	}
	if _, isObject := s.tree.(map[string]any); !isObject {
		return nil, errors.New(`it is not a JSON object; give a schema such as {"type": "object", "properties": {"choice": {"type": "string"}}, "required": ["choice"]}`)
	}
	var outside error
	checked := editSchemas(s.tree, "", func(path string, o map[string]any) {
		if to, _ := o["$ref"].(string); to != "" && !strings.HasPrefix(to, "#") {
			outside = errors.New(faultAt(path+"/$ref", "%s is another document; put the schema under $defs and refer to it as #/$defs/NAME", text.Truncate(to, 80)))
		}
		s.dropUnchecked(path, o)
	})
	if outside != nil {
		return nil, outside
	}
	const url = "urn:schema"
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // loads nothing
	c.AssertFormat()
	c.AssertVocabs()
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: ownKeywords, Compile: compileComparison})
	if err = c.AddResource(url, checked); err == nil {
		s.compiled, err = c.Compile(url)
	}
	var faulty *jsonschema.ValidationError
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok && errors.As(invalid.Err, &faulty) {
		err = errors.New(joinFaults(faultsOf("", faulty), "; "))
	}
	if err != nil {
		return nil, fmt.Errorf("it is not a JSON Schema: %s", strings.ReplaceAll(err.Error(), url, ""))
	}
	slices.Sort(s.Unchecked)
	return s, nil
}

// editSchemas returns a copy of a schema in which edit has changed it and then each schema in it.
func editSchemas(schema any, path string, edit func(path string, o map[string]any)) any {
	o, isObject := schema.(map[string]any)
	if !isObject {
		return schema
	}
	o = maps.Clone(o)
	edit(path, o)
	for name, value := range o {
		at := path + "/" + escapeToken(name)
		named, _ := value.(map[string]any)
		list, isList := value.([]any)
		switch {
		case slices.Contains(namedSubschemas, name) && named != nil:
			named = maps.Clone(named)
			for of, schema := range named {
				named[of] = editSchemas(schema, at+"/"+escapeToken(of), edit)
			}
			o[name] = named
		case slices.Contains(subschemas, name) && isList:
			list = slices.Clone(list)
			for i := range list {
				list[i] = editSchemas(list[i], at+"/"+strconv.Itoa(i), edit)
			}
			o[name] = list
		case slices.Contains(subschemas, name):
			o[name] = editSchemas(value, at, edit)
		}
	}
	return o
}

// dropUnchecked removes from a schema what is not checked. Where RE2 cannot read a pattern for names
// of properties, all names are admitted.
func (s *DataSchema) dropUnchecked(path string, o map[string]any) {
	drop := func(from map[string]any, name, what string) {
		s.Unchecked = append(s.Unchecked, text.Truncate(what, 80)+" at "+path+"/"+escapeToken(name))
		delete(from, name)
	}
	isRE2 := func(pattern string) bool {
		_, err := regexp.Compile(pattern)
		return err == nil
	}
	delete(o, "$id")
	for _, name := range uncheckedKeys {
		if _, there := o[name]; there {
			drop(o, name, name)
		}
	}
	if format, ok := o["format"].(string); ok && !slices.Contains(checkedFormats, format) {
		drop(o, "format", "format "+format)
	}
	if pattern, ok := o["pattern"].(string); ok && !isRE2(pattern) {
		drop(o, "pattern", "pattern "+pattern)
	}
	names, _ := o["patternProperties"].(map[string]any)
	names = maps.Clone(names)
	for pattern := range names {
		if !isRE2(pattern) {
			drop(names, pattern, "pattern "+pattern)
			delete(o, "additionalProperties")
			o["patternProperties"] = names
		}
	}
}

// MarshalJSON returns the schema as it is written, without white space.
func (s *DataSchema) MarshalJSON() ([]byte, error) {
	return []byte(encodeOrdered(s.tree, "", s.order)), nil
}

// Sent returns the schema as models see it.
func (s *DataSchema) Sent() json.RawMessage {
	return json.RawMessage(encodeOrdered(s.sentAt(""), "", s.order))
}

// Arguments returns the parameters of a tool whose argument name is the data, and the other is
// optional.
func (s *DataSchema) Arguments(name, other string, about Property) json.RawMessage {
	data := encodeOrdered(s.sentAt("/properties/"+name), "", s.order)
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%q:%s,%q:%s},"required":[%[1]q],"additionalProperties":false}`, name, data, other, encodeJSON(about)))
}

// sentAt returns the schema as it is sent within another one, at a place, which its references name.
func (s *DataSchema) sentAt(place string) any {
	return editSchemas(s.tree, "", func(_ string, o map[string]any) {
		maps.DeleteFunc(o, func(name string, _ any) bool {
			return name == "$id" || name == "$schema" || strings.HasPrefix(name, ownKeywords)
		})
		if to, _ := o["$ref"].(string); to == "#" || strings.HasPrefix(to, "#/") {
			o["$ref"] = "#" + place + to[1:]
		}
	})
}

// Read reads data that fit the schema. Errors name the places of faults, as JSON pointers, and the
// reasons. An object that a model has quoted, as a text, is accepted, too.
func (s *DataSchema) Read(raw []byte) (Data, error) {
	value, _, err := readJSON(raw)
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
