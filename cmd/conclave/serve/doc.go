// Package serve implements `conclave serve` and `conclave mcp`, the servers for programs. Its HTTP
// server, which `conclave dev` also runs, serves models (package chat), MCP (package mcpserver) and
// pages behind one access.Gate. Start with Start in server.go.
package serve
