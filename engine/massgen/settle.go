package massgen

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"conclave/engine/config"
)

// maxRemovals bounds the rounds of settle; each removes something.
const maxRemovals = 20

// settle removes the optional values that conclave refuses, with a note of the reason,
// and returns the problems that are left.
func (im *importer) settle(name string) error {
	im.prune(im.team)
	for range maxRemovals {
		data, err := im.write()
		if err != nil {
			return err
		}
		_, err = config.Parse(name, data, config.Local)
		problems, ok := errors.AsType[config.Problems](err)
		if !ok {
			return err
		}
		removed := false
		for _, p := range problems {
			reason := "not carried over: " + p.Message
			if p.Unknown {
				reason = noCounterpart
			}
			removed = im.remove(p.Key, reason) || removed
		}
		if !removed {
			return err
		}
		im.prune(im.team)
	}
	return errors.New("the translation cannot be made valid; report the file")
}

// required matches the keys that every agent needs.
var required = regexp.MustCompile(`^agents\[\d+\](\.id|\.backend(\.(type|model))?)?$|^agents$`)

// serverPart matches the keys that every MCP server needs; if one is removed, so is the
// server.
var serverPart = regexp.MustCompile(`^(agents\[\d+\]\.mcp_servers\[\d+\])(\.(name|command|url|args\[\d+\]))?$`)

// remove marks the value of a key for removal and notes the reason. It reports whether there
// was a value to remove.
func (im *importer) remove(key, reason string) bool {
	if m := serverPart.FindStringSubmatch(key); m != nil {
		key = m[1]
	}
	n, found := im.find(key)
	if n == nil || n.Kind == 0 || required.MatchString(found) || found == "" {
		return false
	}
	path := im.paths[n]
	if path == "" {
		path = found
	}
	im.notes.forget(path)
	im.notes.add(path, n.Line, below(n), "%s", reason)
	*n = yaml.Node{} // prune removes it
	return true
}

// segment matches one step of a key: a name, a quoted name, or a position.
var segment = regexp.MustCompile(`^\.?("(?:[^"\\]|\\.)*"|[^.\["]+)|^\[(\d+)\]`)

// find returns the value at a key of the team with its key, or the innermost existing
// value that encloses it.
func (im *importer) find(key string) (*yaml.Node, string) {
	n, at := im.team, 0
	for at < len(key) {
		m := segment.FindStringSubmatch(key[at:])
		if m == nil {
			break
		}
		var inner *yaml.Node
		if m[2] != "" {
			if i, err := strconv.Atoi(m[2]); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
				inner = n.Content[i]
			}
		} else {
			name := m[1]
			if unquoted, err := strconv.Unquote(name); err == nil {
				name = unquoted
			}
			inner = get(n, name)
		}
		if inner == nil {
			break
		}
		n, at = inner, at+len(m[0])
	}
	return n, strings.TrimPrefix(key[:at], ".")
}

// prune removes marked values, and sections that are empty.
func (im *importer) prune(n *yaml.Node) {
	switch n.Kind {
	case yaml.SequenceNode:
		n.Content = slices.DeleteFunc(n.Content, func(item *yaml.Node) bool { return item.Kind == 0 })
		for _, item := range n.Content {
			im.prune(item)
		}
	case yaml.MappingNode:
		kept := n.Content[:0:0]
		for _, e := range entries(n, "") {
			im.prune(e.value)
			empty := (e.value.Kind == yaml.MappingNode || e.value.Kind == yaml.SequenceNode) && len(e.value.Content) == 0
			if e.value.Kind == 0 || empty && e.key != "agents" && e.key != "backend" {
				continue
			}
			kept = append(kept, str(e.key), e.value)
		}
		n.Content = kept
	}
}
