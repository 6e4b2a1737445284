package llm

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Usage is the consumption of model calls. Its JSON form is the "cost" object of the public
// contract. The zero value means no calls.
type Usage struct {
	InputTokens       int64 `json:"input_tokens"`
	CachedInputTokens int64 `json:"cached_input_tokens"`
	CacheWriteTokens  int64 `json:"cache_write_tokens,omitempty"` // the part of the input that was kept for later calls, at a price
	OutputTokens      int64 `json:"output_tokens"`
	ReasoningTokens   int64 `json:"reasoning_tokens"`

	// TotalUSD is nil when the price of any counted call is unknown.
	TotalUSD *float64 `json:"total_usd"`

	// KnownUSD is the cost of the calls with a known price if TotalUSD is nil, and otherwise 0.
	KnownUSD float64 `json:"known_usd,omitempty"`

	ModelCalls int64 `json:"model_calls"`

	// Repeated counts the requests whose replies were lost, because a worker, a pause or the end
	// of the session cut the call. They may have been paid for; most are made again.
	Repeated int64 `json:"model_calls_repeated"`

	// Rejections counts the calls whose replies were rejected.
	Rejections int64 `json:"rejections,omitempty"`
}

// AtLeastUSD returns the known cost of the calls.
func (u Usage) AtLeastUSD() float64 {
	if u.TotalUSD != nil {
		return *u.TotalUSD
	}
	return u.KnownUSD
}

// FormatUSD prints dollars with at least the given number of decimals, and with more where
// rounding would change the amount by over a hundredth.
func FormatUSD(amount float64, decimals int) string {
	unit := math.Pow10(decimals)
	for ; decimals < 12 && math.Abs(math.Round(amount*unit)/unit-amount) > math.Abs(amount)/100; decimals++ {
		unit *= 10
	}
	return fmt.Sprintf("$%.*f", decimals, amount)
}

// Add returns the sum of u and v; on overflow it saturates. TotalUSD is known only if both
// are; otherwise KnownUSD is the sum of the known parts. A usage without calls adds only its
// rejections and its lost requests.
func (u Usage) Add(v Usage) Usage {
	rejections, repeated := addCapped(u.Rejections, v.Rejections), addCapped(u.Repeated, v.Repeated)
	switch {
	case v.ModelCalls == 0:
		u.Rejections, u.Repeated = rejections, repeated
		return u
	case u.ModelCalls == 0:
		v.Rejections, v.Repeated = rejections, repeated
		return v
	}
	sum := Usage{
		InputTokens:       addCapped(u.InputTokens, v.InputTokens),
		CachedInputTokens: addCapped(u.CachedInputTokens, v.CachedInputTokens),
		CacheWriteTokens:  addCapped(u.CacheWriteTokens, v.CacheWriteTokens),
		OutputTokens:      addCapped(u.OutputTokens, v.OutputTokens),
		ReasoningTokens:   addCapped(u.ReasoningTokens, v.ReasoningTokens),
		ModelCalls:        addCapped(u.ModelCalls, v.ModelCalls),
		Rejections:        rejections,
		Repeated:          repeated,
	}
	usd := min(u.AtLeastUSD()+v.AtLeastUSD(), math.MaxFloat64) // JSON has no infinity
	if u.TotalUSD != nil && v.TotalUSD != nil {
		sum.TotalUSD = &usd
	} else {
		sum.KnownUSD = usd
	}
	return sum
}

// Since returns the usage by which u exceeds the earlier v. It is zero if there were no further calls.
func (u Usage) Since(v Usage) Usage {
	switch {
	case v.ModelCalls == 0:
		return u
	case u.ModelCalls <= v.ModelCalls:
		return Usage{Repeated: max(0, u.Repeated-v.Repeated)}
	}
	rest := Usage{
		InputTokens:       max(0, u.InputTokens-v.InputTokens),
		CachedInputTokens: max(0, u.CachedInputTokens-v.CachedInputTokens),
		CacheWriteTokens:  max(0, u.CacheWriteTokens-v.CacheWriteTokens),
		OutputTokens:      max(0, u.OutputTokens-v.OutputTokens),
		ReasoningTokens:   max(0, u.ReasoningTokens-v.ReasoningTokens),
		ModelCalls:        u.ModelCalls - v.ModelCalls,
		Rejections:        max(0, u.Rejections-v.Rejections),
		Repeated:          max(0, u.Repeated-v.Repeated),
	}
	usd := max(0, u.AtLeastUSD()-v.AtLeastUSD())
	if u.TotalUSD != nil {
		rest.TotalUSD = &usd
	} else {
		rest.KnownUSD = usd
	}
	return rest
}

func addCapped(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

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

type depthKey struct{}

// WithDepth returns a context for the model calls of a session that answers an agent of
// another team; depth is the number of teams above it. Without WithDepth it is 0.
func WithDepth(ctx context.Context, depth int) context.Context {
	return context.WithValue(ctx, depthKey{}, depth)
}

// Depth returns the depth of the session that a model call belongs to.
func Depth(ctx context.Context) int {
	depth, _ := ctx.Value(depthKey{}).(int)
	return depth
}

type saidKey struct{}

// WithSaid returns a context in which model calls pass the text received so far, including
// partial tool calls, to said, about once a second while the reply arrives.
func WithSaid(ctx context.Context, said func(text string)) context.Context {
	return context.WithValue(ctx, saidKey{}, said)
}

// Said returns the function given to WithSaid, or nil.
func Said(ctx context.Context) func(text string) {
	said, _ := ctx.Value(saidKey{}).(func(text string))
	return said
}
