// Package mcp gives an agent's step the tools of MCP servers: programs on
// standard input and output, or addresses that speak streamable HTTP. It is
// built on the official Go SDK.
//
// A server is the operator's own program and runs as the worker's user, outside
// the sandbox of the agents' shell. Its environment is the configured one plus
// PATH, a HOME of the step and a mark by which its processes are found again; its
// working directory is the workspace. Its output is untrusted: messages, lists,
// results and images are bounded and checked, its standard error is shown without
// control characters, and flooding costs the server its connection.
//
// Failures of a server are results for the model, which can act on them; only
// faults of the machinery and the end of the context are errors. A call is never
// sent twice: one that may have been carried out when the connection broke is
// reported as such. A call that exceeds its deadline leaves the connection open.
// A broken connection is made again, a few times in a step.
//
// A result too long for the model is saved, up to a bound, in the workspace's
// directory tool-results under the tool's name and a number; the model sees its
// beginning and end. The server checks its arguments itself: before a call only
// null is removed where it means absent.
//
// Close leaves no process behind. On Linux it ends the processes of the server's
// session, those that carry its mark, and those that descend from it; a process
// escapes only if it took its own session, cleared its environment and lost its
// parents, all before Close. On other systems the process group is ended (on
// Windows, the process tree). If the worker is killed, Linux kills the server;
// its children see the end of their standard input, and the HOMEs stay.
//
// Servers get no roots, no sampling and no elicitation.
//
// Start with Open in client.go. link.go is a server and its successive
// connections, session.go one connection, stdio.go and http.go the two
// transports, process.go the program, tool.go a tool as models see it, and
// result.go its results.
package mcp
