package checklist

import (
	"encoding/json"
	"regexp"
	"strings"
)

// criterionForm is how a criterion may be named in arguments.
var criterionForm = regexp.MustCompile(`^[EeTt][0-9]+$`)

// object reads a JSON object, also one that was given as text, as models do.
func object(raw []byte) (map[string]json.RawMessage, bool) {
	var quoted string
	if json.Unmarshal(raw, &quoted) == nil {
		raw = []byte(quoted)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, false
	}
	return fields, fields != nil
}

// criterion finds the value for the criterion at index under any of its names;
// null is none.
func criterion(fields map[string]json.RawMessage, index int) (json.RawMessage, bool) {
	for _, raw := range named(fields, index) {
		if string(raw) != "null" {
			return raw, true
		}
	}
	return nil, false
}

// named are the values under all names of the criterion at index.
func named(fields map[string]json.RawMessage, index int) []json.RawMessage {
	name := id(index)
	alias := "T" + name[1:]
	var values []json.RawMessage
	for _, key := range []string{name, alias, strings.ToLower(name), strings.ToLower(alias)} {
		if raw, ok := fields[key]; ok {
			values = append(values, raw)
		}
	}
	return values
}

// word reads a text without the space around it; anything else is empty.
func word(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return strings.TrimSpace(s)
}

// list reads an array; anything else is a list of one.
func list(raw json.RawMessage) []json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) == nil {
		return items
	}
	return []json.RawMessage{raw}
}
