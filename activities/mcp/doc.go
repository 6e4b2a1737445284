// Package mcp gives an agent's step the tools of MCP servers: programs on standard
// input and output, or addresses that speak streamable HTTP. It is built on the
// official Go SDK. docs/mcp.md describes it for operators.
//
// A server is the operator's own program and runs as the worker's user, outside
// the sandbox of the agents' shell. Its output is untrusted: messages, lists,
// results and images are bounded and checked, and flooding ends the connection.
//
// Failures of a server are results for the model; only faults of the machinery and
// the end of the context are errors. A call is never sent twice: one that may have
// been carried out when the connection broke is reported as such. A call that
// exceeds its deadline leaves the connection open. Servers get no roots, no
// sampling and no elicitation.
//
// Close leaves no process behind. On Linux a process escapes only if it took its
// own session, cleared its environment and lost its parents, all before Close.
//
// Start with Open in client.go. link.go is a server and its successive
// connections, session.go one connection, stdio.go and http.go the two
// transports, process.go the program, tool.go a tool as models see it, and
// result.go its results.
package mcp
