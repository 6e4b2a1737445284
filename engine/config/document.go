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

	"conclave/engine/redact"
	"conclave/engine/text"
)

// kind classifies a value of a document.
type kind int

const (
	null kind = iota
	boolean
	number
	str
	list
	mapping
)

// position is a line and a column, both from 1; columns count characters.
type position struct{ line, column int }

// node is a value of a document with its position.
type node struct {
	position
	kind   kind
	text   string  // scalars: as written; a number has the form of JSON
	plain  bool    // YAML scalars without quotes, which may be meant as strings
	items  []*node // items of a list
	fields []field // mappings: in order, duplicates included
}

// field is one entry of a mapping.
type field struct {
	position // position of the key
	key      string
	value    *node
}

// get returns the value of a key, or nil.
func (n *node) get(key string) *node {
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// found describes a value in one line, without repeating a possible secret.
func (n *node) found() string {
	switch n.kind {
	case null:
		return "nothing (null)"
	case boolean:
		return n.text
	case number:
		return text.Truncate(n.text, maxQuoted)
	case str:
		return "the string " + quote(n.text)
	case list:
		return "a list"
	}
	return "a mapping"
}

// maxQuoted bounds the values repeated in messages, in bytes.
const maxQuoted = 43

// quote escapes and truncates a string of a configuration, and withholds it if
// it could be a secret.
func quote(s string) string {
	if redact.LooksSecret(s) {
		return "(not shown, it could be a secret)"
	}
	return strconv.Quote(text.Truncate(s, maxQuoted))
}

// Limits of a document. A team of 26 agents needs a few hundred values; an alias
// counts as often as it is used.
const (
	maxBytes  = 1 << 20
	maxDepth  = 50
	maxValues = 10_000
)

// reader converts the YAML library's nodes and expands aliases and merge keys.
type reader struct {
	file   string
	json   bool // only quoted scalars are strings
	values int
}

// readDocument reads one YAML or JSON document. Errors are of type Problems.
func readDocument(file string, data []byte) (*node, error) {
	r := reader{file: file}
	if len(data) > maxBytes {
		return nil, r.fail(position{1, 1}, "%d bytes are too many for a configuration, at most %d are accepted", len(data), maxBytes)
	}
	if !utf8.Valid(data) {
		return nil, r.fail(positionOf(data, invalidUTF8(data)), "not UTF-8 text; save the file in UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if r.json = json.Valid(data); r.json {
		data = yamlFromJSON(data)
	}
	return r.document(data)
}

// readJSON is readDocument for texts that must be JSON.
func readJSON(file string, data []byte) (*node, error) {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		offset := len(data)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			offset = int(syntax.Offset) - 1
		}
		r := reader{file: file}
		return nil, r.fail(positionOf(data, max(offset, 0)), "not valid JSON: %v", err)
	}
	return readDocument(file, data)
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8.
func invalidUTF8(data []byte) int {
	offset := 0
	for {
		r, size := utf8.DecodeRune(data[offset:])
		if r == utf8.RuneError && size <= 1 {
			return offset
		}
		offset += size
	}
}

// positionOf converts an offset in bytes.
func positionOf(data []byte, offset int) position {
	before := data[:min(offset, len(data))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return position{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])}
}

var (
	// notYAML matches the parts of a JSON string that YAML refuses or changes:
	// surrogates, C1 controls, line separators. It also matches a pair of backslashes,
	// which yamlFromJSON skips.
	notYAML = regexp.MustCompile(`\\\\|(?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+|[\x{7f}-\x{9f}\x{2028}\x{2029}\x{feff}\x{fffe}\x{ffff}]`)

	// lateColon matches a colon on a later line than its key, which YAML refuses.
	lateColon = regexp.MustCompile(`"([ \t\r]*\n[ \t\r\n]*):`)
)

// yamlFromJSON rewrites the few forms of JSON that are invalid in YAML. Line numbers
// stay; columns after a rewritten character shift.
func yamlFromJSON(data []byte) []byte {
	data = lateColon.ReplaceAll(data, []byte(`":$1`))
	return notYAML.ReplaceAllFunc(data, func(match []byte) []byte {
		var decoded string
		if string(match) == `\\` || json.Unmarshal([]byte(`"`+string(match)+`"`), &decoded) != nil {
			return match
		}
		var escaped []byte
		for _, c := range decoded {
			escaped = fmt.Appendf(escaped, `\U%08X`, c)
		}
		return escaped
	})
}

func (r *reader) fail(at position, format string, args ...any) error {
	return Problems{{File: r.file, Line: at.line, Column: at.column, Message: fmt.Sprintf(format, args...)}}
}

func (r *reader) document(data []byte) (*node, error) {
	if at := bytes.IndexFunc(data, unprintable); at >= 0 {
		return nil, r.fail(positionOf(data, at), "a control character, which YAML does not allow; remove it")
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithUniqueKeys(false))
	if err != nil {
		return nil, r.fail(position{1, 1}, "reading YAML: %v", err)
	}
	var document, second yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		return &node{position: position{1, 1}}, nil
	} else if err != nil {
		return nil, r.syntaxError(data, err)
	}
	if err := loader.Load(&second); err == nil {
		return nil, r.fail(start(&second), "a second YAML document; a configuration is one document")
	} else if !errors.Is(err, io.EOF) {
		return nil, r.syntaxError(data, err)
	}
	root := &document
	if root.Kind == yaml.DocumentNode && len(root.Content) > 0 {
		root = root.Content[0]
	}
	return r.value(root, 1)
}

// unprintable reports whether YAML forbids a character.
func unprintable(c rune) bool {
	switch c {
	case '\t', '\n', '\r', '\u0085', '\ufeff':
		return false
	}
	return c < 0x20 || c >= 0x7f && c < 0xa0 || c == 0xfffe || c == 0xffff
}

var tabIndent = regexp.MustCompile(`^ *\t`)

// syntaxError reports the library's error at its position, with a remedy for
// common mistakes.
func (r *reader) syntaxError(data []byte, err error) error {
	load, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return r.fail(position{1, 1}, "not valid YAML: %v", err)
	}
	at := position{max(load.Mark.Line, 1), max(load.Mark.Column, 1)}
	message := "not valid YAML: " + load.Message
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		message = "not valid JSON, nor YAML: " + load.Message
	}
	if load.ContextMsg != "" {
		message += " " + load.ContextMsg
		if load.ContextMark.Line > 0 && load.ContextMark.Line != at.line {
			message += " that begins on line " + strconv.Itoa(load.ContextMark.Line)
		}
	}
	lines := bytes.Split(data, []byte("\n"))
	switch {
	case strings.HasPrefix(load.Message, "unknown anchor"): // the anchor's name could be a secret
		message = "an alias (*) of an anchor that does not exist; a string that begins with * needs quotes"
	case strings.HasPrefix(load.Message, "found incompatible YAML"):
		message = "a %YAML line of a version that is not supported; remove the line"
	case strings.HasPrefix(load.Message, "mapping values are not allowed"):
		message += "; a value that contains \": \" needs quotes"
	case at.line <= len(lines) && tabIndent.Match(lines[at.line-1]):
		message += "; indent with spaces, not tabs"
	}
	return r.fail(at, "%s", message)
}

func start(n *yaml.Node) position { return position{max(n.Line, 1), max(n.Column, 1)} }

func (r *reader) value(n *yaml.Node, depth int) (*node, error) {
	at := start(n)
	r.values++
	switch {
	case depth > maxDepth:
		return nil, r.fail(at, "nested more than %d levels deep", maxDepth)
	case r.values > maxValues:
		return nil, r.fail(at, "more than %d values, with aliases expanded; a configuration is smaller", maxValues)
	case n.Kind == yaml.AliasNode:
		target, err := r.value(n.Alias, depth+1)
		if err == nil {
			target.position = at
		}
		return target, err
	case n.Style&yaml.TaggedStyle != 0 && !(n.Kind == yaml.ScalarNode && n.Tag == "!!str"):
		return nil, r.fail(at, "the YAML tag %s is not supported; remove it", quote(n.Tag))
	}
	result := &node{position: at}
	switch n.Kind {
	case yaml.MappingNode:
		result.kind = mapping
		return result, r.mapping(result, n, depth)
	case yaml.SequenceNode:
		result.kind = list
		for _, item := range n.Content {
			value, err := r.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			result.items = append(result.items, value)
		}
	default:
		r.scalar(result, n)
	}
	return result, nil
}

// jsonNumber matches the numbers that all versions of YAML read alike. Others (0x10, 012,
// 1_000, .inf) stay strings.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (r *reader) scalar(result *node, n *yaml.Node) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle
	unquoted := n.Style&quoted == 0
	result.kind, result.text, result.plain = str, n.Value, unquoted && !r.json
	switch {
	case !unquoted:
	case n.Tag == "!!null":
		result.kind = null
	case n.Tag == "!!bool":
		result.kind, result.text = boolean, strings.ToLower(n.Value)
	case jsonNumber.MatchString(n.Value):
		result.kind = number
	}
}

// mapping reads the entries of a mapping. Own keys override merged ones; of
// several merge sources the first wins.
func (r *reader) mapping(result *node, n *yaml.Node, depth int) error {
	var merged []field
	own := map[string]bool{}
	for pair := range slices.Chunk(n.Content, 2) {
		key, value := pair[0], pair[len(pair)-1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return r.fail(start(pair[0]), "a list or mapping as a key; keys are strings")
		}
		v, err := r.value(value, depth+1)
		if err != nil {
			return err
		}
		if key.Tag != "!!merge" {
			own[key.Value] = true
			result.fields = append(result.fields, field{start(pair[0]), key.Value, v})
			continue
		}
		sources := []*node{v}
		if v.kind == list {
			sources = v.items
		}
		for _, source := range sources {
			if source.kind != mapping {
				return r.fail(source.position, "the merge key << takes a mapping or a list of mappings, found %s", source.found())
			}
			merged = append(merged, source.fields...)
		}
	}
	for _, f := range merged {
		if !own[f.key] {
			own[f.key] = true
			result.fields = append(result.fields, f)
		}
	}
	return nil
}
