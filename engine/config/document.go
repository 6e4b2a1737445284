package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"conclave/engine/llm"
)

// Limits of a document. A team of 26 agents needs a few hundred values; an alias
// counts as often as it is used.
const (
	maxBytes  = 1 << 20
	maxDepth  = 50
	maxValues = 10_000
)

// reader reads a document and expands its aliases and merge keys.
type reader struct {
	file   string
	values int
}

// ReadDocument reads one YAML or JSON document into nodes without aliases and merge keys. Every
// node has its position, and an empty document is null. Errors are of type Problems.
func ReadDocument(file string, data []byte) (*yaml.Node, error) {
	r := reader{file: file}
	if len(data) > maxBytes {
		return nil, r.failAt(&yaml.Node{}, "%d bytes are too many for a configuration, at most %d are accepted", len(data), maxBytes)
	}
	if !utf8.Valid(data) {
		return nil, r.failAt(nodeAt(data, invalidUTF8(data)), "not UTF-8 text; save the file in UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	root, err := r.parseDocument(data)
	if err != nil {
		return nil, err
	}
	return r.expandNode(root, 1)
}

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

// readJSON is ReadDocument for texts that must be JSON.
func readJSON(file string, data []byte) (*yaml.Node, error) {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		offset := len(data)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			offset = max(int(syntax.Offset)-1, 0)
		}
		r := reader{file: file}
		return nil, r.failAt(nodeAt(data, offset), "not valid JSON: %v", err)
	}
	return ReadDocument(file, data)
}

func (r *reader) failAt(at *yaml.Node, format string, args ...any) error {
	return Problems{{File: r.file, Line: max(at.Line, 1), Column: max(at.Column, 1), Message: fmt.Sprintf(format, args...)}}
}

// parseDocument returns the nodes of a document as they are written.
func (r *reader) parseDocument(data []byte) (*yaml.Node, error) {
	if json.Valid(data) {
		return parseJSON(data), nil
	}
	isControl := func(c rune) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\r' }
	if at := bytes.IndexFunc(data, isControl); at >= 0 { // the library does not tell where
		return nil, r.failAt(nodeAt(data, at), "a control character, which YAML does not allow; remove it")
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithUniqueKeys(false))
	if err != nil {
		return nil, r.failAt(&yaml.Node{}, "reading YAML: %v", err)
	}
	var document, second yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1, Column: 1}, nil
	} else if err != nil {
		return nil, r.explainError(data, err)
	}
	if err := loader.Load(&second); err == nil {
		return nil, r.failAt(&second, "a second YAML document; a configuration is one document")
	} else if !errors.Is(err, io.EOF) {
		return nil, r.explainError(data, err)
	}
	if document.Kind == yaml.DocumentNode && len(document.Content) > 0 {
		return document.Content[0], nil
	}
	return &document, nil
}

var tabIndent = regexp.MustCompile(`^ *\t`)

// explainError returns the library's error at its position, with a remedy for common mistakes.
func (r *reader) explainError(data []byte, err error) error {
	load, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return r.failAt(&yaml.Node{}, "not valid YAML: %v", err)
	}
	at := &yaml.Node{Line: load.Mark.Line, Column: load.Mark.Column}
	message, remedy := load.Message, ""
	lines := bytes.Split(data, []byte("\n"))
	switch {
	case strings.HasPrefix(message, "unknown anchor"): // its name could be a secret
		message, remedy = "an alias (*) of an anchor that does not exist", "; a string that begins with * needs quotes"
	case strings.HasPrefix(message, "mapping values are not allowed"):
		remedy = "; a value that contains \": \" needs quotes"
	case at.Line > 0 && at.Line <= len(lines) && tabIndent.Match(lines[at.Line-1]):
		remedy = "; indent with spaces, not tabs"
	}
	if load.ContextMsg != "" {
		message += " " + load.ContextMsg
		if load.ContextMark.Line > 0 && load.ContextMark.Line != at.Line {
			message += " that begins on line " + strconv.Itoa(load.ContextMark.Line)
		}
	}
	language := "YAML"
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		language = "JSON, nor YAML"
	}
	return r.failAt(at, "not valid %s: %s%s", language, message, remedy)
}

// expandNode copies a node with its aliases and merge keys expanded.
func (r *reader) expandNode(n *yaml.Node, depth int) (*yaml.Node, error) {
	r.values++
	switch {
	case depth > maxDepth:
		return nil, r.failAt(n, "nested more than %d levels deep", maxDepth)
	case r.values > maxValues:
		return nil, r.failAt(n, "more than %d values, with aliases expanded; a configuration is smaller", maxValues)
	case n.Kind == yaml.AliasNode:
		target, err := r.expandNode(n.Alias, depth+1)
		if err == nil {
			target.Line, target.Column = n.Line, n.Column
		}
		return target, err
	case n.Style&yaml.TaggedStyle != 0 && !(n.Kind == yaml.ScalarNode && n.Tag == "!!str"):
		return nil, r.failAt(n, "the YAML tag %s is not supported; remove it", quoteSafely(n.Tag))
	}
	copied := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value, Line: n.Line, Column: n.Column}
	if n.Kind == yaml.MappingNode {
		return copied, r.expandMapping(copied, n, depth)
	}
	for _, item := range n.Content {
		value, err := r.expandNode(item, depth+1)
		if err != nil {
			return nil, err
		}
		copied.Content = append(copied.Content, value)
	}
	return copied, nil
}

// expandMapping copies the entries of a mapping. Its own keys override merged ones; of several
// merge sources the first wins.
func (r *reader) expandMapping(into, n *yaml.Node, depth int) error {
	set := map[string]bool{}
	for _, e := range Entries(n) {
		if e.Key.Kind == yaml.AliasNode {
			*e.Key = yaml.Node{Kind: e.Key.Alias.Kind, Value: e.Key.Alias.Value, Line: e.Key.Line, Column: e.Key.Column}
		}
		if e.Key.Kind != yaml.ScalarNode {
			return r.failAt(e.Key, "a list or mapping as a key; keys are strings")
		}
		set[e.Key.Value] = true
	}
	for _, e := range Entries(n) {
		value, err := r.expandNode(e.Value, depth+1)
		if err != nil {
			return err
		}
		if e.Key.Tag != "!!merge" {
			into.Content = append(into.Content, e.Key, value)
			continue
		}
		sources := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			sources = value.Content
		}
		for _, source := range sources {
			if source.Kind != yaml.MappingNode {
				return r.failAt(source, "the merge key << takes a mapping or a list of mappings, found %s", describeValue(source))
			}
			for _, merged := range Entries(source) {
				if !set[merged.Key.Value] {
					set[merged.Key.Value] = true
					into.Content = append(into.Content, merged.Key, merged.Value)
				}
			}
		}
	}
	return nil
}

// cursor converts growing offsets of a text to positions.
type cursor struct {
	data                 []byte
	offset, line, column int // the last offset, with its line and column counted from 0
}

// nodeAt returns a node with the position of an offset, which is at least the one before. Columns
// count characters.
func (c *cursor) nodeAt(offset int) *yaml.Node {
	passed := c.data[c.offset:offset]
	if last := bytes.LastIndexByte(passed, '\n'); last >= 0 {
		c.line, c.column = c.line+bytes.Count(passed, []byte("\n")), 0
		passed = passed[last+1:]
	}
	c.offset, c.column = offset, c.column+utf8.RuneCount(passed)
	return &yaml.Node{Line: c.line + 1, Column: c.column + 1}
}

func nodeAt(data []byte, offset int) *yaml.Node {
	c := cursor{data: data}
	return c.nodeAt(offset)
}

// jsonParser builds nodes from the tokens of a JSON document: YAML refuses some of its escapes.
type jsonParser struct {
	cursor
	tokens *json.Decoder
}

// parseJSON returns the nodes of a valid JSON document. Scalars without quotes have the flow style,
// by which isPlain tells them from those of YAML.
func parseJSON(data []byte) *yaml.Node {
	p := jsonParser{cursor{data: data}, json.NewDecoder(bytes.NewReader(data))}
	p.tokens.UseNumber()
	return p.value()
}

func (p *jsonParser) value() *yaml.Node {
	offset := int(p.tokens.InputOffset())
	n := p.nodeAt(len(p.data) - len(bytes.TrimLeft(p.data[offset:], " \t\r\n,:")))
	n.Kind, n.Style = yaml.ScalarNode, yaml.FlowStyle
	token, _ := p.tokens.Token() // the document is valid
	switch token := token.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		if token == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for p.tokens.More() {
			n.Content = append(n.Content, p.value())
		}
		_, _ = p.tokens.Token() // the end of the collection
	case string:
		n.Style, n.Tag, n.Value = yaml.DoubleQuotedStyle, "!!str", token
	case json.Number:
		n.Tag, n.Value = "!!float", token.String()
	case bool:
		n.Tag, n.Value = "!!bool", map[bool]string{true: "true", false: "false"}[token]
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n
}

func (d *Decoder) decodeDataSchema(n *yaml.Node, key string) *llm.DataSchema {
	s, err := llm.ReadDataSchema([]byte(encodeNode(n)))
	if err != nil {
		d.reportAt(n, key, "%s", err.Error())
	}
	return s
}

// encodeNode returns a value as JSON with its keys in their order, and its numbers as they are written.
func encodeNode(n *yaml.Node) string {
	var parts []string
	switch kindOf(n) {
	case mapping:
		for _, e := range Entries(n) {
			name, _ := json.Marshal(e.Key.Value) // a string always has a JSON form
			parts = append(parts, string(name)+":"+encodeNode(e.Value))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case list:
		for _, item := range n.Content {
			parts = append(parts, encodeNode(item))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case str:
		quoted, _ := json.Marshal(n.Value)
		return string(quoted)
	case null:
		return "null"
	}
	return strings.ToLower(n.Value)
}
