package worker

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// limit is how many requests or tokens one worker may use of a provider in a minute,
// spread evenly after an initial burst. A nil limit allows everything.
type limit struct {
	*rate.Limiter
	name string // for people
}

// burstFraction is the fraction of a minute's worth that may be used at once: 1/6.
const burstFraction = 6

func perMinute(provider string, n *int, unit string) *limit {
	if n == nil {
		return nil
	}
	return &limit{
		Limiter: rate.NewLimiter(rate.Limit(float64(*n)/time.Minute.Seconds()), max(1, *n/burstFraction)),
		name:    fmt.Sprintf("%d %s per minute at the provider %s", *n, unit, provider),
	}
}

// until returns the time until n units are available if nobody uses any.
func (l *limit) until(now time.Time, n int) time.Duration {
	if l == nil {
		return 0
	}
	missing := float64(n) - l.TokensAt(now)
	const rounding = 1e-6 // of the limiter's floating-point count
	if missing <= rounding {
		return 0
	}
	seconds := missing / float64(l.Limit())
	return time.Duration(min(math.Ceil(seconds*float64(time.Second)), math.MaxInt64/2))
}

// atMost returns the part of n that a call waits for: more than a burst is never
// available.
func (l *limit) atMost(n int) int {
	if l == nil {
		return 0
	}
	return min(n, l.Burst())
}

// longestDebt bounds how long other calls wait for the usage of one: a server that
// reports absurd counts must not block everybody for ever.
const longestDebt = 10 * time.Minute

// use takes n units, available or not: the next calls wait for them. A negative n
// gives units back.
func (l *limit) use(now time.Time, n int) {
	if l == nil {
		return
	}
	n = min(n, int(float64(l.Limit())*longestDebt.Seconds()))
	for ; n > l.Burst(); n -= l.Burst() {
		l.ReserveN(now, l.Burst())
	}
	l.ReserveN(now, n)
}

// limited is a model that waits for its turn at its provider.
type limited struct {
	model loop.Model
	queue *queue
}

// requestCount is the context key of the number of requests that a call has sent.
type requestCount struct{}

// Generate waits for its turn and then calls the model; Reply.Waited has the time
// of waiting. A call waits until its estimated input fits the limit, and its usage
// beyond that delays the next calls.
func (l limited) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	began, expected := time.Now(), inputTokens(req)
	if err := l.queue.enter(ctx, callerOf(ctx), expected); err != nil {
		return llm.Reply{}, err
	}
	waited := time.Since(began)
	var requests atomic.Int64
	reply, err := l.model.Generate(context.WithValue(ctx, requestCount{}, &requests), req)
	reply.Waited = waited
	l.queue.correct(max(0, int(requests.Load())-1), l.excess(ctx, expected, reply.Usage, err))
	return reply, err
}

// excess returns the tokens that a call used beyond the expected ones. It is 0 if the
// usage is unknown: the call was broken off, or the server does not count.
func (l limited) excess(ctx context.Context, expected int, u llm.Usage, err error) int {
	used := int(u.InputTokens + u.OutputTokens)
	if used == 0 && (err == nil || ctx.Err() != nil) {
		return 0
	}
	return used - l.queue.tokens.atMost(expected)
}

// inputTokens returns a low estimate of a request's tokens, so that no call waits for
// tokens that it does not use: text has three to four bytes a token.
func inputTokens(req llm.Request) int {
	const bytesPerToken = 4
	size := 0
	for _, m := range req.Messages {
		size += len(m.Content)
		for _, call := range m.ToolCalls {
			size += len(call.Arguments)
		}
	}
	for _, tool := range req.Tools {
		size += len(tool.Description) + len(tool.Parameters)
	}
	return 1 + size/bytesPerToken
}
