package chat

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/desk"
)

// Handler serves the models and their completions. Its requests have passed an access.Gate.
type Handler struct {
	desk    *desk.Desk
	page    func(r *http.Request, session string) string // address of a session's page; empty without one
	started time.Time
	reads   bool // refuses to start sessions
	mux     *http.ServeMux
}

// New returns a handler for a desk. If readOnly is set, it refuses completions.
func New(d *desk.Desk, page func(r *http.Request, session string) string, readOnly bool) *Handler {
	h := &Handler{desk: d, page: page, reads: readOnly, started: time.Now(), mux: http.NewServeMux()}
	for path, served := range map[string]struct {
		method string
		by     http.HandlerFunc
	}{
		"/v1/models":           {http.MethodGet, h.models},
		"/v1/models/{id...}":   {http.MethodGet, h.model},
		"/v1/chat/completions": {http.MethodPost, h.complete},
	} {
		h.mux.HandleFunc(served.method+" "+path, served.by)
		h.mux.HandleFunc(path, only(served.method))
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, &desk.Refusal{Status: http.StatusNotFound, Code: "unknown_url", Message: r.Method + " " + r.URL.Path +
			" is not served; there are GET /v1/models and POST /v1/chat/completions"})
	})
	return h
}

// only refuses methods other than the given one.
func only(method string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", method)
		refuse(w, &desk.Refusal{
			Status: http.StatusMethodNotAllowed, Code: "method_not_allowed",
			Message: r.URL.Path + " has no method " + r.Method + "; use " + method,
		})
	}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

func (h *Handler) models(w http.ResponseWriter, r *http.Request) {
	out := models{Object: "list", Data: []model{}}
	for _, t := range h.desk.Teams(access.From(r.Context())) {
		out.Data = append(out.Data, h.modelOf(t))
	}
	writeJSON(w, out)
}

func (h *Handler) model(w http.ResponseWriter, r *http.Request) {
	t, err := h.team(access.From(r.Context()), r.PathValue("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	writeJSON(w, h.modelOf(t))
}

func (h *Handler) modelOf(t desk.Team) model {
	return model{ID: ModelName(t.Name), Object: "model", Created: h.started.Unix(), OwnedBy: "conclave"}
}

// complete answers a request. The session continues if the connection breaks.
func (h *Handler) complete(w http.ResponseWriter, r *http.Request) {
	if h.reads {
		refuse(w, &desk.Refusal{Status: http.StatusForbidden, Code: "read_only", Message: "this server starts no sessions: it runs with --read-only"})
		return
	}
	var ticket desk.Ticket
	var want wish
	var live *stream
	var err error
	apart(func() {
		if ticket, want, err = h.take(w, r); err == nil {
			live = h.begin(w, r, want, ticket.ID)
		}
	})
	switch {
	case err != nil:
		refuse(w, err)
	case live != nil:
		ticket.Close(h.stream(r, live, want, ticket.ID))
	default:
		ticket.Close(h.answer(w, r, want, ticket.ID))
	}
}

// wish is the form in which a request wants its reply. The request itself may be large and is
// not kept while the caller waits.
type wish struct {
	model      string
	stream     bool
	usageApart bool // whether the usage has an event of its own
	tools      bool // the caller may be asked to run tools
}

// apart runs f in its own goroutine. A call to Temporal grows the stack to 32 KiB, which the
// connection's goroutine would keep while its caller waits.
func apart(f func()) {
	panicked := make(chan any)
	go func() {
		defer func() { panicked <- recover() }() //nolint:forbidigo // raised again below
		f()
	}()
	if p := <-panicked; p != nil {
		panic(p) //nolint:forbidigo // net/http ends the connection alone
	}
}

// take reads a request and starts, joins or continues its session.
func (h *Handler) take(w http.ResponseWriter, r *http.Request) (ticket desk.Ticket, want wish, err error) {
	by := access.From(r.Context())
	body, err := readBody(w, r)
	if err != nil {
		return ticket, want, err
	}
	in, err := decode(body)
	if err != nil {
		return ticket, want, err
	}
	want = wish{model: in.Model, stream: in.Stream, usageApart: in.StreamOptions != nil && in.StreamOptions.IncludeUsage, tools: in.hasTools()}
	results, err := resultsOf(in.Messages)
	if err != nil {
		return ticket, want, err
	}
	if len(results) > 0 {
		ticket.Close = func(bool) {}
		if err := h.checkResults(by, in); err != nil {
			return ticket, want, err
		}
		ticket.ID, err = h.desk.Return(r.Context(), by, results)
		return ticket, want, err
	}
	q, err := h.question(r, by, body, in)
	if err != nil {
		return ticket, want, err
	}
	ticket, err = h.desk.Start(r.Context(), by, q)
	return ticket, want, err
}

// begin sets the headers of a reply, and starts its stream if the request wants one.
func (h *Handler) begin(w http.ResponseWriter, r *http.Request, want wish, id string) *stream {
	w.Header().Set(sessionHeader, id)
	if page := h.page(r, id); page != "" {
		w.Header().Set("Link", "<"+page+`>; rel="alternate"; type="text/html"`)
	}
	if !want.stream {
		return nil
	}
	return newStream(w, want.model, id)
}

// answer waits for the reply of a session and sends it. It returns false if the connection
// broke.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, want wish, id string) (received bool) {
	reply, err := h.desk.Follow(r.Context(), id, want.tools, nil)
	if r.Context().Err() != nil {
		return false
	}
	if err != nil {
		refuse(w, err)
		return true
	}
	out := completion{
		ID: completionID(id), Object: "chat.completion", Created: time.Now().Unix(), Model: want.model, Usage: usageOf(reply.Usage),
		Choices: []choice{{Message: replyMessage{Role: "assistant", Content: &reply.Answer}, FinishReason: finishStop}},
	}
	if len(reply.Calls) > 0 {
		out.Choices[0] = choice{Message: replyMessage{Role: "assistant", ToolCalls: callsOf(reply)}, FinishReason: finishCalls}
	}
	writeJSON(w, out)
	return r.Context().Err() == nil
}

// completionID returns the completion ID for a session's reply.
func completionID(session string) string { return "conclave-" + session }

func writeJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	data, err := json.Marshal(body)
	if err != nil {
		refuse(w, err)
		return
	}
	_, _ = w.Write(append(data, '\n')) // the client may be gone
}

// refuse sends an error. The official clients retry most server errors unless a header
// forbids it; only an unavailable service is worth a retry.
func refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	refused, kind := refusalOf(err)
	if refused.Status != http.StatusServiceUnavailable {
		w.Header().Set("X-Should-Retry", "false")
	}
	access.WriteError(w, refused.Status, kind, refused.Code, refused.Param, refused.Message)
}

// refusalOf returns the refusal for an error and its type in OpenAI's API.
func refusalOf(err error) (refused *desk.Refusal, kind string) {
	refused, ok := errors.AsType[*desk.Refusal](err)
	if !ok {
		refused = &desk.Refusal{Status: http.StatusInternalServerError, Code: "internal", Message: err.Error()}
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
