package mcp

import (
	"strconv"
	"strings"
)

const (
	// maxApplied is how many schemas may apply to one value, one through another.
	maxApplied = 10_000

	// maxNested is how deep a schema may be, references included.
	maxNested = 200
)

// finite says whether a value can be checked against a schema in bounded time:
// no schema applies to a value again by way of itself, not too many apply
// altogether, and every reference leads to a place in the same document. The
// checker recurses without end otherwise, and a worker does not survive that.
func finite(root map[string]any) bool {
	w := &weigher{root: root, weights: make(map[string]int)}
	return w.all("#", root, 0)
}

// weigher counts, by place, the schemas that apply to a value together with
// the one at that place; 0 while it is at it.
type weigher struct {
	root    map[string]any
	weights map[string]int
}

// all weighs every schema at and below a place. What is no schema but looks
// like one, such as an example, is weighed too.
func (w *weigher) all(place string, node any, depth int) bool {
	if depth > maxNested {
		return false
	}
	switch n := node.(type) {
	case map[string]any:
		if _, ok := w.weigh(place, n, depth); !ok {
			return false
		}
		for key, value := range n {
			if !w.all(place+"/"+escapePointer(key), value, depth+1) {
				return false
			}
		}
	case []any:
		for i, value := range n {
			if !w.all(place+"/"+strconv.Itoa(i), value, depth+1) {
				return false
			}
		}
	}
	return true
}

func (w *weigher) weigh(place string, schema map[string]any, depth int) (int, bool) {
	if weight, known := w.weights[place]; known {
		return weight, weight > 0
	}
	if depth > maxNested {
		return 0, false
	}
	w.weights[place] = 0
	applied, ok := w.applied(place, schema)
	if !ok {
		return 0, false
	}
	total := 1
	for _, at := range applied {
		next, ok := w.at(at)
		if !ok {
			return 0, false
		}
		part := 1
		if s, isObject := next.(map[string]any); isObject {
			if part, ok = w.weigh(at, s, depth+1); !ok {
				return 0, false
			}
		}
		if total += part; total > maxApplied {
			return 0, false
		}
	}
	w.weights[place] = total
	return total, true
}

// applied are the places of the schemas that apply to the same value as this
// one, by the keywords that are told apart by their form: lists of schemas,
// schemas, and schemas by name. It is false for references that lead elsewhere.
func (w *weigher) applied(place string, schema map[string]any) ([]string, bool) {
	var places []string
	for key, value := range schema {
		at := place + "/" + escapePointer(key)
		switch key {
		case "$ref":
			ref, _ := value.(string)
			if ref != "#" && !strings.HasPrefix(ref, "#/") || strings.Contains(ref, "%") {
				return nil, false
			}
			places = append(places, ref)
		case "$dynamicRef", "$recursiveRef":
			return nil, false
		case "$id":
			if place != "#" {
				return nil, false // references below it start there
			}
		case "allOf", "anyOf", "oneOf":
			list, _ := value.([]any)
			for i := range list {
				places = append(places, at+"/"+strconv.Itoa(i))
			}
		case "not", "if", "then", "else":
			places = append(places, at)
		case "dependentSchemas", "dependencies":
			named, _ := value.(map[string]any)
			for name := range named {
				places = append(places, at+"/"+escapePointer(name))
			}
		}
	}
	return places, true
}

// at is what a JSON pointer leads to.
func (w *weigher) at(pointer string) (any, bool) {
	var node any = w.root
	for _, segment := range strings.Split(pointer, "/")[1:] {
		segment = strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)
		switch n := node.(type) {
		case map[string]any:
			next, ok := n[segment]
			if !ok {
				return nil, false
			}
			node = next
		case []any:
			i, err := strconv.Atoi(segment)
			if err != nil || i < 0 || i >= len(n) {
				return nil, false
			}
			node = n[i]
		default:
			return nil, false
		}
	}
	return node, true
}

func escapePointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
