// Package pgconn has the error type that the server looks for.
package pgconn

// PgError is never returned.
type PgError struct{ Code, Message string }

// Error returns the message.
func (e *PgError) Error() string { return e.Message }
