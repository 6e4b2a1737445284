package tools

import (
	"slices"

	"conclave/engine/llm"
)

// Repeatable reports whether a call of a tool that may have run already does no
// harm if it runs again in a workspace restored to what it was before. The file
// tools and the shell are such: they read and change nothing else, and a command
// has no network. Of another tool, such as an MCP server's, that is not known,
// and so it is none.
func Repeatable(name string) bool {
	own, err := described()
	return err == nil && (name == RunCommand || slices.ContainsFunc(own, func(t llm.Tool) bool { return t.Name == name }))
}
