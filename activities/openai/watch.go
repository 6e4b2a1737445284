package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3/option"
)

// The bounds of one HTTP request. A server that buffers a tool call until it is
// whole is silent for as long as the model writes it, so idleTimeout is more than
// a gateway would wait.
const (
	silentTimeout  = 10 * time.Minute // without an event: a long prompt, hidden thoughts, nothing but keep-alives; or a response that is no stream
	idleTimeout    = 3 * time.Minute  // without a byte, once the model has begun to speak
	closingTimeout = 10 * time.Second // without a byte, once the model has ended
	totalTimeout   = 30 * time.Minute // altogether

	maxBody = 32 << 20 // bytes of a response that are read
)

// errTooLarge says that a response goes on beyond maxBody.
var errTooLarge = fmt.Errorf("the response is larger than %d MiB", maxBody>>20)

// stall is the cause by which a watch ends a request.
type stall struct{ what string }

func (s *stall) Error() string { return s.what }

// stalled is the cause of the end of a request's context, if a watch ended it.
func stalled(ctx context.Context) (s *stall, ok bool) {
	return s, errors.As(context.Cause(ctx), &s)
}

// watch ends a request that takes too long.
type watch struct {
	silent, idle *time.Timer
	patience     time.Duration // of idle; 0 as long as the model has not begun to speak
}

// watched returns the context for a request, its watch, and what ends both.
func watched(ctx context.Context) (context.Context, *watch, func()) {
	ctx, release := context.WithTimeoutCause(ctx, totalTimeout, &stall{fmt.Sprintf("no end of the response within %v", totalTimeout)})
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{silent: time.AfterFunc(silentTimeout, func() {
		cancel(&stall{fmt.Sprintf("nothing of a reply for %v", silentTimeout)})
	})}
	w.idle = time.AfterFunc(totalTimeout, func() {
		cancel(&stall{"the response stalled"})
	})
	return ctx, w, func() {
		w.silent.Stop()
		w.idle.Stop()
		cancel(nil)
		release()
	}
}

// byte says that something came, be it a comment that keeps the connection alive.
func (w *watch) byte() {
	if w.patience > 0 {
		w.idle.Reset(w.patience)
	}
}

// event says that an event of a stream came, and how long the next byte may take;
// 0 leaves that to silentTimeout.
func (w *watch) event(patience time.Duration) {
	w.silent.Reset(silentTimeout)
	w.patience = patience
	w.byte()
}

// over puts the watch, and the bound on its size, over the body of a response.
func (w *watch) over(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if res != nil && res.Body != nil {
		res.Body = &body{ReadCloser: res.Body, watch: w, left: maxBody}
	}
	return res, err
}

// body is the body of a response under watch.
type body struct {
	io.ReadCloser
	watch *watch
	left  int
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if n > 0 {
		b.watch.byte()
	}
	if n > b.left {
		return b.left, errTooLarge
	}
	b.left -= n
	return n, err
}
