package massgen

import (
	"cmp"
	"errors"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v4"

	"conclave/engine/config"
)

// maxRemovals bounds the rounds of removeRefused; each removes something.
const maxRemovals = 20

// removeRefused removes the optional values that conclave refuses, with a note of the reason,
// and returns the problems that are left.
func (im *importer) removeRefused(name string) error {
	for range maxRemovals {
		pruneEmpty(im.team)
		data, err := im.writeTeam()
		if err != nil {
			return err
		}
		_, err = config.Parse(name, data, config.Local)
		problems, _ := errors.AsType[config.Problems](err)
		removed := false
		for _, p := range problems {
			reason := "not carried over: " + p.Message
			if p.Unknown {
				reason = noCounterpart
			}
			removed = im.removeValue(p.Key, reason) || removed
		}
		if !removed {
			return err
		}
	}
	return errors.New("the translation cannot be made valid; report the file")
}

// required matches the keys that every agent needs.
var required = regexp.MustCompile(`^agents\[\d+\](\.id|\.backend(\.(type|model))?)?$|^agents$|^$`)

// serverPart matches the keys that every MCP server needs; if one is removed, so is the server.
var serverPart = regexp.MustCompile(`^(agents\[\d+\]\.mcp_servers\[\d+\])(\.(name|command|url|args\[\d+\]))?$`)

// removeValue marks the value of a key for removal and notes the reason. It reports whether there
// was a value to remove.
func (im *importer) removeValue(key, reason string) bool {
	if m := serverPart.FindStringSubmatch(key); m != nil {
		key = m[1]
	}
	n, found := config.Find(im.team, key)
	if n.Kind == 0 || required.MatchString(found) {
		return false
	}
	path := cmp.Or(im.paths[n], found)
	im.notes.removeKey(path)
	im.notes.addNote(path, n.Line, keysBelow(n, ""), "%s", reason)
	*n = yaml.Node{} // pruneEmpty removes it
	return true
}

func pruneEmpty(n *yaml.Node) {
	var kept []*yaml.Node
	for _, e := range config.Entries(n) {
		pruneEmpty(e.Value)
		empty := e.Value.Kind != yaml.ScalarNode && len(e.Value.Content) == 0
		if !empty || e.Value.Kind != 0 && (e.Key.Value == "agents" || e.Key.Value == "backend") {
			kept = append(kept, e.Key, e.Value)
		}
	}
	if n.Kind == yaml.SequenceNode {
		kept = slices.DeleteFunc(n.Content, func(item *yaml.Node) bool { return item.Kind == 0 })
		for _, item := range kept {
			pruneEmpty(item)
		}
	}
	n.Content = kept
}
