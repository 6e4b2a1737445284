// Package egress provides network access for a sandbox without a network: a proxy that connects
// commands only to the destinations on a list.
//
// A destination is an exact host and port (destination.go). The proxy (proxy.go) accepts only the
// HTTP method CONNECT. It parses the requested destination with the same parser as the list and
// compares the parsed values. It resolves names itself, checks each address (address.go), and dials
// the address that it has checked, because a second lookup could return another.
//
// Start with Serve in proxy.go.
package egress
