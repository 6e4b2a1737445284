package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"conclave/engine/text"
)

// Decode decodes the input of a workflow into a pointer to a struct and returns the faults. It
// never fails, because an error of the data converter would block the first workflow task.
func Decode(data []byte, into any) Faults {
	if err := json.Unmarshal(data, into); err != nil {
		return Faults{malformed: describeMalformed(err)}
	}
	return Faults{unknown: unknownIn(data, "", reflect.TypeOf(into).Elem())}
}

// Faults describes the faults of a decoded JSON input. The zero value means that there were no faults.
type Faults struct {
	malformed string // empty if the JSON fits the type
	unknown   string // the first unknown key and its remedy
}

// Err returns the error for a faulty input. noun and example describe the expected input.
func (f Faults) Err(noun, example string) error {
	switch {
	case f.malformed != "":
		return Invalid("the input cannot be decoded as %s: %s; give an object like %s", noun, f.malformed, example)
	case f.unknown != "":
		return Invalid("the input has an %s", f.unknown)
	}
	return nil
}

// UnmarshalJSON never fails. The receiver reports faults.
func (r *Request) UnmarshalJSON(data []byte) error {
	type plain Request
	*r = Request{}
	if err := json.Unmarshal(data, (*plain)(r)); err != nil {
		*r = Request{malformed: describeMalformed(err)}
		return nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) == nil {
		for key := range object {
			r.keys = append(r.keys, key)
		}
		slices.Sort(r.keys)
	}
	return nil
}

// faultFor returns the reason to refuse a request for a verb that accepts the given keys. A verb
// without keys accepts any input except an object with keys.
func (r Request) faultFor(keys []string) error {
	if r.malformed != "" && len(keys) > 0 {
		return fmt.Errorf("the input cannot be decoded: %s; give an object with %s", r.malformed, strings.Join(keys, ", "))
	}
	for _, key := range r.keys {
		if !slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, key) }) {
			return errors.New("the input has an " + unknownKey("", key, keys))
		}
	}
	return nil
}

// describeMalformed describes a JSON value of the wrong type without naming Go types.
func describeMalformed(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err.Error()
	}
	subject := "it"
	if wrong.Field != "" {
		subject = wrong.Field
	}
	return fmt.Sprintf("%s is %s, not %s", subject, withArticle(strings.Fields(wrong.Value + " value")[0]), withArticle(jsonType(wrong.Type)))
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Pointer:
		return jsonType(t.Elem())
	default:
		return "number that fits"
	}
}

func withArticle(noun string) string {
	switch noun {
	case "bool":
		return "a boolean"
	case "array", "object":
		return "an " + noun
	}
	return "a " + noun
}

// unknownIn describes the first unknown key in a JSON object that is to be decoded into the struct
// type t, with the path of the key. It skips the key continued, and types with their own decoders.
func unknownIn(data []byte, path string, t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		var items []json.RawMessage
		if json.Unmarshal(data, &items) != nil {
			return ""
		}
		for i, item := range items {
			if found := unknownIn(item, fmt.Sprintf("%s[%d]", path, i), t.Elem()); found != "" {
				return found
			}
		}
		return ""
	}
	var object map[string]json.RawMessage
	if t.Kind() != reflect.Struct || json.Unmarshal(data, &object) != nil {
		return ""
	}
	fields := fieldsOf(t)
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		i := slices.IndexFunc(fields, func(f field) bool { return strings.EqualFold(f.name, name) })
		if i < 0 {
			return unknownKey(path, name, keysOf(fields))
		}
		if fields[i].name == continuedKey {
			continue
		}
		if found := unknownIn(object[name], joinPath(path, name), fields[i].typ); found != "" {
			return found
		}
	}
	return ""
}

// continuedKey is the input field that only workflows themselves set.
const continuedKey = "continued"

type field struct {
	name string // name in JSON
	typ  reflect.Type
}

func fieldsOf(t reflect.Type) []field {
	var fields []field
	for f := range t.Fields() {
		if f.Anonymous && f.Tag.Get("json") == "" && f.Type.Kind() == reflect.Struct {
			fields = append(fields, fieldsOf(f.Type)...)
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && name != "" && name != "-" {
			fields = append(fields, field{name, f.Type})
		}
	}
	return fields
}

func keysOf(fields []field) []string {
	var keys []string
	for _, f := range fields {
		if f.name != continuedKey {
			keys = append(keys, f.name)
		}
	}
	return keys
}

func unknownKey(path, key string, valid []string) string {
	const maxShown = 80
	described := fmt.Sprintf("unknown key %q", text.Truncate(joinPath(path, key), maxShown))
	if near, ok := text.Nearest(key, valid); ok {
		return described + ": did you mean " + near + "?"
	}
	if len(valid) == 0 {
		return described + ": no key is accepted; leave it out"
	}
	return described + "; valid: " + strings.Join(valid, ", ")
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
