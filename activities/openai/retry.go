package openai

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"conclave/engine/llm"
)

// The retry policy of one Generate. Waiting longer is the caller's business: it
// can give up its slot and say why it waits.
const (
	maxAttempts = 7
	maxElapsed  = 60 * time.Second // no retry starts later than this
	firstWait   = time.Second      // doubled after every attempt
	longestWait = 20 * time.Second // of our own; a server may ask for more
	maxPaid     = 1                // retries of calls that broke off after the model had begun to speak: each costs

	// longestAsked bounds what a server may ask for: a limit may be lifted earlier,
	// and asking is free.
	longestAsked = time.Hour
)

// retrying calls until it succeeds, fails for good, or the policy is exhausted. The
// usage is that of all attempts.
func (c *Client) retrying(ctx context.Context, call func() (llm.Reply, error)) (llm.Reply, error) {
	start := time.Now()
	var spent llm.Usage
	for attempt := 1; ; attempt++ {
		reply, err := call()
		spent = spent.Add(reply.Usage)
		reply.Usage = spent
		var failed *llm.Error
		if !errors.As(err, &failed) || !transient(failed.Kind) || attempt == maxAttempts || spent.ModelCalls > maxPaid {
			return reply, err
		}
		wait, left := backoff(attempt), maxElapsed-time.Since(start)
		if max(wait, failed.RetryAfter) > left {
			return reply, err
		}
		wait = max(wait, spread(failed.RetryAfter, left))
		if err := c.sleep(ctx, wait, failed.Message); err != nil {
			return reply, fmt.Errorf("waiting to retry (%s): %w", failed.Message, err)
		}
	}
}

// transient are the kinds that waiting cures. A bad reply is retryable too, but
// paid for each time, so that is left to the caller.
func transient(k llm.Kind) bool {
	return k == llm.RateLimited || k == llm.Overloaded || k == llm.Network
}

// backoff is the wait after the given attempt, from 1: exponential, with up to
// a quarter taken off so that agents which failed together do not return together.
func backoff(attempt int) time.Duration {
	wait := min(firstWait<<(attempt-1), longestWait)
	return wait - rand.N(wait/4)
}

// spread is what a server asked to wait and up to an eighth more, as far as that
// much is left: it asks all the agents that were refused together for the same.
func spread(asked, left time.Duration) time.Duration {
	return asked + rand.N(min(asked/8, left-asked)+1)
}

// sleep waits, and says why and until when.
func (c *Client) sleep(ctx context.Context, d time.Duration, why string) error {
	if c.waiting != nil {
		defer c.waiting(ctx, fmt.Sprintf("%s; trying again at %s", why, time.Now().Add(d).UTC().Format(time.RFC3339)))()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// retryAfter reads how long a server asks to wait: milliseconds, seconds or a
// date. 0 means that it does not say, or nothing sensible. It is at most longestAsked.
func retryAfter(header http.Header, now time.Time) time.Duration {
	return min(asksToWait(header, now), longestAsked)
}

func asksToWait(header http.Header, now time.Time) time.Duration {
	if d, ok := duration(header.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	value := header.Get("Retry-After")
	if d, ok := duration(value, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

func duration(value string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || !(n >= 0) || n > float64(math.MaxInt64/unit) {
		return 0, false
	}
	return time.Duration(n * float64(unit)), true
}
