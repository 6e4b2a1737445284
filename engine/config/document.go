package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// kind is what a value of a document is.
type kind int

const (
	null kind = iota
	boolean
	number
	stringText
	list
	mapping
)

// position is a place in a document, both from 1. Columns count characters.
type position struct{ line, column int }

// node is a value of a YAML or JSON document with its place.
type node struct {
	position
	kind   kind
	text   string  // of a scalar, as written; a number has the form of JSON
	plain  bool    // a YAML scalar without quotes, which may be meant as a string
	items  []*node // of a list
	fields []field // of a mapping, in order, possibly with duplicates
}

// field is one entry of a mapping.
type field struct {
	position // of the key
	key      string
	value    *node
}

// Limits of a document. A team of 26 agents needs a few hundred values; YAML
// aliases and JSON alike are refused beyond these.
const (
	maxBytes  = 1 << 20
	maxDepth  = 50
	maxValues = 10_000
)

// parseDocument reads data as JSON if it is JSON, else as YAML. YAML is not
// quite a superset: JSON's surrogate escapes and some characters are not YAML.
func parseDocument(data []byte) (*node, *fault) {
	if len(data) > maxBytes {
		return nil, &fault{position{1, 1}, fmt.Sprintf("%d bytes are too many for a configuration, at most %d are accepted", len(data), maxBytes)}
	}
	if at := invalidUTF8(data); at >= 0 {
		return nil, &fault{place(data, at), "not UTF-8 text; save the file in UTF-8"}
	}
	data = []byte(strings.TrimPrefix(string(data), "\ufeff"))
	if looksJSON(data) {
		return readJSON(data)
	}
	return readYAML(data)
}

// fault is what makes a document unreadable.
type fault struct {
	position
	message string
}

// grow counts a value against the limits of a document.
func grow(values *int, depth int, at position) *fault {
	*values++
	switch {
	case depth > maxDepth:
		return &fault{at, fmt.Sprintf("nested more than %d levels deep", maxDepth)}
	case *values > maxValues:
		return &fault{at, fmt.Sprintf("more than %d values, with aliases expanded; a configuration is smaller", maxValues)}
	}
	return nil
}

// place is the position of the byte at offset.
func place(data []byte, offset int) position {
	before := string(data[:min(offset, len(data))])
	start := strings.LastIndexByte(before, '\n') + 1
	return position{1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[start:])}
}

// invalidUTF8 is the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// found describes a value for people, on one line, without showing what could
// be a secret.
func (n *node) found() string {
	switch n.kind {
	case null:
		return "nothing (null)"
	case boolean:
		return n.text
	case number:
		return cut(n.text)
	case stringText:
		return "the string " + quote(n.text)
	case list:
		return "a list"
	}
	return "a mapping"
}

// quote shows a string from a configuration: escaped, cut at 40 characters, and
// not at all if it could be a secret.
func quote(s string) string {
	if looksSecret(s) {
		return "(not shown, it could be a secret)"
	}
	return fmt.Sprintf("%q", cut(s))
}

func cut(s string) string {
	if runes := []rune(s); len(runes) > 40 {
		return string(runes[:40]) + "…"
	}
	return s
}

// readYAML reads the one document of a YAML text.
func readYAML(data []byte) (*node, *fault) {
	if at := bytes.IndexFunc(data, unprintable); at >= 0 {
		return nil, &fault{place(data, at), "a control character, which YAML does not allow; remove it"}
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithUniqueKeys(false))
	if err != nil {
		return nil, &fault{position{1, 1}, "reading YAML: " + err.Error()}
	}
	var document, second yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		return &node{position: position{1, 1}}, nil
	} else if err != nil {
		return nil, syntaxFault(data, err)
	}
	if err := loader.Load(&second); err == nil {
		return nil, &fault{start(&second), "a second YAML document; a configuration is one document"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxFault(data, err)
	}
	var r yamlReader
	if document.Kind == yaml.DocumentNode && len(document.Content) > 0 {
		return r.value(document.Content[0], 1)
	}
	return r.value(&document, 1)
}

// unprintable says that a character is not allowed in YAML.
func unprintable(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r', r == '\u0085', r == '\ufeff':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0, r == 0xfffe, r == 0xffff:
		return true
	}
	return false
}

// syntaxFault puts the library's words at their place.
func syntaxFault(data []byte, err error) *fault {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return &fault{position{1, 1}, "not valid YAML: " + err.Error()}
	}
	at := position{max(load.Mark.Line, 1), max(load.Mark.Column, 1)}
	message := "not valid YAML: " + load.Message
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		message = "not valid JSON, nor YAML: " + load.Message
	}
	if strings.HasPrefix(load.Message, "unknown anchor") { // whose name could be a secret
		return &fault{at, "an alias (*) of an anchor that does not exist; a string that begins with * needs quotes"}
	}
	if strings.HasPrefix(load.Message, "found incompatible YAML") {
		return &fault{at, "a %YAML line of a version that is not supported; remove the line"}
	}
	if load.ContextMsg != "" {
		message += " " + load.ContextMsg
		if load.ContextMark.Line > 0 && load.ContextMark.Line != at.line {
			message += " that begins on line " + strconv.Itoa(load.ContextMark.Line)
		}
	}
	if strings.HasPrefix(load.Message, "mapping values are not allowed") {
		message += "; a value that contains \": \" needs quotes"
	}
	if lines := bytes.Split(data, []byte("\n")); at.line <= len(lines) && tabIndent.Match(lines[at.line-1]) {
		message += "; indent with spaces, not tabs"
	}
	return &fault{at, message}
}

var tabIndent = regexp.MustCompile(`^ *\t`)

// jsonNumber is a number in every version of YAML. What only some of them take
// for a number (0x10, 012, 1_000, .inf) stays the string that it is in the file.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// yamlReader turns the library's nodes into ours, aliases and merge keys expanded.
type yamlReader struct{ values int }

func start(n *yaml.Node) position { return position{max(n.Line, 1), max(n.Column, 1)} }

func (r *yamlReader) value(n *yaml.Node, depth int) (*node, *fault) {
	at := start(n)
	if f := grow(&r.values, depth, at); f != nil {
		return nil, f
	}
	if n.Kind == yaml.AliasNode {
		target, f := r.value(n.Alias, depth+1)
		if f == nil {
			target.position = at
		}
		return target, f
	}
	if n.Style&yaml.TaggedStyle != 0 && !(n.Kind == yaml.ScalarNode && n.Tag == "!!str") {
		return nil, &fault{at, "the YAML tag " + quote(n.Tag) + " is not supported; remove it"}
	}
	result := &node{position: at}
	switch n.Kind {
	case yaml.MappingNode:
		result.kind = mapping
		return result, r.mapping(result, n, depth)
	case yaml.SequenceNode:
		result.kind = list
		for _, item := range n.Content {
			value, f := r.value(item, depth+1)
			if f != nil {
				return nil, f
			}
			result.items = append(result.items, value)
		}
	default:
		scalar(result, n)
	}
	return result, nil
}

func scalar(result *node, n *yaml.Node) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle
	result.kind, result.text, result.plain = stringText, n.Value, n.Style&quoted == 0
	switch {
	case !result.plain:
	case n.Tag == "!!null":
		result.kind = null
	case n.Tag == "!!bool":
		result.kind, result.text = boolean, strings.ToLower(n.Value)
	case jsonNumber.MatchString(n.Value):
		result.kind = number
	}
}

func (r *yamlReader) mapping(result *node, n *yaml.Node, depth int) *fault {
	var merged []field
	own := map[string]bool{}
	for pair := range slices.Chunk(n.Content, 2) {
		key, value := pair[0], pair[len(pair)-1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return &fault{start(pair[0]), "a list or mapping as a key; keys are strings"}
		}
		v, f := r.value(value, depth+1)
		if f != nil {
			return f
		}
		if key.Tag == "!!merge" {
			from, f := mergeSources(v)
			if f != nil {
				return f
			}
			merged = append(merged, from...)
			continue
		}
		own[key.Value] = true
		result.fields = append(result.fields, field{start(pair[0]), key.Value, v})
	}
	for _, f := range merged { // what is set beside a merge key wins, then the first source
		if !own[f.key] {
			own[f.key] = true
			result.fields = append(result.fields, f)
		}
	}
	return nil
}

// mergeSources returns the fields that a merge key brings.
func mergeSources(v *node) ([]field, *fault) {
	sources := []*node{v}
	if v.kind == list {
		sources = v.items
	}
	var fields []field
	for _, source := range sources {
		if source.kind != mapping {
			return nil, &fault{source.position, "the merge key << takes a mapping or a list of mappings, found " + source.found()}
		}
		fields = append(fields, source.fields...)
	}
	return fields, nil
}

// looksJSON says whether data is one JSON object or array. Anything else,
// broken JSON included, is read as YAML.
func looksJSON(data []byte) bool {
	start := bytes.TrimLeft(data, " \t\r\n")
	return len(start) > 0 && (start[0] == '{' || start[0] == '[') && json.Valid(data)
}

// readJSON reads one JSON value.
func readJSON(data []byte) (*node, *fault) {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		at := len(data)
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = int(syntax.Offset) - 1
		}
		return nil, &fault{place(data, max(at, 0)), "not valid JSON: " + err.Error()}
	}
	r := jsonReader{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), position: position{1, 1}}
	r.decoder.UseNumber()
	return r.value(1)
}

// jsonReader turns the tokens of valid JSON into nodes.
type jsonReader struct {
	data    []byte
	decoder *json.Decoder
	values  int

	counted  int // bytes of data that are before position
	position position
}

// next returns the next token and where it begins. Positions are counted on
// from the last one, so that reading stays linear.
func (r *jsonReader) next() (json.Token, position, error) {
	offset := int(r.decoder.InputOffset())
	for offset < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[offset]) >= 0 {
		offset++
	}
	for _, c := range string(r.data[r.counted:offset]) {
		r.position.column++
		if c == '\n' {
			r.position = position{r.position.line + 1, 1}
		}
	}
	r.counted = offset
	token, err := r.decoder.Token()
	return token, r.position, err
}

func (r *jsonReader) value(depth int) (*node, *fault) {
	token, at, err := r.next()
	if err != nil {
		return nil, &fault{at, "not valid JSON: " + err.Error()}
	}
	if f := grow(&r.values, depth, at); f != nil {
		return nil, f
	}
	n := &node{position: at}
	switch token := token.(type) {
	case nil:
		n.kind = null
	case bool:
		n.kind, n.text = boolean, strconv.FormatBool(token)
	case json.Number:
		n.kind, n.text = number, token.String()
	case string:
		n.kind, n.text = stringText, token
	case json.Delim:
		return n, r.collection(n, token, depth)
	}
	return n, nil
}

// collection reads a list or a mapping to its end.
func (r *jsonReader) collection(n *node, open json.Delim, depth int) *fault {
	n.kind = list
	if open == '{' {
		n.kind = mapping
	}
	for r.decoder.More() {
		var f field
		if n.kind == mapping {
			key, at, err := r.next()
			name, ok := key.(string)
			if err != nil || !ok {
				return &fault{at, "not valid JSON: a key must be a string"}
			}
			f.key, f.position = name, at
		}
		value, fault := r.value(depth + 1)
		if fault != nil {
			return fault
		}
		if f.value = value; n.kind == mapping {
			n.fields = append(n.fields, f)
		} else {
			n.items = append(n.items, value)
		}
	}
	if _, at, err := r.next(); err != nil { // the closing bracket
		return &fault{at, "not valid JSON: " + err.Error()}
	}
	return nil
}
