package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/text"
)

// decoder turns a document into a struct by the tags of its fields. It goes on
// after a problem, to find them all.
type decoder struct {
	file     string
	reach    Reach
	root     reflect.Type // of the whole document; nil stands for a Team
	problems Problems
	wrongs   map[string]bool     // the keys that problems are about
	places   map[string]position // of every value that was decoded, by key
	single   bool                // exactly one agent, which may do without an ID
}

func (d *decoder) report(at position, key, format string, args ...any) {
	d.problems = append(d.problems, Problem{
		File: d.file, Line: at.line, Column: at.column, Key: key, Message: fmt.Sprintf(format, args...),
	})
	if d.wrongs == nil {
		d.wrongs = map[string]bool{}
	}
	d.wrongs[key] = true
}

// reportKey reports a problem of a key where its value is, or would be.
func (d *decoder) reportKey(key, format string, args ...any) {
	d.report(d.at(key), key, format, args...)
}

// at is the place of a key's value. A key that is not in the document is at the
// place of what it would be part of.
func (d *decoder) at(key string) position {
	for key != "" {
		if at, ok := d.places[key]; ok {
			return at
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return d.places[""]
}

func (d *decoder) wrong(n *node, key, expected string) {
	d.report(n.position, key, "expected %s, found %s", expected, n.found())
}

// decode sets v, which has its default, to the value n of key.
func (d *decoder) decode(n *node, key string, v reflect.Value, r rule) {
	if d.places != nil {
		d.places[key] = n.position
	}
	switch {
	case v.Type() == teamType:
		v.Set(reflect.ValueOf(d.nestedTeam(n, key)))
	case v.Type() == criteriaType:
		v.Set(reflect.ValueOf(d.criteria(n, key)))
	case v.Kind() == reflect.Pointer && n.kind == null:
		v.SetZero()
	case v.Kind() == reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		d.decode(n, key, target.Elem(), r)
		v.Set(target)
	case v.Kind() == reflect.Struct:
		d.mapping(n, key, v, r)
	case v.Kind() == reflect.Slice:
		d.list(n, key, v, r)
	case v.Kind() == reflect.Map:
		d.dictionary(n, key, v)
	case v.Kind() == reflect.Bool:
		if n.kind != boolean {
			d.wrong(n, key, "true or false")
			return
		}
		v.SetBool(n.text == "true")
	case v.Kind() == reflect.String:
		d.str(n, key, v, r)
	default:
		d.number(n, key, v, r)
	}
}

// mapping decodes into a struct.
func (d *decoder) mapping(n *node, key string, v reflect.Value, r rule) {
	if n.kind == stringText && r.shorthand != "" {
		n = &node{position: n.position, kind: mapping, fields: []field{{n.position, r.shorthand, n}}}
	}
	if n.kind != mapping && n.kind != null {
		d.wrong(n, key, "a mapping")
		return
	}
	rs := rules(v.Type())
	for _, f := range d.fields(n, key) {
		if r, ok := ruleFor(rs, f.key); ok {
			d.field(f, join(key, f.key), v.Field(r.index), r)
		} else {
			d.unknown(f, key, keys(rs))
		}
	}
}

func ruleFor(rs []rule, key string) (rule, bool) {
	for _, r := range rs {
		if r.key == key {
			return r, true
		}
	}
	return rule{}, false
}

// field decodes one key, and refuses a value that is valid but not built yet.
func (d *decoder) field(f field, key string, v reflect.Value, r rule) {
	before := len(d.problems)
	d.decode(f.value, key, v, r)
	if len(d.problems) == before && !available(pattern(key), v, r) {
		d.report(f.value.position, key, "%s is not available in this version; %s", shown(f.value), remedy(r))
	}
}

// shown is a value in a message about it.
func shown(n *node) string {
	switch n.kind {
	case list, mapping:
		return "this"
	case stringText:
		return quote(n.text)
	}
	return n.found()
}

func remedy(r rule) string {
	if r.def == nil {
		return "remove the key"
	}
	return "remove the key or set it to " + r.def.text
}

// fields returns the entries of a mapping without duplicates, which it reports.
func (d *decoder) fields(n *node, key string) []field {
	first := map[string]position{}
	var unique []field
	for _, f := range n.fields {
		if at, ok := first[f.key]; ok {
			d.report(f.position, join(key, f.key), "duplicate key, set on line %d already; remove one of them", at.line)
			continue
		}
		first[f.key] = f.position
		unique = append(unique, f)
	}
	return unique
}

// unknown reports a key that does not exist, and the one that was meant.
func (d *decoder) unknown(f field, parent string, valid []string) {
	key := join(parent, f.key)
	if secretKey(f.key) {
		d.report(f.position, key, "API keys do not belong in a configuration; put the key into an environment variable and name that in %s, as in api_key_env: OPENAI_API_KEY", d.keyField())
		return
	}
	if len(d.problems) >= maxShown { // a suggestion that nobody will see is not worth the search
		d.report(f.position, key, "unknown key")
		return
	}
	hint := suggestion(f.key, valid)
	if _, near := text.Nearest(f.key, valid); !near && (d.document() == teamType || parent == "") {
		elsewhere := ""
		walk(d.document(), "", func(pattern string, r rule) {
			if r.key == f.key && elsewhere == "" {
				elsewhere = pattern
			}
		})
		if elsewhere != "" {
			hint = "did you mean " + elsewhere + "?"
		}
	}
	d.report(f.position, key, "unknown key; %s", hint)
}

func (d *decoder) list(n *node, key string, v reflect.Value, r rule) {
	if n.kind != list && n.kind != null {
		d.wrong(n, key, "a list")
		return
	}
	v.SetZero() // an empty list is no list
	for i, item := range n.items {
		element := reflect.New(v.Type().Elem()).Elem()
		if element.Kind() == reflect.Struct {
			setDefaults(element)
		}
		itemKey := nth(key, i)
		d.decode(item, itemKey, element, rule{shorthand: r.shorthand})
		v.Set(reflect.Append(v, element))
	}
}

// dictionary decodes into a map with keys of the user's own.
func (d *decoder) dictionary(n *node, key string, v reflect.Value) {
	if n.kind != mapping && n.kind != null {
		d.wrong(n, key, "a mapping")
		return
	}
	fields := d.fields(n, key)
	v.SetZero()
	if len(fields) == 0 {
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(fields)))
	for _, f := range fields {
		itemKey, element := join(key, f.key), reflect.New(v.Type().Elem()).Elem()
		if element.Kind() == reflect.Struct {
			setDefaults(element)
		}
		if element.Kind() != reflect.Interface {
			d.decode(f.value, itemKey, element, rule{})
		} else if value := d.any(f.value, itemKey); value != nil {
			element.Set(reflect.ValueOf(value))
		}
		v.SetMapIndex(reflect.ValueOf(f.key), element)
	}
}

// any is a value of the user's own: nil, bool, int64, float64, string, []any or
// map[string]any.
func (d *decoder) any(n *node, key string) any {
	d.places[key] = n.position
	switch n.kind {
	case boolean:
		return n.text == "true"
	case number:
		return d.anyNumber(n, key)
	case stringText:
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

var (
	plainKey  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)
	listIndex = regexp.MustCompile(`\[\d+\]`)
)

// join is the key of an entry of a mapping.
func join(parent, key string) string {
	if !plainKey.MatchString(key) || looksSecret(key) {
		key = quote(key)
	}
	if parent == "" {
		return key
	}
	return parent + "." + key
}

// pattern is a key without the positions in lists: agents[].id.
func pattern(key string) string { return listIndex.ReplaceAllString(key, "[]") }

// str decodes a string, one of the choices if there are any.
func (d *decoder) str(n *node, key string, v reflect.Value, r rule) {
	switch {
	case n.kind == null && r.optional: // absent, as an empty string is
	case n.kind != stringText && !(n.kind == number && n.plain):
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
