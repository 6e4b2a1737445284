package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
)

// Prefix begins the name of every tool of an MCP server: mcp__<server>__<tool>.
const Prefix = "mcp__"

// maxName is how long a tool's name may be for model providers, in bytes.
const maxName = 64

// Is says whether a tool's name is one that this package gives.
func Is(name string) bool { return strings.HasPrefix(name, Prefix) }

// owner is the tool that a name stands for.
type owner struct{ server, tool string }

// names gives each tool one name, and never gives a name to another tool later:
// a model may still call by what an earlier list said.
type names struct {
	mu     sync.Mutex
	owners map[string]owner
}

// of is the name of a tool. The first to come has the plain name; a hash tells
// apart those whose names would be too long or the same.
func (n *names) of(o owner) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := Prefix + mapped(o.server) + "__" + mapped(o.tool)
	if holder, taken := n.owners[name]; len(name) > maxName || taken && holder != o {
		sum := sha256.Sum256([]byte(o.server + "\x00" + o.tool))
		tail := "_" + hex.EncodeToString(sum[:4])
		name = name[:min(len(name), maxName-len(tail))] + tail
	}
	n.owners[name] = o
	return name
}

// mapped replaces the characters that providers refuse in names.
func mapped(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}
