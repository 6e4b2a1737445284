package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/redact"
	"conclave/engine/text"
)

// Decoder decodes a document into a struct by the tags of its fields. It continues after
// a problem and collects all of them.
type Decoder struct {
	file     string
	reach    Reach
	document reflect.Type
	inTeam   bool // a team is being decoded, maybe within another document
	single   bool // exactly one agent, which needs no ID

	problems  Problems
	warnings  Problems            // warnings about files of criteria
	invalid   map[string]bool     // keys that have a problem
	positions map[string]position // positions of every decoded value, by key
	listed    map[string]bool     // sections whose valid keys were already listed
}

var teamType = reflect.TypeFor[Team]()

func newDecoder(file string, reach Reach, document reflect.Type) *Decoder {
	return &Decoder{file: file, reach: reach, document: document, invalid: map[string]bool{}, positions: map[string]position{}, listed: map[string]bool{}}
}

// report adds a problem at a position.
func (d *Decoder) report(at position, key, format string, args ...any) {
	d.invalid[key] = true
	d.problems = append(d.problems, problem{
		File: d.file, Line: at.line, Column: at.column, Key: key, Message: fmt.Sprintf(format, args...),
	})
}

// Report adds a problem at the position of a key's value, or of the closest enclosing value
// in the document. It does nothing if the key or an enclosing one has a problem already. Keys
// are written as in messages: teams.default.agents[0].id.
func (d *Decoder) Report(key, format string, args ...any) {
	for k := key; k != ""; k = parent(k) {
		if d.invalid[k] {
			return
		}
	}
	d.report(d.at(key), key, format, args...)
}

// Name reports a value that is not among names. The singular describes one of them,
// such as "a step".
func (d *Decoder) Name(key, value, singular string, names []string) {
	d.Report(key, "%s is not %s; %s", quote(value), singular, choice(value, names))
}

// Key returns the key of an entry of a mapping.
func (d *Decoder) Key(parent, name string) string { return join(parent, name) }

// at returns the position of a key's value, or of the closest enclosing one.
func (d *Decoder) at(key string) position {
	for ; key != ""; key = parent(key) {
		if at, ok := d.positions[key]; ok {
			return at
		}
	}
	return d.positions[""]
}

// unexpected reports a value of the wrong type.
func (d *Decoder) unexpected(n *node, key, expected string) {
	d.report(n.position, key, "expected %s, found %s", expected, n.found())
}

// decode sets v, which has its default, to the value n of key.
func (d *Decoder) decode(n *node, key string, v reflect.Value, r rule) {
	d.positions[key] = n.position
	switch {
	case v.Type() == teamType:
		d.team(n, key, v)
	case v.Type() == criteriaType:
		v.Set(reflect.ValueOf(d.criteria(n, key)))
	case v.Kind() == reflect.Pointer && n.kind == null:
		v.SetZero()
	case v.Kind() == reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		target.Elem().Set(withDefaults(v.Type().Elem()))
		d.decode(n, key, target.Elem(), r)
		if t := target.Elem(); t.Kind() == reflect.Slice && t.IsNil() { // an empty list differs from null
			t.Set(reflect.MakeSlice(t.Type(), 0, 0))
		}
		v.Set(target)
	case v.Kind() == reflect.Struct:
		d.mapping(n, key, v, r)
	case v.Kind() == reflect.Slice:
		d.list(n, key, v, r)
	case v.Kind() == reflect.Map:
		d.dictionary(n, key, v)
	case v.Kind() == reflect.Bool && n.kind != boolean:
		d.unexpected(n, key, "true or false")
	case v.Kind() == reflect.Bool:
		v.SetBool(n.text == "true")
	case v.Kind() == reflect.String:
		d.str(n, key, v, r)
	default:
		d.number(n, key, v, r)
	}
}

// team decodes and checks a team, which may be part of another document.
func (d *Decoder) team(n *node, key string, v reflect.Value) {
	switch n.kind {
	case mapping:
	case null:
		d.report(n.position, key, "%s", emptyTeam)
		return
	default:
		d.report(n.position, key, "expected a mapping with the key agents, found %s", n.found())
		return
	}
	d.inTeam = true
	defer func() { d.inTeam = false }()
	d.listAgent(n, key)
	t := Defaults[Team]()
	d.mapping(n, key, reflect.ValueOf(&t).Elem(), rule{})
	d.checkTeam(key, t)
	v.Set(reflect.ValueOf(t))
}

// listAgent replaces the key agent, a mapping, with agents, a list.
func (d *Decoder) listAgent(n *node, key string) {
	both := n.get("agents") != nil
	for i, f := range n.fields {
		switch {
		case f.key != "agent":
		case both:
			d.report(f.position, join(key, "agent"), "both agent and agents; list every agent under agents")
		default:
			n.fields[i] = field{f.position, "agents", &node{position: f.value.position, kind: list, items: []*node{f.value}}}
		}
	}
	if both {
		n.fields = slices.DeleteFunc(n.fields, func(f field) bool { return f.key == "agent" })
	}
}

// mapping decodes into a struct.
func (d *Decoder) mapping(n *node, key string, v reflect.Value, r rule) {
	if n.kind == str && r.shorthand != "" {
		n = &node{position: n.position, kind: mapping, fields: []field{{n.position, r.shorthand, n}}}
	}
	if n.kind != mapping && n.kind != null {
		d.unexpected(n, key, "a mapping")
		return
	}
	rs := rules(v.Type())
	for _, f := range d.fields(n, key) {
		i := slices.IndexFunc(rs, func(r rule) bool { return r.key == f.key })
		if i < 0 {
			d.unknown(f, key, keys(rs))
			continue
		}
		d.decode(f.value, join(key, f.key), v.Field(rs[i].index), rs[i])
	}
}

// fields returns the entries of a mapping, and reports duplicates.
func (d *Decoder) fields(n *node, key string) []field {
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

// unknown reports an unknown key and suggests the nearest valid one.
func (d *Decoder) unknown(f field, parent string, valid []string) {
	key := join(parent, f.key)
	if redact.SecretKey(f.key) {
		d.report(f.position, key, "API keys do not belong in a configuration; put the key into an environment variable and name that in %s, as in api_key_env: OPENAI_API_KEY", d.keyField())
		return
	}
	message := "unknown key"
	if len(d.problems) < maxShown { // later suggestions are not printed
		message += "; " + d.hint(key, f.key, parent, valid)
	}
	d.report(f.position, key, "%s", message)
	d.problems[len(d.problems)-1].Unknown = true
}

// hint returns the right place for an unknown key, the nearest valid key, or all valid
// keys.
func (d *Decoder) hint(key, name, parent string, valid []string) string {
	if place := placeOf(key, name); place != "" && d.inTeam {
		return place
	}
	if nearest, near := text.Nearest(name, valid); near {
		return "did you mean " + nearest + "?"
	}
	if d.inTeam || parent == "" {
		document, elsewhere := d.document, ""
		if d.inTeam {
			document = teamType
		}
		walk(document, "", func(pattern string, r rule) {
			if r.key == name && elsewhere == "" {
				elsewhere = pattern
			}
		})
		if elsewhere != "" {
			return "did you mean " + elsewhere + "?"
		}
	}
	section := pattern(parent)
	if len(valid) > maxListed && d.listed[section] {
		return "the valid ones are listed above"
	}
	d.listed[section] = true
	return "valid: " + strings.Join(valid, ", ")
}

// maxListed is the length of a list of valid keys up to which it is repeated; longer lists
// are shown once.
const maxListed = 12

// keyField returns the configuration key that names the variable of an API key. Remedies
// mention it.
func (d *Decoder) keyField() string {
	if d.inTeam {
		return "backend.api_key_env"
	}
	return "api_key_env"
}

func (d *Decoder) list(n *node, key string, v reflect.Value, r rule) {
	if n.kind == str && r.single {
		n = &node{position: n.position, kind: list, items: []*node{n}}
	}
	if n.kind != list && n.kind != null {
		d.unexpected(n, key, "a list")
		return
	}
	v.SetZero() // an empty list is nil
	for i, item := range n.items {
		element := withDefaults(v.Type().Elem())
		d.decode(item, nth(key, i), element, rule{shorthand: r.shorthand, path: r.path})
		v.Set(reflect.Append(v, element))
	}
}

// dictionary decodes into a map, whose keys are the user's own.
func (d *Decoder) dictionary(n *node, key string, v reflect.Value) {
	if n.kind != mapping && n.kind != null {
		d.unexpected(n, key, "a mapping")
		return
	}
	v.SetZero()
	for _, f := range d.fields(n, key) {
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		itemKey, element := join(key, f.key), withDefaults(v.Type().Elem())
		if element.Kind() != reflect.Interface {
			d.decode(f.value, itemKey, element, rule{})
		} else if value := d.any(f.value, itemKey); value != nil {
			element.Set(reflect.ValueOf(value))
		}
		v.SetMapIndex(reflect.ValueOf(f.key), element)
	}
}

var (
	plainKey  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)
	listIndex = regexp.MustCompile(`\[\d+\]`)
)

// join returns the key of an entry of a mapping.
func join(parent, key string) string {
	if !plainKey.MatchString(key) || redact.LooksSecret(key) {
		key = quote(key)
	}
	if parent == "" {
		return key
	}
	return parent + "." + key
}

// nth returns the key of an item of a list.
func nth(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// parent returns the key of the enclosing value, "" for the whole document.
func parent(key string) string { return key[:max(strings.LastIndexAny(key, ".["), 0)] }

// pattern returns a key without the positions in lists: agents[].id.
func pattern(key string) string { return listIndex.ReplaceAllString(key, "[]") }
