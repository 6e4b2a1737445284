package llm

import "time"

// Kind is the reason why a model call failed. Its values are stable: histories, artifacts
// and alerts show them as error types.
type Kind string

// The kinds of model errors.
const (
	AuthFailed     Kind = "AuthFailed"     // the key or the account is refused
	BadRequest     Kind = "BadRequest"     // the request is invalid: unknown model, parameter, address
	ContextTooLong Kind = "ContextTooLong" // the conversation exceeds the model's context window
	RateLimited    Kind = "RateLimited"    // too many requests or tokens for now
	Overloaded     Kind = "Overloaded"     // the server cannot serve at the moment
	Network        Kind = "Network"        // no complete response arrived
	BadReply       Kind = "BadReply"       // the response is unusable, such as one cut off
	ContentPolicy  Kind = "ContentPolicy"  // the provider or the model declines the content
)

// Error is a failed model call, classified by the adapter. Message names the model, the
// host, the fault and the remedy, and never contains a key.
type Error struct {
	Kind       Kind
	Status     int           // HTTP status, 0 if none arrived
	RetryAfter time.Duration // requested by the server; 0 if not
	Window     int           // context window in tokens, if the server names it for a ContextTooLong; else 0
	Cut        bool          // the reply beside a BadReply is usable, but cut at its token limit
	Overlong   bool          // the reply was broken off at Request.MaxReply; its beginning may be beside a BadReply, as with Cut
	Since      time.Time     // time when the server's replies ceased in an outage; zero if unknown
	Message    string
	Detail     string // the part of Message after the names of the model and the host
	Err        error  // the cause, or nil
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Outage reports whether the server is away. Waiting cures such an error, at no cost.
func (e *Error) Outage() bool { return e.Kind == Overloaded || e.Kind == Network }

// Retryable reports whether the same request may succeed later. Bad replies are
// retryable because models sample anew.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case RateLimited, Overloaded, Network, BadReply:
		return true
	default:
		return false
	}
}
