package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxStream and maxLines bound one stream of events, in bytes and lines. A
	// stream holds the answer to one call, or what a server says unasked.
	maxStream = 2 * maxMessage
	maxLines  = 200_000

	// maxRefusal bounds what is read of a response that is no success, in bytes.
	maxRefusal = 64 << 10

	// headTimeout is how long a server may take to begin a response that no call
	// waits for.
	headTimeout = 5 * time.Second

	// goodbyeTimeout bounds the request that ends a session.
	goodbyeTimeout = 1500 * time.Millisecond

	// streamRetries is how often the SDK tries to take up a stream that broke.
	streamRetries = 1
)

// newHTTP is the connection to an address. It lives no longer than life, and
// ends life, with the cause, when the server sends too much.
func newHTTP(life context.Context, end context.CancelCauseFunc, s Server) (*sdk.StreamableClientTransport, error) {
	endpoint, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	patient := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        4,
		IdleConnTimeout:     90 * time.Second,
	}
	hasty := patient.Clone()
	hasty.ResponseHeaderTimeout = headTimeout
	context.AfterFunc(life, func() {
		patient.CloseIdleConnections()
		hasty.CloseIdleConnections()
	})
	return &sdk.StreamableClientTransport{
		Endpoint: s.URL,
		HTTPClient: &http.Client{
			Transport:     &carrier{endpoint: endpoint, token: s.Token, patient: patient, hasty: hasty, life: life.Done(), end: end},
			CheckRedirect: refuseRedirect,
		},
		MaxRetries:   streamRetries,
		MaxEventSize: maxMessage,
	}, nil
}

func refuseRedirect(req *http.Request, _ []*http.Request) error {
	return fmt.Errorf("the server redirects to %s, which is not followed; if that is right, give it as url", req.URL.Redacted())
}

// carrier sends the SDK's requests: with the token to the server's address
// only, bounded in time and size.
type carrier struct {
	endpoint       *url.URL
	token          string
	patient, hasty http.RoundTripper
	life           <-chan struct{}
	end            context.CancelCauseFunc
}

// RoundTrip implements http.RoundTripper.
func (c *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	limit := 24 * time.Hour // nothing lasts longer; calls have their own deadline
	if req.Method == http.MethodDelete {
		limit = goodbyeTimeout
	}
	ctx, cancel := context.WithTimeout(req.Context(), limit)
	done := make(chan struct{})
	release := func() { cancel(); close(done) }
	go func() {
		select {
		case <-c.life:
			cancel()
		case <-done:
		}
	}()
	called := trackOf(ctx)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { called.sent.Store(true) }})
	sent := req.Clone(ctx)
	if c.token != "" && sameAddress(req.URL, c.endpoint) {
		sent.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.through(req).RoundTrip(sent)
	if err != nil {
		release()
		return c.absent(req, err)
	}
	if req.Method == http.MethodPost {
		called.status.CompareAndSwap(0, int64(resp.StatusCode))
	}
	resp.Body = c.bounded(resp, release)
	return resp, nil
}

// through is patient with what has a deadline of its own: calls.
func (c *carrier) through(req *http.Request) http.RoundTripper {
	if _, ok := req.Context().Deadline(); ok {
		return c.patient
	}
	return c.hasty
}

// absent takes a server that does not begin the stream of what it says unasked
// for one that has none: the SDK would wait for it before anything else.
func (c *carrier) absent(req *http.Request, err error) (*http.Response, error) {
	var slow net.Error
	if req.Method == http.MethodGet && errors.As(err, &slow) && slow.Timeout() && req.Context().Err() == nil {
		return &http.Response{
			StatusCode: http.StatusMethodNotAllowed, Status: "405 no stream within its time",
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: make(http.Header), Body: http.NoBody, Request: req,
		}, nil
	}
	return nil, err
}

func sameAddress(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && a.Host == b.Host && a.Path == b.Path
}

// body is a response's body that ends before it is too much.
type body struct {
	io.ReadCloser
	room, lines int // bytes and lines that may still come
	exceeded    func() error
	release     func()
	closed      bool
}

func (c *carrier) bounded(resp *http.Response, release func()) *body {
	b := &body{ReadCloser: resp.Body, release: release, room: maxMessage, lines: maxMessage}
	over := fmt.Errorf("it sent a message longer than %d MiB", maxMessage>>20)
	switch {
	case resp.StatusCode >= 300:
		b.room, b.lines = maxRefusal, maxRefusal
		b.exceeded = func() error { return io.EOF }
		return b
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
		b.room, b.lines = maxStream, maxLines
		over = errors.New("it sent more events than anybody asked for")
	}
	b.exceeded = func() error {
		c.end(over)
		return over
	}
	return b
}

func (b *body) Read(p []byte) (int, error) {
	if b.room <= 0 || b.lines <= 0 {
		return 0, b.exceeded()
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.room)])
	b.room -= n
	b.lines -= bytes.Count(p[:n], []byte("\n"))
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	if !b.closed {
		b.closed = true
		b.release()
	}
	return err
}
