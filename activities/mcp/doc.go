// Package mcp gives an agent's step the tools of MCP servers, which are programs on standard input
// and output, or addresses that speak streamable HTTP. It is built on the official Go SDK.
// docs/mcp.md describes it for operators.
//
// A server is chosen by the operator and runs as the worker's user, outside the sandbox of the
// agents' shell. Its output is untrusted: messages, lists, results and images are bounded and
// checked, and flooding ends the connection.
//
// The failures of a server are results for the model; errors are reserved for faults of the worker
// and the end of the context. A call is never sent twice: if the connection broke when it may
// already have run, the result says so. A call that exceeds its deadline leaves the connection
// open. Programs are offered the workspace as a root, and no server sampling or elicitation.
//
// Close leaves no process behind. On Linux a process escapes only if, before Close, it started its
// own session, cleared its environment and lost its parents.
//
// Start with Open in pool.go, which also has the servers that steps share. link.go is a server and
// its successive connections, session.go one connection, stdio.go the two transports, process.go the
// program, tool.go a tool as models see it, and result.go its results.
package mcp
