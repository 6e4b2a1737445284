// Package serve implements the commands that run until they are stopped:
//
//   - serve and mcp are the servers for programs. The HTTP server (Start in command.go) serves models
//     (package chat), MCP (package mcp) and pages behind one access.Gate; teams.go chooses the teams
//     that it offers, key.go has `serve key`.
//   - dev (dev.go) serves the embedded stack of a data directory, with the same HTTP server. No other
//     package links the embedded servers; they run in the process of a hidden command.
//   - worker (worker.go) runs a worker on a cluster or a data directory.
package serve
