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
	// maxStream, in bytes, and maxLines bound one event stream: a response, or the server's own
	// messages.
	maxStream = 2 * maxMessage
	maxLines  = 200_000

	// maxRefusal bounds the body of an error response, in bytes.
	maxRefusal = 64 << 10

	// headTimeout bounds the wait for the headers of a response, except for tool calls.
	headTimeout = 5 * time.Second

	// goodbyeTimeout bounds the request that ends a session.
	goodbyeTimeout = 1500 * time.Millisecond

	// streamRetries is the number of times that the SDK resumes a broken stream.
	streamRetries = 1
)

// newHTTP returns the transport to an address. If the server floods it, the transport calls end
// with the cause, which ends life.
func newHTTP(life context.Context, end context.CancelCauseFunc, s Server) (*sdk.StreamableClientTransport, error) {
	endpoint, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	calls := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        4,
		IdleConnTimeout:     90 * time.Second,
	}
	others := calls.Clone()
	others.ResponseHeaderTimeout = headTimeout
	context.AfterFunc(life, func() {
		calls.CloseIdleConnections()
		others.CloseIdleConnections()
	})
	return &sdk.StreamableClientTransport{
		Endpoint: s.URL,
		HTTPClient: &http.Client{
			Transport:     &roundTripper{endpoint: endpoint, token: s.Token, calls: calls, others: others, life: life, end: end},
			CheckRedirect: refuseRedirect,
		},
		MaxRetries:   streamRetries,
		MaxEventSize: maxMessage,
	}, nil
}

func refuseRedirect(req *http.Request, _ []*http.Request) error {
	return fmt.Errorf("the server redirects to %s, which is not followed; if that is right, give it as url", req.URL.Redacted())
}

// roundTripper bounds requests in time and size, and sends the token to the server's address only.
type roundTripper struct {
	endpoint      *url.URL
	token         string
	calls, others http.RoundTripper // clients for tool calls, which have a deadline, and for other requests
	life          context.Context
	end           context.CancelCauseFunc
}

// RoundTrip implements http.RoundTripper.
func (c *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	limit := 24 * time.Hour // more than any stream; calls have their own deadline
	if req.Method == http.MethodDelete {
		limit = goodbyeTimeout
	}
	ctx, cancel := context.WithTimeout(req.Context(), limit)
	stop := context.AfterFunc(c.life, cancel)
	release := func() {
		stop()
		cancel()
	}
	called := trackOf(ctx)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { called.sent.Store(true) }})
	sent := req.Clone(ctx)
	if to := c.endpoint; c.token != "" && req.URL.Scheme == to.Scheme && req.URL.Host == to.Host && req.URL.Path == to.Path {
		sent.Header.Set("Authorization", "Bearer "+c.token)
	}
	transport := c.others
	if _, ok := req.Context().Deadline(); ok {
		transport = c.calls
	}
	resp, err := transport.RoundTrip(sent)
	if err != nil {
		release()
		return c.withoutStream(req, err)
	}
	if req.Method == http.MethodPost {
		called.status.CompareAndSwap(0, int64(resp.StatusCode))
	}
	resp.Body = c.bounded(resp, release)
	return resp, nil
}

// withoutStream handles a timeout of the server's own stream, for which the SDK would wait, as if
// the server did not offer that stream.
func (c *roundTripper) withoutStream(req *http.Request, err error) (*http.Response, error) {
	slow, ok := errors.AsType[net.Error](err)
	if req.Method == http.MethodGet && ok && slow.Timeout() && req.Context().Err() == nil {
		return &http.Response{
			StatusCode: http.StatusMethodNotAllowed, Status: "405 no stream within its time",
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: make(http.Header), Body: http.NoBody, Request: req,
		}, nil
	}
	return nil, err
}

type body struct {
	io.ReadCloser
	room, lines int // bytes and lines left
	exceeded    func() error
	release     func()
}

func (c *roundTripper) bounded(resp *http.Response, release func()) *body {
	b := &body{ReadCloser: resp.Body, release: release, room: maxMessage, lines: maxMessage}
	over := fmt.Errorf("it sent a message longer than %d MiB", maxMessage>>20)
	switch {
	case resp.StatusCode >= 300:
		b.room, b.lines = maxRefusal, maxRefusal
		b.exceeded = func() error { return io.EOF }
		return b
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
		b.room, b.lines = maxStream, maxLines
		over = errors.New("it sent too many events on one stream")
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
	defer b.release()
	return b.ReadCloser.Close()
}
