package openai

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"conclave/engine/llm"
)

// Outages records which servers and models are not replying. A server is away if no connection to
// it can be made; if connections succeed but the model does not reply, only the model is away.
// Clients that share an Outages send only one request at a time to each server or model that is
// away. The zero value is ready for use.
type Outages struct {
	mu   sync.Mutex
	away map[server]*outage // a key without a model is that of a server
}

// outage is the state of a server or of one of its models. Outages.mu guards all fields except turn.
type outage struct {
	turn   chan struct{} // held by the request that probes it
	since  time.Time     // time of the first failure since the last reply; zero while it replies
	probed time.Time     // time of the last failure
	failed *llm.Error    // the last failure; nil once it responds
}

// route is a client's model and its server.
type route struct{ model, host *outage }

func (o *Outages) findRoute(c *Client) route {
	o.mu.Lock()
	defer o.mu.Unlock()
	return route{model: o.findOutage(c.server), host: o.findOutage(server{url: c.origin})}
}

// findOutage returns the state of a server or model. The caller holds the lock.
func (o *Outages) findOutage(key server) *outage {
	s := o.away[key]
	if s == nil {
		if o.away == nil {
			o.away = map[server]*outage{}
		}
		s = &outage{turn: make(chan struct{}, 1)}
		o.away[key] = s
	}
	return s
}

// callInTurn makes a request to a client's model. While the model or its server is away, only one request
// is made at a time: the others wait for their turn, after calling away with the last failure. A
// caller gets the failure of another's request if that one ended after the caller began.
func (o *Outages) callInTurn(ctx context.Context, c *Client, away func(*llm.Error), request func(ctx context.Context, responded func(status int)) (llm.Reply, error)) (llm.Reply, error) {
	r, asked := o.findRoute(c), time.Now()
	leaveModel, err := o.enterTurn(ctx, r, r.model, asked, away)
	if err != nil {
		return llm.Reply{}, err
	}
	defer leaveModel()
	leaveHost, err := o.enterTurn(ctx, r, r.host, asked, away)
	if err != nil {
		return llm.Reply{}, err
	}
	defer leaveHost()
	// A connection lets the requests to the other models of the server pass; those to this model wait for
	// its reply.
	var connected atomic.Bool
	reached := func() {
		connected.Store(true)
		o.noteResponse(r.host)
		leaveHost()
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { connected.Store(false) }, // called again if an idle connection was closed
		GotConn: func(httptrace.GotConnInfo) { reached() },
	})
	reply, err := request(ctx, func(status int) {
		reached()
		if status < 500 {
			o.noteResponse(r.model)
			leaveModel()
		}
	})
	failed, ok := errors.AsType[*llm.Error](err)
	switch {
	case err == nil, ok && !failed.Outage():
		o.markEnded(r)
	case ok && connected.Load():
		o.noteFailure(r, r.model, failed)
	case ok:
		failed.Message = "server " + c.host + ": " + failed.Detail // the message leaves the model out, because it concerns all of them
		o.noteFailure(r, r.host, failed)
	}
	return reply, err
}

// enterTurn waits for the turn to probe the server or the model of a route, if it is away. It returns
// the error of a probe by another caller that failed in the meantime.
func (o *Outages) enterTurn(ctx context.Context, r route, s *outage, asked time.Time, away func(*llm.Error)) (leave func(), err error) {
	_, last := o.lastFailure(r, s)
	if last == nil {
		return func() {}, nil
	}
	if err := s.takeTurn(ctx, func() { away(last) }); err != nil {
		return nil, err
	}
	leave = sync.OnceFunc(func() { <-s.turn })
	probed, failed := o.lastFailure(r, s)
	switch {
	case failed == nil:
		leave()
	case probed.After(asked):
		leave()
		return nil, failed
	}
	return leave, nil
}

func (s *outage) takeTurn(ctx context.Context, waits func()) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	waits()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case s.turn <- struct{}{}:
		return nil
	}
}

// lastFailure returns the time and the error of the last failure while the server or model s is away,
// and nil otherwise.
func (o *Outages) lastFailure(r route, s *outage) (probed time.Time, failed *llm.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.failed == nil {
		return time.Time{}, nil
	}
	last := *s.failed
	last.Since = r.downSince()
	return s.probed, &last
}

// downSince returns when the model stopped replying, whether the model or its server is away. The
// caller holds the lock.
func (r route) downSince() time.Time {
	if r.model.since.IsZero() || !r.host.since.IsZero() && r.host.since.Before(r.model.since) {
		return r.host.since
	}
	return r.model.since
}

// noteResponse records that a server or model has begun to respond, which ends the turns. The outage
// ends with a complete response.
func (o *Outages) noteResponse(s *outage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.failed = nil
}

// markEnded records a reply or an error that does not indicate an outage.
func (o *Outages) markEnded(r route) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range []*outage{r.model, r.host} {
		s.since, s.failed = time.Time{}, nil
	}
}

// noteFailure records that s, a server or a model, failed, and sets failed.Since to the beginning of
// the outage.
func (o *Outages) noteFailure(r route, s *outage, failed *llm.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.probed = time.Now()
	if s.since.IsZero() {
		s.since = s.probed
	}
	failed.Since = r.downSince()
	last := *failed
	s.failed = &last
}
