// Package gateway runs sessions for programs. It serves package chat, which speaks OpenAI's
// API, and package mcp, which speaks the Model Context Protocol.
//
// A Desk has no state that another process needs. The memo of a caller's session has the
// caller's name and the hash of the request, so any Desk can join a repeated request to
// it. The store has, under callers/, the requests without a key that wait for their reply
// (retry.go) and the sessions that count against the budget of a key (budget.go).
//
// start.go starts and finds sessions, watch.go follows them through outages, and calls.go passes the results
// of callers' tools to them. Start with Desk.Start in start.go, then Desk.Follow in watch.go.
package gateway
