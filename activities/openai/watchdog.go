package openai

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3/option"
)

// Limits of one HTTP request. A server may be silent while its model writes a tool call.
const (
	silentTimeout  = 10 * time.Minute // default time without an event: a queue, a long prompt, hidden thoughts, keep-alives, or a response that is not a stream
	idleTimeout    = 3 * time.Minute  // time without a byte after the first of the reply
	closingTimeout = 10 * time.Second // time without a byte after the last of the reply
	totalTimeout   = 30 * time.Minute // extended by the excess of a configured limit of silence over silentTimeout

	maxBody = 32 << 20 // bytes of a response
)

var errTooLarge = fmt.Errorf("the response is larger than %d MiB", maxBody>>20)

const fasterModel = "use a faster model or server"

// stallError is the cause with which a watchdog cancels a request.
type stallError struct{ what, remedy string }

func (e *stallError) Error() string { return e.what }

type watchdog struct {
	silent, idle *time.Timer
	silentLimit  time.Duration // the duration of silent
	idleLimit    time.Duration // the duration of idle; 0 before the first byte of the reply
}

// newWatchdog returns the context of a request and its watchdog; release ends both. silent bounds
// the time without an event.
func newWatchdog(ctx context.Context, silent time.Duration) (limited context.Context, w *watchdog, release func()) {
	total := totalTimeout + max(0, silent-silentTimeout)
	ctx, stop := context.WithTimeoutCause(ctx, total, &stallError{fmt.Sprintf("no end of the response within %v", total), fasterModel})
	ctx, cancel := context.WithCancelCause(ctx)
	w = &watchdog{silentLimit: silent, silent: time.AfterFunc(silent, func() {
		cancel(&stallError{fmt.Sprintf("nothing of a reply for %v", silent), fasterModel + ", or raise silent_timeout_seconds"})
	})}
	w.idle = time.AfterFunc(total, func() {
		cancel(&stallError{"the response stalled", fasterModel})
	})
	return ctx, w, func() {
		w.silent.Stop()
		w.idle.Stop()
		cancel(nil)
		stop()
	}
}

// byte records the arrival of a byte, which may belong to a keep-alive comment.
func (w *watchdog) byte() {
	if w.idleLimit > 0 {
		w.idle.Reset(w.idleLimit)
	}
}

// event records an event and sets the time limit for the next byte. With 0, only the limit for
// silence applies.
func (w *watchdog) event(idleLimit time.Duration) {
	w.silent.Reset(w.silentLimit)
	w.idleLimit = idleLimit
	w.byte()
}

// middleware makes the watchdog observe the body of a response, and bounds the body's size.
func (w *watchdog) middleware(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if res != nil && res.Body != nil {
		res.Body = &body{ReadCloser: res.Body, watchdog: w, left: maxBody}
	}
	return res, err
}

type body struct {
	io.ReadCloser
	watchdog *watchdog
	left     int
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if n > 0 {
		b.watchdog.byte()
	}
	if n > b.left {
		return b.left, errTooLarge
	}
	b.left -= n
	return n, err
}
