// Package kafka stands in for github.com/segmentio/kafka-go, through which the S3 server can announce events.
// The embedded store announces none, so every write fails.
package kafka

import (
	"context"
	"errors"
	"time"
)

var errUnavailable = errors.New("kafka is not available in the embedded store")

// Message is one event.
type Message struct{ Key, Value []byte }

// LeastBytes selects a partition.
type LeastBytes struct{}

// WriterConfig configures a Writer.
type WriterConfig struct {
	Brokers      []string
	Topic        string
	Balancer     *LeastBytes
	BatchTimeout time.Duration
}

// Writer sends messages.
type Writer struct{}

// NewWriter returns a writer that fails.
func NewWriter(WriterConfig) *Writer { return &Writer{} }

// WriteMessages returns an error.
func (*Writer) WriteMessages(context.Context, ...Message) error { return errUnavailable }

// Close does nothing.
func (*Writer) Close() error { return nil }
