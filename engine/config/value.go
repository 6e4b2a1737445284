package config

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// any decodes a value of any type to nil, bool, int64, float64, string, []any or
// map[string]any.
func (d *Decoder) any(n *node, key string) any {
	d.positions[key] = n.position
	switch n.kind {
	case boolean:
		return n.text == "true"
	case number:
		return d.anyNumber(n, key)
	case str:
		return n.text
	case list:
		items := make([]any, len(n.items))
		for i, item := range n.items {
			items[i] = d.any(item, nth(key, i))
		}
		return items
	case mapping:
		values := make(map[string]any, len(n.fields))
		for _, f := range d.fields(n, key) {
			values[f.key] = d.any(f.value, join(key, f.key))
		}
		return values
	}
	return nil
}

// anyNumber returns an int64 for a whole number in any notation, and otherwise a float64.
// A number therefore keeps its type when it is written and read again, even 1.0, which JSON
// writes as 1.
func (d *Decoder) anyNumber(n *node, key string) any {
	if i, err := strconv.ParseInt(n.text, 10, 64); err == nil {
		return i
	}
	f, err := strconv.ParseFloat(n.text, 64)
	if err != nil {
		d.report(n.position, key, "%s is out of the range of numbers", quote(n.text))
		return nil
	}
	if f == math.Trunc(f) && f >= math.MinInt64 && f < math.MaxInt64 {
		return int64(f)
	}
	return f
}

// str decodes a string, restricted to the choices if there are any.
func (d *Decoder) str(n *node, key string, v reflect.Value, r rule) {
	switch {
	case n.kind == null && r.optional: // absent, as an empty string is
	case n.kind == boolean && r.booleans != nil:
		v.SetString(r.booleans[1])
		if n.text == "true" {
			v.SetString(r.booleans[0])
		}
	case n.kind != str && !(n.kind == number && n.plain):
		expected := "a string"
		if n.plain && n.kind == boolean {
			expected += " (in quotes)"
		}
		d.unexpected(n, key, expected)
	case len(r.enum) > 0 && !slices.Contains(r.enum, n.text):
		hint := choice(n.text, r.enum)
		if alias := backendAliases[n.text]; alias != "" && strings.HasSuffix(key, ".backend.type") {
			hint = alias
		}
		d.report(n.position, key, "unknown value %s; %s", quote(n.text), hint)
	default:
		v.SetString(d.reach.locate(n.text, r.path))
	}
}

// number decodes a number within its range.
func (d *Decoder) number(n *node, key string, v reflect.Value, r rule) {
	expected, whole := "a number", v.Kind() == reflect.Int
	if whole {
		expected = "a whole number"
	}
	if n.kind != number {
		d.unexpected(n, key, expected)
		return
	}
	f, err := strconv.ParseFloat(n.text, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), whole && f != math.Trunc(f):
		d.unexpected(n, key, expected)
	case err != nil, whole && math.Abs(f) > 1<<53, r.min != nil && f < *r.min, r.max != nil && f > *r.max:
		d.report(n.position, key, "%s is out of range; valid: %s", n.found(), r.span())
	case whole:
		v.SetInt(int64(f))
	default:
		v.SetFloat(f)
	}
}
