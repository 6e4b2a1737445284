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

// limit is how much one worker may use of a provider in a minute. It comes
// evenly over the minute, after what may be used at once.
type limit struct {
	*rate.Limiter
	name string // for people
}

// atOnce is the part of a minute's worth that may be used at once.
const atOnce = 6

func perMinute(provider string, n *int, unit string) *limit {
	if n == nil {
		return nil
	}
	return &limit{
		Limiter: rate.NewLimiter(rate.Limit(float64(*n)/time.Minute.Seconds()), max(1, *n/atOnce)),
		name:    fmt.Sprintf("%d %s per minute at the provider %s", *n, unit, provider),
	}
}

// until is how long it takes until n units are there, without anybody using any.
// A nil limit is none.
func (l *limit) until(now time.Time, n int) time.Duration {
	if l == nil {
		return 0
	}
	missing := float64(n) - l.TokensAt(now)
	const rounding = 1e-6 // of what the limiter counts
	if missing <= rounding {
		return 0
	}
	seconds := missing / float64(l.Limit())
	return time.Duration(min(math.Ceil(seconds*float64(time.Second)), math.MaxInt64/2))
}

// most is the part of n that is waited for: more than what may be used at once is
// never there.
func (l *limit) most(n int) int {
	if l == nil {
		return 0
	}
	return min(n, l.Burst())
}

// longestDebt bounds for how long what one call has used is waited for: a server
// that counts nonsense would hold everybody up for ever.
const longestDebt = 10 * time.Minute

// use takes n units, whether they are there or not: whoever comes next waits for
// them. Less than 0 are given back.
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

// sent is the key of a call's count of the requests it has sent, in its context.
type sent struct{}

// Generate waits for its turn. How many tokens a call uses is known afterwards:
// it waits until its input fits, as far as that can be told, and what it used
// beyond that delays the next. Waiting is not the model's time.
func (l limited) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	began, expected := time.Now(), inputTokens(req)
	if err := l.queue.enter(ctx, expected); err != nil {
		return llm.Reply{}, err
	}
	waited := time.Since(began)
	var requests atomic.Int64
	reply, err := l.model.Generate(context.WithValue(ctx, sent{}, &requests), req)
	reply.Waited = waited
	l.queue.settle(max(0, int(requests.Load())-1), l.correction(ctx, expected, reply.Usage, err))
	return reply, err
}

// correction is what a call used beyond what was taken for it. Of one that was
// broken off, and at a server that does not count, nobody knows.
func (l limited) correction(ctx context.Context, expected int, u llm.Usage, err error) int {
	used := int(u.InputTokens + u.OutputTokens)
	if used == 0 && (err == nil || ctx.Err() != nil) {
		return 0
	}
	return used - l.queue.tokens.most(expected)
}

// inputTokens is a low guess at a request's tokens, so that nobody waits for
// what is not used: texts have three to four bytes a token.
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
