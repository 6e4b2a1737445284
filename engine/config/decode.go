package config

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// Decoder decodes a document into a struct by the tags of its fields. It continues after
// a problem and collects all of them.
type Decoder struct {
	file     string
	reach    Reach
	document reflect.Type
	inTeam   bool    // a team is being decoded, maybe within another document
	single   bool    // exactly one agent, which needs no ID
	others   []Agent // whose models the agents of a pipeline get that name none

	problems Problems
	invalid  map[string]bool       // keys that have a problem
	decoded  map[string]*yaml.Node // every decoded value, by key
	listed   map[string]bool       // sections whose valid keys were already listed
}

var teamType, dataSchemaType = reflect.TypeFor[Team](), reflect.TypeFor[*llm.DataSchema]()

func newDecoder(file string, reach Reach, document reflect.Type) *Decoder {
	return &Decoder{file: file, reach: reach, document: document, invalid: map[string]bool{}, decoded: map[string]*yaml.Node{}, listed: map[string]bool{}}
}

func (d *Decoder) reportAt(at *yaml.Node, key, format string, args ...any) {
	d.invalid[key] = true
	d.problems = append(d.problems, problem{
		File: d.file, Line: max(at.Line, 1), Column: max(at.Column, 1), Key: key, Message: fmt.Sprintf(format, args...),
	})
}

// Report adds a problem at the position of a key's value, or of the closest enclosing value
// in the document. It does nothing if the key or an enclosing one has a problem already. Keys
// are written as in messages: teams.default.agents[0].id.
func (d *Decoder) Report(key, format string, args ...any) {
	for k := key; k != ""; k = parentKey(k) {
		if d.invalid[k] {
			return
		}
	}
	d.reportAt(d.nodeOf(key), key, format, args...)
}

// Name reports a value that is not among names. The singular describes one of them,
// such as "a step".
func (d *Decoder) Name(key, value, singular string, names []string) {
	d.Report(key, "%s is not %s; %s", quoteSafely(value), singular, suggestChoice(value, names))
}

// Key returns the key of an entry of a mapping.
func (d *Decoder) Key(parent, name string) string { return joinKey(parent, name) }

func (d *Decoder) nodeOf(key string) *yaml.Node {
	for ; key != ""; key = parentKey(key) {
		if at, ok := d.decoded[key]; ok {
			return at
		}
	}
	return d.decoded[""]
}

func (d *Decoder) reportType(n *yaml.Node, key, expected string) {
	d.reportAt(n, key, "expected %s, found %s", expected, describeValue(n))
}

func (d *Decoder) decodeValue(n *yaml.Node, key string, v reflect.Value, r rule) {
	d.decoded[key] = n
	switch {
	case v.Type() == teamType:
		d.decodeTeam(n, key, v)
	case v.Type() == criteriaType:
		v.Set(reflect.ValueOf((&criteriaReader{Decoder: d}).decodeCriteria(n, key)))
	case v.Type() == calibrationType:
		v.Set(reflect.ValueOf(d.readCalibration(n, key)))
	case v.Kind() == reflect.Pointer && kindOf(n) == null:
		v.SetZero()
	case kindOf(n) == null && r.def != nil:
		d.reportAt(n, key, "nothing (null); leave the key out for the default, %s", r.def.Value)
	case v.Type() == dataSchemaType:
		v.Set(reflect.ValueOf(d.decodeDataSchema(n, key)))
	case v.Kind() == reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		target.Elem().Set(withDefaults(v.Type().Elem()))
		d.decodeValue(n, key, target.Elem(), r)
		if t := target.Elem(); t.Kind() == reflect.Slice && t.IsNil() { // an empty list differs from null
			t.Set(reflect.MakeSlice(t.Type(), 0, 0))
		}
		v.Set(target)
	case v.Kind() == reflect.Struct:
		d.decodeStruct(n, key, v, r)
	case v.Kind() == reflect.Slice:
		d.decodeList(n, key, v, r)
	case v.Kind() == reflect.Map:
		d.decodeMap(n, key, v)
	case v.Kind() == reflect.Interface:
		if value := d.decodeAny(n, key); value != nil {
			v.Set(reflect.ValueOf(value))
		}
	case v.Kind() == reflect.Bool && kindOf(n) != boolean:
		d.reportType(n, key, "true or false")
	case v.Kind() == reflect.Bool:
		v.SetBool(isTrue(n))
	case v.Kind() == reflect.String:
		d.decodeString(n, key, v, r)
	default:
		d.decodeNumber(n, key, v, r)
	}
}

// decodeTeam decodes and checks a team, which may be part of another document.
func (d *Decoder) decodeTeam(n *yaml.Node, key string, v reflect.Value) {
	switch kindOf(n) {
	case mapping:
	case null:
		d.reportAt(n, key, "%s", emptyTeam)
		return
	default:
		d.reportAt(n, key, "expected a mapping with the key agents, found %s", describeValue(n))
		return
	}
	d.inTeam = true
	defer func() { d.inTeam = false }()
	d.listAgent(n, key)
	t := Defaults[Team]()
	d.decodeStruct(n, key, reflect.ValueOf(&t).Elem(), rule{})
	d.fillModels(t.Agents)
	d.checkTeam(key, t)
	v.Set(reflect.ValueOf(t))
}

// listAgent replaces the key agent, a mapping, with agents, a list.
func (d *Decoder) listAgent(n *yaml.Node, key string) {
	both := Lookup(n, "agents") != nil
	var content []*yaml.Node
	for _, f := range Entries(n) {
		switch {
		case f.Key.Value != "agent":
			content = append(content, f.Key, f.Value)
		case both:
			d.reportAt(f.Key, joinKey(key, "agent"), "both agent and agents; list every agent under agents")
		default:
			renamed := *f.Key // merged mappings share their keys
			renamed.Value = "agents"
			content = append(content, &renamed, listOf(f.Value))
		}
	}
	n.Content = content
}

func (d *Decoder) decodeStruct(n *yaml.Node, key string, v reflect.Value, r rule) {
	if kindOf(n) == str && r.shorthand != "" {
		n = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{{Value: r.shorthand}, n}}
	}
	if !isNullOr(n, mapping) {
		d.reportType(n, key, "a mapping")
		return
	}
	rs := rulesOf(v.Type())
	for _, f := range d.uniqueEntries(n, key) {
		i := slices.IndexFunc(rs, func(r rule) bool { return r.key == f.Key.Value })
		if i < 0 {
			d.reportUnknown(f, key, keysOf(rs))
			continue
		}
		d.decodeValue(f.Value, joinKey(key, f.Key.Value), v.Field(rs[i].index), rs[i])
	}
}

func (d *Decoder) uniqueEntries(n *yaml.Node, key string) []Entry {
	first := map[string]*yaml.Node{}
	var unique []Entry
	for _, f := range Entries(n) {
		if at, ok := first[f.Key.Value]; ok {
			d.reportAt(f.Key, joinKey(key, f.Key.Value), "duplicate key, set on line %d already; remove one of them", at.Line)
			continue
		}
		first[f.Key.Value] = f.Key
		unique = append(unique, f)
	}
	return unique
}

func (d *Decoder) reportUnknown(f Entry, parent string, valid []string) {
	key := joinKey(parent, f.Key.Value)
	if text.SecretKey(f.Key.Value) {
		d.reportAt(f.Key, key, "API keys do not belong in a configuration; put the key into an environment variable and name that in %s, as in api_key_env: OPENAI_API_KEY", d.keyField())
		return
	}
	message := "unknown key"
	if len(d.problems) < maxShown { // later suggestions are not printed
		message += "; " + d.hintAtKey(key, f.Key.Value, parent, valid)
	}
	d.reportAt(f.Key, key, "%s", message)
	d.problems[len(d.problems)-1].Unknown = true
}

// hintAtKey returns the right place for an unknown key, the nearest valid key, or all valid
// keys.
func (d *Decoder) hintAtKey(key, name, parent string, valid []string) string {
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
		walkKeys(document, "", func(pattern string, r rule) {
			if text.Misspells(name, r.key) && elsewhere == "" {
				elsewhere = pattern
			}
		})
		if elsewhere != "" {
			return "did you mean " + elsewhere + "?"
		}
	}
	section := keyPattern(parent)
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

func (d *Decoder) decodeList(n *yaml.Node, key string, v reflect.Value, r rule) {
	if kindOf(n) == str && r.single {
		n = listOf(n)
	}
	if !isNullOr(n, list) {
		d.reportType(n, key, "a list")
		return
	}
	v.SetZero() // an empty list is nil
	for i, item := range n.Content {
		element := withDefaults(v.Type().Elem())
		d.decodeValue(item, itemKey(key, i), element, rule{shorthand: r.shorthand, path: r.path})
		v.Set(reflect.Append(v, element))
	}
}

func (d *Decoder) decodeMap(n *yaml.Node, key string, v reflect.Value) {
	if !isNullOr(n, mapping) {
		d.reportType(n, key, "a mapping")
		return
	}
	v.SetZero()
	for _, f := range d.uniqueEntries(n, key) {
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		element := withDefaults(v.Type().Elem())
		d.decodeValue(f.Value, joinKey(key, f.Key.Value), element, rule{})
		v.SetMapIndex(reflect.ValueOf(f.Key.Value), element)
	}
}

var (
	plainKey  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)
	listIndex = regexp.MustCompile(`\[\d+\]`)
)

func joinKey(parent, key string) string {
	if !plainKey.MatchString(key) || text.LooksSecret(key) {
		key = quoteSafely(key)
	}
	if parent == "" {
		return key
	}
	return parent + "." + key
}

func itemKey(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// parentKey returns the key of the enclosing value, "" for the whole document.
func parentKey(key string) string { return key[:max(strings.LastIndexAny(key, ".["), 0)] }

// keyPattern returns a key without the positions in lists: agents[].id.
func keyPattern(key string) string { return listIndex.ReplaceAllString(key, "[]") }

// variableName matches names of environment variables.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// checkVariable checks the name of an API key's variable.
func (d *Decoder) checkVariable(key, name string) {
	const example = "it takes the name of an environment variable, ending in _KEY or _TOKEN, such as OPENAI_API_KEY"
	d.Variable(key, name, example)
	if !strings.HasSuffix(name, "_KEY") && !strings.HasSuffix(name, "_TOKEN") {
		d.Report(key, "the variable's name must end in _KEY or _TOKEN (not shown, it could be a key); %s", example)
	}
}

// Variable checks the name of a secret's variable. Messages do not repeat it, since it could be
// the secret itself. The example is the remedy.
func (d *Decoder) Variable(key, name, example string) {
	upper := strings.ToUpper(name)
	switch {
	case text.LooksSecret(name), strings.HasPrefix(name, "whsec_"):
		d.Report(key, "this looks like an API key (not shown), which does not belong in a configuration; %s", example)
	case strings.HasPrefix(name, "$"):
		d.Report(key, "a variable's value, and a key does not belong in a configuration; write the variable's name alone, without $")
	case !variableName.MatchString(name):
		d.Report(key, "not the name of an environment variable (not shown, it could be a key); %s", example)
	case strings.HasPrefix(upper, "AWS_"), strings.HasPrefix(upper, "TEMPORAL_"):
		d.Report(key, "the variables AWS_… and TEMPORAL_… belong to the worker and are never sent anywhere else; name a variable that was made for this")
	}
}

// checkBaseURL checks the address of an API server, to which paths are added.
func (d *Decoder) checkBaseURL(key, raw string) {
	const example = "it takes an address such as http://127.0.0.1:11434/v1"
	u, ok := d.checkURL(key, raw, example, "name the variable that holds the key in api_key_env instead")
	if ok && (u.RawQuery != "" || u.ForceQuery || u.Fragment != "") {
		d.Report(key, "the URL has a query or fragment, to which no path can be added; %s", example)
	}
}

// checkURL checks an HTTP address. Messages do not repeat it, since it could contain a
// password. Example and instead are remedies.
func (d *Decoder) checkURL(key, raw, example, instead string) (u *url.URL, ok bool) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		d.Report(key, "not a URL; %s", example)
	case u.Scheme != "http" && u.Scheme != "https":
		d.Report(key, "not an http or https URL; %s", example)
	case u.Hostname() == "":
		d.Report(key, "the URL has no host; %s", example)
	case u.User != nil:
		d.Report(key, "the URL contains a user name or password; %s", instead)
	default:
		return u, true
	}
	return nil, false
}

// checkSecrets refuses literal secrets in a value without a schema.
func (d *Decoder) checkSecrets(key string, value any) {
	switch value := value.(type) {
	case string:
		if text.LooksSecret(value) {
			d.Report(key, "this looks like an API key (not shown), which does not belong in a configuration; name the variable that holds the key in %s", d.keyField())
		}
	case []any:
		for i, item := range value {
			d.checkSecrets(itemKey(key, i), item)
		}
	case map[string]any:
		for name, item := range value {
			if text.SecretKey(name) && isLiteral(item) {
				d.Report(joinKey(key, name), "a literal secret does not belong in a configuration; name the variable that holds the key in %s", d.keyField())
				continue
			}
			d.checkSecrets(joinKey(key, name), item)
		}
	}
}

// isLiteral reports whether a value could itself be a secret. A mapping could not: it may be
// a schema, and its entries are checked one by one.
func isLiteral(value any) bool {
	switch value := value.(type) {
	case nil, bool, map[string]any:
		return false
	case []any:
		return slices.ContainsFunc(value, isLiteral)
	case string:
		return value != ""
	}
	return true
}
