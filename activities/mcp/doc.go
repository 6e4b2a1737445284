// Package mcp gives an agent's step the tools of MCP servers: programs on
// standard input and output, or addresses that speak streamable HTTP. It is
// built on the official Go SDK.
//
// A server is the operator's own program and runs as the worker's user, outside
// the sandbox of the agents' shell. Its environment is what the operator gave
// plus PATH, a HOME of the step and a mark by which its processes are found
// again; its working directory is the workspace. What it says is untrusted:
// messages, lists, results and pictures are bounded and checked, its standard
// error is shown without control characters, and a server that floods loses its
// connection, not the worker its memory.
//
// A failure of a server is told to the model, which can act on it; only faults
// of the machinery and the end of the context are errors. A call is never sent
// twice: one that may have been carried out when the connection broke is
// reported as such. A call that takes longer than its deadline leaves the
// connection as it is. Any other break makes a new connection, a few times in a
// step.
//
// A result longer than what is shown is kept whole, up to a bound, in the
// workspace's directory tool-results, under the tool's name and a number; the
// model is shown its beginning and end.
//
// Close leaves nothing behind. On Linux every process that a server started is
// ended: those of its session, those that carry its mark, and those that descend
// from it. What gets away is a process that took a session of its own, cleared
// its environment and lost its parents, all before Close. On other systems the
// process group is ended (on Windows, the tree that the system knows). If the
// worker itself is killed, Linux kills the server; what the server started sees
// the end of its standard input, and stays if it does not care; the HOMEs stay too.
//
// The package is no server, and offers servers nothing: no roots, no sampling,
// no questions to a person. It knows no sessions of agents and no teams.
//
// Start with Open in client.go; link.go is a server and its connections one
// after another, session.go one connection, stdio.go and http.go the two ways
// to connect, process.go the program, tool.go, name.go and schema.go what the
// model is offered, result.go what it is told.
package mcp
