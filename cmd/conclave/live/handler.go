package live

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/page"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/record"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
)

// Options configure a Handler.
type Options struct {
	Kinds    []*runs.Kind // kinds of the runs that can be steered and listed
	ReadOnly bool
	AnyUser  bool // every user of this machine may connect
}

// Handler serves the pages of a connection's sessions, or of one directory.
type Handler struct {
	Options
	conn  *hall.Connection // nil for a directory
	token string           // token that every form has
	mux   *http.ServeMux

	mu      sync.Mutex
	pages   map[string]*followed // followed pages by base
	used    map[string]time.Time // time of the last use, by base
	notices map[string]notice
}

// notice is the outcome of a request, shown once.
type notice struct {
	text   string
	failed bool
}

// New returns the handler of a connection's sessions.
func New(conn *hall.Connection, o Options) *Handler {
	h := &Handler{
		Options: o, conn: conn, token: rand.Text(), mux: http.NewServeMux(),
		pages: map[string]*followed{}, used: map[string]time.Time{}, notices: map[string]notice{},
	}
	h.mux.HandleFunc("GET /{$}", h.list)
	h.mux.HandleFunc("GET /sessions/{id}", h.page)
	h.mux.HandleFunc("GET /sessions/{id}/events", h.events)
	h.mux.HandleFunc("GET /sessions/{id}/steps/{agent}/{number}", h.step)
	h.mux.HandleFunc("GET /sessions/{id}/evaluations/{label}", h.evaluation)
	h.mux.HandleFunc("GET /sessions/{id}/files/{label}/{path...}", h.file)
	h.mux.HandleFunc("POST /sessions/{id}/{verb}", h.steer)
	h.mux.HandleFunc("GET /pipelines/{id}", h.page)
	h.mux.HandleFunc("GET /pipelines/{id}/events", h.events)
	h.mux.HandleFunc("GET /pipelines/{id}/visits/{visit}/{path...}", h.visited)
	h.mux.HandleFunc("POST /pipelines/{id}/{verb}", h.steer)
	h.mux.HandleFunc("GET /scenarios/{id}", h.page)
	h.mux.HandleFunc("GET /scenarios/{id}/events", h.events)
	h.mux.HandleFunc("GET /scenarios/{id}/evidence/{path...}", h.evidence)
	h.mux.HandleFunc("POST /scenarios/{id}/{verb}", h.steer)
	return h
}

// Directory returns a handler for one local directory of a session or a pipeline's run, and
// the path of its page.
func Directory(name string, store artifact.Store, root *os.Root) (*Handler, string) {
	h := New(nil, Options{ReadOnly: true})
	f := newFollowed(name, sessions+name, newSession(record.NewReader(store, artifact.Layout{}, root)))
	if root != nil {
		if _, err := root.Stat("pipeline.json"); err == nil {
			f = newFollowed(name, pipelines+name, &pipeline{store: store})
		} else if record.IsScenario(root) {
			f = newFollowed(name, scenarios+name, newScenarioRun(store, artifact.Layout{}, scenarios+name))
		}
	}
	h.pages[f.base] = f
	return h, f.base
}

// The paths of pages, up to the ID.
const (
	sessions  = "/sessions/"
	pipelines = "/pipelines/"
	scenarios = "/scenarios/"
)

// kindOf returns the part of a page's path before the ID.
func kindOf(path string) string {
	for _, kind := range []string{pipelines, scenarios} {
		if strings.HasPrefix(path, kind) {
			return kind
		}
	}
	return sessions
}

// ServeHTTP implements http.Handler. Requests have passed an access.Gate.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", page.ServedPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin") // without it browsers hide the origin of forms
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	h.mux.ServeHTTP(w, r)
}

// followed returns the page for a request.
func (h *Handler) followed(r *http.Request) (*followed, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget()
	id, kind := r.PathValue("id"), kindOf(r.URL.Path)
	base := kind + id
	if f := h.pages[base]; f != nil {
		h.used[base] = time.Now()
		return f, nil
	}
	if h.conn == nil || hall.CheckRunID(id) != nil {
		return nil, record.ErrNone
	}
	if h.conn.Store == nil {
		return nil, errors.New("the pages of a cluster's sessions are made from its bucket: name it with --bucket")
	}
	f, err := h.begin(r.Context(), id, kind)
	if err != nil {
		return nil, err
	}
	h.pages[base], h.used[base] = f, time.Now()
	return f, nil
}

// begin creates the page of a run.
func (h *Handler) begin(ctx context.Context, id, kind string) (*followed, error) {
	workflow, layout, status := id, artifact.InBucket(id), "status.json"
	var of subject
	switch kind {
	case sessions:
		of = newSession(record.NewReader(h.conn.Store, layout, nil))
	case pipelines:
		layout = artifact.InPipeline(id)
		of = &pipeline{store: h.conn.Store, layout: layout}
	case scenarios:
		run, err := findScenario(ctx, h.conn.Store, id)
		if err != nil {
			return nil, err
		}
		of, layout, workflow, status = run, run.layout, run.workflow(), "result.json"
	}
	f := newFollowed(id, kind+id, of)
	f.status = func(ctx context.Context) ([]byte, error) { return h.conn.Store.Get(ctx, layout.File(status)) }
	if h.conn.Client == nil {
		return f, nil
	}
	f.doing = func(ctx context.Context) []progress.Activity { return runs.Activities(ctx, h.conn, workflow) }
	if !h.ReadOnly {
		f.live.Token = h.token
	}
	if !h.conn.Cluster {
		f.live.Temporal = h.conn.URL(workflow)
	}
	return f, nil
}

// forget drops pages that have no reader and were not requested for a while. The page of a
// directory is kept.
func (h *Handler) forget() {
	const enough = 10 * time.Minute
	if h.conn == nil {
		return
	}
	for base, at := range h.used {
		f := h.pages[base]
		f.mu.Lock()
		unread := f.readers == 0
		f.mu.Unlock()
		if unread && time.Since(at) > enough {
			delete(h.pages, base)
			delete(h.used, base)
		}
	}
}

// fail sends an error reply.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if errors.Is(err, record.ErrNone) || errors.Is(err, artifact.ErrNotFound) {
		status = http.StatusNotFound
	}
	http.Error(w, err.Error(), status)
}

func (h *Handler) page(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	var html []byte
	f, err := h.followed(r)
	if err == nil {
		said := h.takeNotice(r.URL.Query().Get("n"))
		html, err = f.page(r.Context(), said.text, said.failed)
	}
	if errors.Is(err, record.ErrNone) && h.starts(r.Context(), id) {
		w.Header().Set("Refresh", "1")
		html, err = page.Starting(id)
	}
	if err != nil {
		fail(w, fmt.Errorf("%s: %w", id, err))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(html)
}

// starts reports whether a run without a record is running. Its first activity writes the record.
func (h *Handler) starts(ctx context.Context, id string) bool {
	return h.conn != nil && h.conn.Client != nil && runs.IsOpen(ctx, h.conn, h.Kinds, id)
}

// events sends changed parts until the session has ended or the reader disconnects.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	f, err := h.followed(r)
	if err != nil {
		fail(w, err)
		return
	}
	defer f.join()()
	w.Header().Set("Content-Type", "text/event-stream")
	version := f.since(r.URL.Query().Get("since"))
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		version = f.since(id)
	}
	out := http.NewResponseController(w)
	const beat = 15 * time.Second
	for {
		parts, now, changed, ended := f.after(version)
		message := ": still here\n\n"
		if len(parts) > 0 {
			data, err := json.Marshal(parts)
			if err != nil {
				return
			}
			message = "id: " + f.at(now) + "\ndata: " + string(data) + "\n\n"
		}
		version = now
		if ended {
			message += "event: end\ndata: \n\n"
		}
		if _, err := w.Write([]byte(message)); err != nil || out.Flush() != nil || ended {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-time.After(beat):
		}
	}
}
