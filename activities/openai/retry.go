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
	"sync"
	"time"

	"conclave/engine/llm"
)

// The retry policy of one call of Generate. The caller handles longer waits.
const (
	maxTries    = 7
	maxElapsed  = 60 * time.Second // no retry starts later than this after the first try or the start of an outage
	firstWait   = time.Second      // doubled after every try
	longestWait = 20 * time.Second // the longest wait unless the server requests more
	maxPaid     = 1                // retries after interrupted replies, each of which is charged

	// longestAsked bounds the wait that a server may request. An early retry costs nothing.
	longestAsked = time.Hour
)

// retryCall repeats a call according to the policy. The returned usage is the sum of all tries.
func (c *Client) retryCall(ctx context.Context, w *wait, call func() (llm.Reply, error)) (llm.Reply, error) {
	start := time.Now()
	var spent llm.Usage
	for try := 1; ; try++ {
		reply, err := call()
		spent = spent.Add(reply.Usage)
		reply.Usage = spent
		failed, ok := errors.AsType[*llm.Error](err)
		if !ok || !isTransient(failed) || try == maxTries || spent.ModelCalls > maxPaid {
			return reply, err
		}
		pause, left := backoff(try), c.timeLeft(ctx, start, failed)
		if max(pause, failed.RetryAfter) > left {
			return reply, err
		}
		pause = max(pause, spreadWait(failed.RetryAfter, left))
		w.begin(ctx, failed, time.Now().Add(pause))
		if err := sleep(ctx, pause); err != nil {
			return reply, fmt.Errorf("wait to retry (%s): %w", failed.Message, err)
		}
	}
}

func (c *Client) timeLeft(ctx context.Context, start time.Time, failed *llm.Error) time.Duration {
	limit := maxElapsed
	if failed.Outage() {
		if failed.Since.Before(start) {
			start = failed.Since
		}
		if c.options.Patience != nil {
			limit = min(limit, c.options.Patience(ctx, failed.Status != 0))
		}
	}
	return limit - time.Since(start)
}

// isTransient reports whether a retry after a wait may succeed. A bad reply is not transient: a retry
// costs money, and the caller decides.
func isTransient(failed *llm.Error) bool { return failed.Kind == llm.RateLimited || failed.Outage() }

// backoff returns the wait after a try, counted from 1. It grows exponentially and is shortened at
// random by up to a quarter.
func backoff(try int) time.Duration {
	wait := min(firstWait<<(try-1), longestWait)
	return wait - rand.N(wait/4)
}

// spreadWait lengthens the wait that a server requests by up to an eighth, at random, but not beyond
// the time left. All agents get the same request, and should not retry at once.
func spreadWait(asked, left time.Duration) time.Duration {
	return asked + rand.N(min(asked/8, left-asked)+1)
}

// openTry is the time without a response during which a try still counts as part of the preceding
// wait. After that the server is assumed to be processing the request.
const openTry = 3 * time.Second

// wait calls Options.Waiting for the waits of one call of Generate.
type wait struct {
	waiting func(context.Context, *llm.Error, time.Time) func()

	mu   sync.Mutex
	over func()      // nil unless it is waiting
	open *time.Timer // timer that ends the wait; nil unless a try is under way
}

func (w *wait) begin(ctx context.Context, failed *llm.Error, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopTimer()
	if w.waiting != nil {
		w.over = w.waiting(ctx, failed, until)
	}
}

func (w *wait) startTry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopTimer()
	if w.over != nil {
		w.open = time.AfterFunc(openTry, w.end)
	}
}

func (w *wait) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopTimer()
	if w.over != nil {
		w.over()
		w.over = nil
	}
}

// stopTimer stops the timer. The caller holds the lock.
func (w *wait) stopTimer() {
	if w.open != nil {
		w.open.Stop()
		w.open = nil
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// RetryAfter returns the wait that a response requests, at most an hour, or 0 if it requests none.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	wait, ok := parseDuration(header.Get("Retry-After-Ms"), time.Millisecond)
	if !ok {
		wait, ok = parseDuration(value, time.Second)
	}
	if at, err := http.ParseTime(value); !ok && err == nil {
		wait = max(0, at.Sub(now))
	}
	return min(wait, longestAsked)
}

func parseDuration(value string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || !(n >= 0) || n > float64(math.MaxInt64/unit) {
		return 0, false
	}
	return time.Duration(n * float64(unit)), true
}
