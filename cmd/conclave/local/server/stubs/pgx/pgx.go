// Package pgx stands in for github.com/jackc/pgx/v5, which the Temporal server uses for PostgreSQL. The
// embedded server keeps its state in SQLite, so ParseConfig fails.
package pgx

import "errors"

var errUnavailable = errors.New("PostgreSQL is not available in the embedded server: use a Temporal server of your own")

// ConnConfig cannot be created.
type ConnConfig struct{}

// ParseConfig returns an error.
func ParseConfig(string) (*ConnConfig, error) { return nil, errUnavailable }

// Conn cannot be created.
type Conn struct{}

// TypeMap returns an empty map.
func (*Conn) TypeMap() *TypeMap { return &TypeMap{} }

// TypeMap maps Go types to those of PostgreSQL.
type TypeMap struct{}

// RegisterDefaultPgType does nothing.
func (*TypeMap) RegisterDefaultPgType(any, string) {}
