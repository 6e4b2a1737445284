package llm

import "time"

// Kind says why a model call failed. Its values are stable: they are the error
// types that histories, artifacts and alerts show.
type Kind string

// The kinds of model errors.
const (
	AuthFailed     Kind = "AuthFailed"     // the key or the account is refused
	BadRequest     Kind = "BadRequest"     // the request is refused as it is: unknown model, parameter, address
	ContextTooLong Kind = "ContextTooLong" // the conversation is longer than the model takes
	RateLimited    Kind = "RateLimited"    // too many requests or tokens for now
	Overloaded     Kind = "Overloaded"     // the server cannot serve at the moment
	Network        Kind = "Network"        // no complete response arrived
	BadReply       Kind = "BadReply"       // a response arrived that is no usable reply, such as one cut off
	ContentPolicy  Kind = "ContentPolicy"  // the provider or the model declines the content
)

// Error is a failed model call, classified once, where the provider's answer is
// at hand. Message is for people: it says which model at which host, what went
// wrong and what helps, and never contains a key.
type Error struct {
	Kind       Kind
	Status     int           // HTTP status, 0 if none arrived
	RetryAfter time.Duration // how long the server asked to wait, 0 if it did not say
	Window     int           // tokens that the model takes, where the server said so of a ContextTooLong; else 0
	Cut        bool          // of a BadReply: the reply beside the error is good as far as it goes, to the limit of its tokens
	Message    string
	Err        error // the cause, or nil
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later. A bad reply is
// retryable because a model draws anew.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case RateLimited, Overloaded, Network, BadReply:
		return true
	default:
		return false
	}
}
