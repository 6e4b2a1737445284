package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// str decodes a string, one of the choices if there are any.
func (d *decoder) str(n *node, key string, v reflect.Value, r rule) {
	switch {
	case n.kind == null && r.optional: // absent, as an empty string is
	case n.kind != text && !(n.kind == number && n.plain):
		expected := "a string"
		if n.plain && n.kind == boolean {
			expected += " (in quotes)"
		}
		d.wrong(n, key, expected)
	case len(r.enum) > 0 && !slices.Contains(r.enum, n.text):
		d.report(n.position, key, "unknown value %s; %s", quote(n.text), choice(n.text, r.enum))
	default:
		v.SetString(n.text)
	}
}

// number decodes a number in its range.
func (d *decoder) number(n *node, key string, v reflect.Value, r rule) {
	expected, whole := "a number", v.Kind() == reflect.Int
	if whole {
		expected = "a whole number"
	}
	if n.kind != number {
		d.wrong(n, key, expected)
		return
	}
	f, err := strconv.ParseFloat(n.text, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), whole && f != math.Trunc(f):
		d.wrong(n, key, expected)
	case err != nil, whole && math.Abs(f) > 1<<53, r.min != nil && f < *r.min, r.max != nil && f > *r.max:
		d.report(n.position, key, "%s is out of range; valid: %s", n.found(), span(r))
	case whole:
		v.SetInt(int64(f))
	default:
		v.SetFloat(f)
	}
}

// span describes a range of numbers.
func span(r rule) string {
	switch {
	case r.min != nil && r.max != nil:
		return fmt.Sprintf("%.0f to %.0f", *r.min, *r.max)
	case r.min != nil:
		return fmt.Sprintf("%.0f or more", *r.min)
	}
	return "a smaller number"
}

// anyNumber is an int64 wherever the number is one, however it is written, so
// that writing it out and reading it again changes nothing.
func (d *decoder) anyNumber(n *node, key string) any {
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
