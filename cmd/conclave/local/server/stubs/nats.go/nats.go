// Package nats stands in for github.com/nats-io/nats.go, through which the S3
// server can announce events. The embedded store announces none, so Connect fails.
package nats

import "errors"

var errUnavailable = errors.New("nats is not available in the embedded store")

// Conn cannot be created.
type Conn struct{}

// Connect returns an error.
func Connect(string) (*Conn, error) { return nil, errUnavailable }

// Publish returns an error.
func (*Conn) Publish(string, []byte) error { return errUnavailable }

// Close does nothing.
func (*Conn) Close() {}
