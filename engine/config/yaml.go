package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

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
	result.kind, result.text, result.plain = text, n.Value, n.Style&quoted == 0
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
