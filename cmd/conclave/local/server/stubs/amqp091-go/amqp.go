// Package amqp091 stands in for github.com/rabbitmq/amqp091-go, through which the
// S3 server can announce events. The embedded store announces none, so Dial fails.
package amqp091

import (
	"errors"
	"time"
)

var errUnavailable = errors.New("rabbitmq is not available in the embedded store")

// Publishing is one event.
type Publishing struct {
	Timestamp   time.Time
	ContentType string
	Body        []byte
	MessageId   string
}

// Connection cannot be created.
type Connection struct{}

// Dial returns an error.
func Dial(string) (*Connection, error) { return nil, errUnavailable }

// Channel returns an error.
func (*Connection) Channel() (*Channel, error) { return nil, errUnavailable }

// Close does nothing.
func (*Connection) Close() error { return nil }

// Channel cannot be created.
type Channel struct{}

// Publish returns an error.
func (*Channel) Publish(_, _ string, _, _ bool, _ Publishing) error { return errUnavailable }

// Close does nothing.
func (*Channel) Close() error { return nil }
