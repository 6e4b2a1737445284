// Package mcp offers the sessions of a desk to clients of the Model Context Protocol,
// such as coding agents, as a tool.
//
// ask_team waits for a time that every client permits and then returns the session's ID.
// session_result fetches the answer by that ID, so a client's time limit never loses a paid
// answer. The server keeps no state between calls.
//
// tools.go has the tools and the server, material.go the files and the resources, and lines.go the
// transport over standard input and output. Start with New in tools.go.
package mcp
