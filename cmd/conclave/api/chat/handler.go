package chat

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/engine/llm/wire"
)

// Handler serves the models and the requests to them. Its requests have passed an access.Gate.
type Handler struct {
	desk    *gateway.Desk
	page    func(r *http.Request, session string) string // address of a session's page; empty without one
	started time.Time
	reads   bool // refuses to start sessions
	mux     *http.ServeMux

	documents chan struct{} // has one for each document that is being read
}

// protocol is one of the protocols in which clients ask.
type protocol interface {
	decode(body []byte) (request, error)
	body(want wish, id string, r reply) any
	begin(w http.ResponseWriter, want wish, id string) replyStream
}

// New returns a handler for a desk. If readOnly is set, it starts no sessions.
func New(d *gateway.Desk, page func(r *http.Request, session string) string, readOnly bool) *Handler {
	h := &Handler{desk: d, page: page, reads: readOnly, started: time.Now(), mux: http.NewServeMux(), documents: make(chan struct{}, 2)}
	for path, served := range map[string]struct {
		method string
		by     http.HandlerFunc
	}{
		"/v1/models":                {http.MethodGet, h.listModels},
		"/v1/models/{id...}":        {http.MethodGet, h.showModel},
		"/v1/chat/completions":      {http.MethodPost, h.answerIn(completions{})},
		"/v1/responses":             {http.MethodPost, h.answerIn(responses{})},
		"/v1/responses/{id}":        {http.MethodGet, h.showResponse},
		"/v1/responses/{id}/cancel": {http.MethodPost, h.cancelResponse},
		"/v1/messages":              {http.MethodPost, h.answerIn(messages{})},
		"/v1/messages/count_tokens": {http.MethodPost, h.countTokens},
	} {
		h.mux.HandleFunc(served.method+" "+path, served.by)
		h.mux.HandleFunc(path, allowOnly(served.method))
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		sendRefusal(w, r, &gateway.Refusal{Status: http.StatusNotFound, Code: "unknown_url", Message: r.Method + " " + r.URL.Path +
			" is not served; there are GET /v1/models and POST /v1/chat/completions, /v1/responses and /v1/messages"})
	})
	return h
}

func allowOnly(method string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", method)
		sendRefusal(w, r, &gateway.Refusal{
			Status: http.StatusMethodNotAllowed, Code: "method_not_allowed",
			Message: r.URL.Path + " has no method " + r.Method + "; use " + method,
		})
	}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

func (h *Handler) listModels(w http.ResponseWriter, r *http.Request) {
	out := wire.ModelList{Object: "list", Data: []wire.Model{}}
	for _, t := range h.desk.Teams(access.From(r.Context())) {
		out.Data = append(out.Data, h.modelOf(t))
	}
	writeJSON(w, r, out)
}

func (h *Handler) showModel(w http.ResponseWriter, r *http.Request) {
	t, err := h.teamOfModel(access.From(r.Context()), r.PathValue("id"))
	if err != nil {
		sendRefusal(w, r, err)
		return
	}
	writeJSON(w, r, h.modelOf(t))
}

func (h *Handler) modelOf(t gateway.Team) wire.Model {
	return wire.Model{ID: ModelName(t.Name), Object: "model", Created: h.started.Unix(), OwnedBy: "conclave"}
}

// answerIn returns the handler of requests in a protocol. A session continues if the connection
// breaks.
func (h *Handler) answerIn(p protocol) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if h.reads {
			sendRefusal(w, r, &gateway.Refusal{Status: http.StatusForbidden, Code: "read_only", Message: "this server starts no sessions: it runs with --read-only"})
			return
		}
		var ticket gateway.Ticket
		var want wish
		var live replyStream
		var err error
		runApart(func() {
			if ticket, want, err = h.takeRequest(w, r, p); err == nil {
				live = h.beginReply(w, r, p, want, ticket.ID)
			}
		})
		switch {
		case err != nil:
			sendRefusal(w, r, err)
		case live != nil:
			ticket.Close(h.streamAnswer(r, live, want, ticket.ID))
		case want.background:
			h.sendProgress(w, r, want, ticket.ID)
			ticket.Close(true)
		default:
			ticket.Close(h.sendAnswer(w, r, p, want, ticket.ID))
		}
	}
}

// runApart runs f in its own goroutine. A call to Temporal grows the stack to 32 KiB, which the
// connection's goroutine would keep while its caller waits.
func runApart(f func()) {
	panicked := make(chan any)
	go func() {
		defer func() { panicked <- recover() }() //nolint:forbidigo // raised again below
		f()
	}()
	if p := <-panicked; p != nil {
		panic(p) //nolint:forbidigo // net/http ends the connection alone
	}
}

func (h *Handler) takeRequest(w http.ResponseWriter, r *http.Request, p protocol) (ticket gateway.Ticket, want wish, err error) {
	by := access.From(r.Context())
	body, err := readBody(w, r)
	if err != nil {
		return ticket, want, err
	}
	in, err := p.decode(body)
	if err != nil {
		return ticket, want, err
	}
	in.hasTools = in.hasTools || len(in.tools) > 0
	want = in.wish
	if len(in.ignored) > 0 {
		w.Header().Set(ignoredHeader, strings.Join(in.ignored, ", "))
	}
	results, err := resultsOf(in.messages)
	if err != nil {
		return ticket, want, err
	}
	if len(results) > 0 {
		want.hasTools = true
		ticket.Close = func(bool) {}
		if err := h.checkResults(by, in); err != nil {
			return ticket, want, err
		}
		ticket.ID, err = h.desk.Return(r.Context(), by, results)
		return ticket, want, err
	}
	q, err := h.toQuestion(r, by, body, in)
	if err != nil {
		return ticket, want, err
	}
	ticket, err = h.desk.Start(r.Context(), by, q)
	return ticket, want, err
}

// beginReply sets the headers of a reply, and starts its stream if the request wants one.
func (h *Handler) beginReply(w http.ResponseWriter, r *http.Request, p protocol, want wish, id string) replyStream {
	w.Header().Set(sessionHeader, id)
	if page := h.page(r, id); page != "" {
		w.Header().Set("Link", "<"+page+`>; rel="alternate"; type="text/html"`)
	}
	if !want.stream {
		return nil
	}
	return p.begin(w, want, id)
}

// sendAnswer waits for the reply of a session and sends it. It returns false if the connection
// broke.
func (h *Handler) sendAnswer(w http.ResponseWriter, r *http.Request, p protocol, want wish, id string) (received bool) {
	answered, err := h.desk.Follow(r.Context(), id, want.hasTools, nil)
	if r.Context().Err() != nil {
		return false
	}
	if err != nil {
		sendRefusal(w, r, err)
		return true
	}
	writeJSON(w, r, p.body(want, id, newReply(want, answered)))
	return r.Context().Err() == nil
}

func writeJSON(w http.ResponseWriter, r *http.Request, body any) {
	w.Header().Set("Content-Type", "application/json")
	data, err := json.Marshal(body)
	if err != nil {
		sendRefusal(w, r, err)
		return
	}
	_, _ = w.Write(append(data, '\n')) // the client may be gone
}

// sendRefusal sends an error. The official clients retry most server errors unless a header
// forbids it; only an unavailable service is worth a retry.
func sendRefusal(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	refused, kind := refusalOf(err)
	if refused.Status != http.StatusServiceUnavailable {
		w.Header().Set("X-Should-Retry", "false")
	}
	access.WriteError(w, r, refused.Status, kind, refused.Code, refused.Param, refused.Message)
}

// refusalOf returns the refusal for an error and its type in OpenAI's API.
func refusalOf(err error) (refused *gateway.Refusal, kind string) {
	refused, ok := errors.AsType[*gateway.Refusal](err)
	if !ok {
		refused = &gateway.Refusal{Status: http.StatusInternalServerError, Code: "internal", Message: err.Error()}
	}
	switch {
	case refused.Code == "insufficient_quota":
		kind = "insufficient_quota"
	case refused.Status >= http.StatusInternalServerError:
		kind = "server_error"
	default:
		kind = "invalid_request_error"
	}
	refused.Message = strings.TrimSpace(refused.Message)
	return refused, kind
}
