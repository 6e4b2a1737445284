package massgen

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Limits of a document with its aliases expanded.
const (
	maxNodes = 20_000
	maxDepth = 50
)

// entry is one key of a mapping with its value.
type entry struct {
	key   string
	path  string // path of the key in the document: agents[0].backend.model
	line  int
	value *yaml.Node
}

// read parses a document into nodes without aliases, merge keys, anchors and comments.
func read(data []byte) (*yaml.Node, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the file is empty")
	}
	var document yaml.Node
	if err := yaml.Load(data, &document); err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	root := &document
	if root.Kind == yaml.DocumentNode && len(root.Content) > 0 {
		root = root.Content[0]
	}
	count := 0
	plain, err := expand(root, 0, &count)
	if err == nil && plain.Kind != yaml.MappingNode {
		err = errors.New("a team configuration is a mapping with the key agents or agent")
	}
	return plain, err
}

// expand copies a node with its aliases and merge keys expanded.
func expand(n *yaml.Node, depth int, count *int) (*yaml.Node, error) {
	if *count++; *count > maxNodes || depth > maxDepth {
		return nil, fmt.Errorf("line %d: more than %d values, or nested more than %d levels deep; a configuration is smaller", n.Line, maxNodes, maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		return expand(n.Alias, depth+1, count)
	}
	c := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value, Line: n.Line, Column: n.Column, Style: n.Style}
	if c.Kind != yaml.ScalarNode {
		c.Style = 0
	} else if c.Style == 0 {
		normalize(c)
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.Tag == "!!merge" {
			if err := merge(c, n.Content[i+1], n, depth, count); err != nil {
				return nil, err
			}
			continue
		}
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Tag == "!!merge" {
			continue
		}
		copied, err := expand(child, depth+1, count)
		if err != nil {
			return nil, err
		}
		c.Content = append(c.Content, copied)
	}
	return c, nil
}

// merge adds the entries of a merge key that the mapping does not set itself.
func merge(into, source, mapping *yaml.Node, depth int, count *int) error {
	expanded, err := expand(source, depth+1, count)
	if err != nil {
		return err
	}
	sources := []*yaml.Node{expanded}
	if expanded.Kind == yaml.SequenceNode {
		sources = expanded.Content
	}
	for _, s := range sources {
		for _, e := range entries(s, "") {
			if get(mapping, e.key) == nil && get(into, e.key) == nil {
				set(into, e.key, e.value)
			}
		}
	}
	return nil
}

// normalize rewrites the booleans of YAML 1.1, which MassGen reads, in the notation of
// YAML 1.2.
func normalize(n *yaml.Node) {
	switch strings.ToLower(n.Value) {
	case "yes", "on", "true":
		n.Value, n.Tag = "true", "!!bool"
	case "no", "off", "false":
		n.Value, n.Tag = "false", "!!bool"
	}
}

// entries returns the keys of a mapping in order; path leads to the mapping.
func entries(n *yaml.Node, path string) []entry {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var list []entry
	for pair := range slices.Chunk(n.Content, 2) {
		list = append(list, entry{pair[0].Value, join(path, pair[0].Value), pair[0].Line, pair[1]})
	}
	return list
}

// get returns the value of a key, or nil.
func get(n *yaml.Node, key string) *yaml.Node {
	for _, e := range entries(n, "") {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// set sets a key of a mapping, replacing an earlier value.
func set(n *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i+1] = value
			return
		}
	}
	n.Content = append(n.Content, str(key), value)
}

// remove removes a key of a mapping.
func remove(n *yaml.Node, key string) {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}

// section returns the mapping under a key, which it adds if it is missing.
func section(n *yaml.Node, key string) *yaml.Node {
	s := get(n, key)
	if s == nil || s.Kind != yaml.MappingNode {
		s = mapping()
		set(n, key, s)
	}
	return s
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func nth(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func mapping() *yaml.Node  { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }
func sequence() *yaml.Node { return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"} }

func str(value string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(value)
	return n
}

// strAt returns a string that stands for a value of the document.
func strAt(value string, source *yaml.Node) *yaml.Node {
	n := str(value)
	n.Line = source.Line
	return n
}

// arrange moves keys of a mapping to its beginning, in this order.
func arrange(n *yaml.Node, keys ...string) {
	var first, rest []*yaml.Node
	for _, key := range keys {
		if value := get(n, key); value != nil {
			first = append(first, str(key), value)
		}
	}
	for _, e := range entries(n, "") {
		if !slices.Contains(keys, e.key) {
			rest = append(rest, str(e.key), e.value)
		}
	}
	n.Content = append(first, rest...)
}

func boolean(value bool) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(value)}
}

// text returns the value of a scalar, "" for null and for other nodes.
func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

// truth returns whether a scalar is true, and whether it is a boolean.
func truth(n *yaml.Node) (value, ok bool) {
	return text(n) == "true", n != nil && n.Tag == "!!bool"
}

// isOff reports whether a value switches its key off: false, null or empty.
func isOff(n *yaml.Node) bool {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Tag == "!!null" || n.Value == "false" && n.Tag == "!!bool" || n.Value == ""
	case yaml.MappingNode, yaml.SequenceNode:
		return len(n.Content) == 0
	}
	return false
}

// texts returns the scalars of a list, or a single scalar as a list. A mapping has none.
func texts(n *yaml.Node) []string {
	if n == nil || n.Kind == yaml.MappingNode {
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		if t := text(n); t != "" {
			return []string{t}
		}
		return nil
	}
	var list []string
	for _, item := range n.Content {
		list = append(list, text(item))
	}
	return list
}

// listOf returns a sequence of strings.
func listOf(values []string) *yaml.Node {
	list := sequence()
	list.Style = yaml.FlowStyle
	for _, v := range values {
		list.Content = append(list.Content, str(v))
	}
	return list
}

// below returns the distinct paths of the keys in a value, relative to it and without
// positions in lists.
func below(n *yaml.Node) []string {
	var names []string
	var visit func(n *yaml.Node, path string)
	visit = func(n *yaml.Node, path string) {
		for _, e := range entries(n, path) {
			if !slices.Contains(names, e.path) {
				names = append(names, e.path)
			}
			visit(e.value, e.path)
		}
		if n.Kind == yaml.SequenceNode {
			for _, item := range n.Content {
				visit(item, path)
			}
		}
	}
	visit(n, "")
	return names
}
