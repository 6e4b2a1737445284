package worker

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// longestWait bounds how long a model call waits for its turn inside a step.
// Beyond it the step gives up its slot and comes back.
const longestWait = time.Minute

// limits are what one worker may use of a provider. Turns come evenly over the
// minute, after what may be used at once.
type limits struct {
	requests, tokens *limit // nil for none
}

// limit is one of them. A server's own retries inside a call are not counted.
type limit struct {
	*rate.Limiter
	name string // for people
}

func newLimits(provider string, requests, tokens *int) *limits {
	if requests == nil && tokens == nil {
		return nil
	}
	return &limits{
		requests: perMinute(provider, requests, "requests"),
		tokens:   perMinute(provider, tokens, "tokens"),
	}
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

// take waits for the turn of n units. A nil limit is none.
func (l *limit) take(ctx context.Context, n int) error {
	if l == nil {
		return nil
	}
	turn := l.ReserveN(time.Now(), min(n, l.Burst()))
	wait := turn.Delay()
	if wait > longestWait {
		turn.Cancel()
		return &llm.Error{
			Kind: llm.RateLimited, RetryAfter: wait,
			Message: fmt.Sprintf("this worker's limit of %s is used up for %v; raise it in the worker configuration, or run more workers", l.name, wait.Round(time.Second)),
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		turn.Cancel()
		return fmt.Errorf("waiting for the turn of %s: %w", l.name, context.Cause(ctx))
	}
}

// owe takes n units that are used already; whoever comes next waits for them.
func (l *limit) owe(n int) {
	if l == nil {
		return
	}
	now, burst := time.Now(), l.Burst()
	for ; n > 0; n -= burst {
		l.ReserveN(now, min(n, burst))
	}
}

// limited is a model behind limits.
type limited struct {
	model  loop.Model
	limits *limits
}

// Generate waits for its turn. How many tokens a call uses is known afterwards:
// it waits until its input fits, as far as that can be told, and what it used
// beyond that delays the next.
func (l limited) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	if err := l.limits.requests.take(ctx, 1); err != nil {
		return llm.Reply{}, err
	}
	expected := inputTokens(req)
	if err := l.limits.tokens.take(ctx, expected); err != nil {
		return llm.Reply{}, err
	}
	reply, err := l.model.Generate(ctx, req)
	l.limits.tokens.settle(expected, reply.Usage)
	return reply, err
}

// settle corrects what was taken before the call by what the call used.
func (l *limit) settle(taken int, u llm.Usage) {
	if l != nil {
		l.owe(int(u.InputTokens+u.OutputTokens) - min(taken, l.Burst()))
	}
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
