package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/activities"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/view/page"
	"conclave/engine/files/artifact"
)

// Options configure a Handler.
type Options struct {
	Kinds    []*runs.Kind // kinds of the runs that can be steered and listed
	ReadOnly bool
	AnyUser  bool          // every user of this machine may connect
	Desk     *gateway.Desk // starts sessions; nil to start them with the default team of the workers
}

// Handler serves the pages of a connection's sessions, or of one directory.
type Handler struct {
	Options
	conn  *cli.Connection // nil for a directory
	token string          // token that every form has
	mux   *http.ServeMux

	mu      sync.Mutex
	pages   map[string]*followed // followed pages by base
	used    map[string]time.Time // time of the last use, by base
	notices map[string]notice
}

// New returns the handler of a connection's sessions.
func New(conn *cli.Connection, o Options) *Handler {
	if o.Desk == nil {
		o.Desk = gateway.New(conn, []gateway.Team{gateway.WorkersTeam(activities.DefaultTeam)}, "")
	}
	h := &Handler{
		Options: o, conn: conn, token: rand.Text(), mux: http.NewServeMux(),
		pages: map[string]*followed{}, used: map[string]time.Time{}, notices: map[string]notice{},
	}
	h.mux.HandleFunc("GET /{$}", h.serveList)
	for _, base := range []string{"/sessions/{id}", "/pipelines/{id}", "/scenarios/{slug}/{id}"} {
		h.mux.HandleFunc("GET "+base, h.servePage)
		h.mux.HandleFunc("GET "+base+"/events", h.serveEvents)
		h.mux.HandleFunc("GET "+base+"/newer", h.goBeside)
		h.mux.HandleFunc("GET "+base+"/older", h.goBeside)
		h.mux.HandleFunc("POST "+base+"/{verb}", h.steerRun)
	}
	h.mux.HandleFunc("POST /ask", h.startSession)
	h.mux.HandleFunc("POST /sessions/{id}/continue", h.startSession)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		SendProblem(w, http.StatusNotFound, "nothing is at "+r.URL.Path)
	})
	h.mux.HandleFunc("GET /sessions/{id}/steps/{agent}/{number}", h.serveTranscript)
	h.mux.HandleFunc("GET /sessions/{id}/evaluations/{label}", h.serveTranscript)
	h.mux.HandleFunc("GET /sessions/{id}/files/{label}/{path...}", h.serveFile)
	h.mux.HandleFunc("GET /pipelines/{id}/visits/{label}/{path...}", h.serveFile)
	h.mux.HandleFunc("GET /scenarios/{slug}/{id}/evidence/{path...}", h.serveFile)
	h.mux.HandleFunc("GET /scenarios/{id}", h.redirectToRun)
	return h
}

// Directory returns a handler for one local directory of a run, and the path of its page.
func Directory(name string, run record.Run) (*Handler, string) {
	h := New(nil, Options{ReadOnly: true})
	if run.ID = name; run.Kind == record.Scenarios {
		run.ID = "directory/" + name
	}
	h.pages[run.Page()] = newFollowed(run.Page(), newSubject(run, run.Page()))
	return h, run.Page()
}

// runOf returns the run whose page a request is about, whether or not it exists.
func runOf(r *http.Request) record.Run {
	kind := record.Sessions
	for _, k := range record.Kinds {
		if strings.HasPrefix(r.URL.Path, "/"+k.Folder+"/") {
			kind = k
		}
	}
	id := r.PathValue("id")
	if slug := r.PathValue("slug"); slug != "" {
		id = slug + "/" + id
	}
	return kind.At(nil, id)
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

func (h *Handler) followedPage(r *http.Request) (*followed, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetUnread()
	run := runOf(r)
	base := run.Page()
	if f := h.pages[base]; f != nil {
		h.used[base] = time.Now()
		return f, nil
	}
	if h.conn == nil || record.CheckID(run.ID) != nil {
		return nil, record.ErrNone
	}
	if run.Store = h.conn.Store; run.Store == nil {
		return nil, errors.New("the pages of a cluster's sessions are made from its bucket: name it with --bucket")
	}
	f := h.followRun(run)
	h.pages[base], h.used[base] = f, time.Now()
	return f, nil
}

func (h *Handler) followRun(run record.Run) *followed {
	f := newFollowed(run.Page(), newSubject(run, run.Page()))
	f.status = func(ctx context.Context) ([]byte, error) { return run.Store.Get(ctx, run.Layout.File(run.Kind.Status)) }
	f.live.Command, f.live.Beside = h.conn.CommandLine, true
	if h.conn.Client == nil {
		return f
	}
	f.target = func() string { return h.target(run) }
	f.activities = func(ctx context.Context) []cli.Activity { return runs.Activities(ctx, h.conn, run.WorkflowID()) }
	if !h.ReadOnly {
		f.live.Token = h.token
	}
	if !h.conn.Cluster {
		f.live.Temporal = h.conn.URL(run.WorkflowID())
	}
	return f
}

// forgetUnread drops pages that have no reader and were not requested for a while. The page of a
// directory is kept.
func (h *Handler) forgetUnread() {
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

func statusOf(err error) int {
	if errors.Is(err, record.ErrNone) || errors.Is(err, artifact.ErrNotFound) {
		return http.StatusNotFound
	}
	return http.StatusBadGateway
}

// sendError answers the request of a script or a download.
func sendError(w http.ResponseWriter, err error) { http.Error(w, err.Error(), statusOf(err)) }

// SendProblem answers the request of a page with a page that says why there is no other.
func SendProblem(w http.ResponseWriter, status int, why string) {
	title := map[int]string{http.StatusNotFound: "There is no such page", http.StatusForbidden: "Refused", http.StatusBadRequest: "That cannot be read"}[status]
	html, err := page.Problem(cmp.Or(title, "It cannot be shown now"), why)
	if err != nil {
		http.Error(w, why, status)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(html)
}

func (h *Handler) servePage(w http.ResponseWriter, r *http.Request) {
	run, key := runOf(r), r.URL.Query().Get("n")
	var html []byte
	f, err := h.followedPage(r)
	if err == nil {
		said := h.lookNotice(key)
		html, err = f.renderPage(r.Context(), said.text, said.failed)
	}
	switch {
	case errors.Is(err, record.ErrNone) && h.isStarting(r.Context(), run.ID):
		h.sendStarting(w, run.ID, h.lookNotice(key).text)
		return
	case errors.Is(err, record.ErrNone):
		SendProblem(w, http.StatusNotFound, "there is no "+run.Kind.Noun+" "+run.ID)
		return
	case err != nil:
		SendProblem(w, statusOf(err), fmt.Sprintf("%s: %v", run.ID, err))
		return
	}
	h.takeNotice(key)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(html)
}

// isStarting reports whether a run without a record is running. Its first activity writes the record.
func (h *Handler) isStarting(ctx context.Context, id string) bool {
	return h.conn != nil && h.conn.Client != nil && runs.IsOpen(ctx, h.conn, h.Kinds, id)
}

func (h *Handler) sendStarting(w http.ResponseWriter, id, notice string) {
	html, err := page.Starting(id, notice)
	if err != nil {
		SendProblem(w, http.StatusBadGateway, err.Error())
		return
	}
	w.Header().Set("Refresh", "1")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(html)
}

// serveEvents sends changed parts until the session has ended or the reader disconnects.
func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	f, err := h.followedPage(r)
	if err != nil {
		sendError(w, err)
		return
	}
	defer f.addReader()()
	w.Header().Set("Content-Type", "text/event-stream")
	version := f.parseVersion(r.URL.Query().Get("since"))
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		version = f.parseVersion(id)
	}
	out := http.NewResponseController(w)
	const beat = 15 * time.Second
	for {
		parts, now, changed, ended := f.newerParts(version)
		message := ": still here\n\n"
		if len(parts) > 0 {
			data, _ := json.Marshal(parts) // parts always have a JSON form
			message = "id: " + f.versionID(now) + "\ndata: " + string(data) + "\n\n"
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

func (h *Handler) serveTranscript(w http.ResponseWriter, r *http.Request) {
	f, err := h.followedPage(r)
	var html []byte
	if err == nil {
		html, err = f.renderTranscript(r.Context(), r.PathValue)
	}
	if err != nil {
		sendError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(html)
}

// folder has the files of an answer, of a visit of a pipeline's step, or of a scenario's run.
type folder struct {
	name  string
	files []artifact.File
	read  func(ctx context.Context, f artifact.File, limit int64) ([]byte, error)
}

// serveFile sends a file of a folder: rendered for the page with ?view, or else as a download.
func (h *Handler) serveFile(w http.ResponseWriter, r *http.Request) {
	f, err := h.followedPage(r)
	var of folder
	if err == nil {
		of, err = f.findFolder(r.Context(), r.PathValue("label"))
	}
	i := slices.IndexFunc(of.files, func(f artifact.File) bool { return f.Path == r.PathValue("path") && f.Link == "" })
	if err == nil && i < 0 {
		err = artifact.ErrNotFound
	}
	if err != nil {
		sendError(w, err)
		return
	}
	each := of.files[i]
	_, viewed := r.URL.Query()["view"]
	const most = 512 << 10
	limit := each.Size
	if viewed {
		limit = min(limit, most)
	}
	data, err := of.read(r.Context(), each, limit)
	if err != nil {
		sendError(w, err)
		return
	}
	if viewed {
		if data, err = page.File(of.name, each, data); err != nil {
			sendError(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="`+strings.Map(quotableRune, path.Base(each.Path))+`"`)
	}
	_, _ = w.Write(data)
}

// quotableRune replaces characters that a quoted header value cannot contain.
func quotableRune(r rune) rune {
	if r < ' ' || r > '~' || r == '"' || r == '\\' {
		return '_'
	}
	return r
}

// redirectToRun redirects to the page of the run that has a bare ID of a scenario's run.
func (h *Handler) redirectToRun(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	run, err := record.Run{}, record.ErrNone
	if h.conn != nil && h.conn.Store != nil && record.CheckID(id) == nil {
		run, err = record.Find(r.Context(), h.conn.Store, id)
	}
	switch {
	case err == nil:
		http.Redirect(w, r, run.Page(), http.StatusSeeOther)
	case errors.Is(err, record.ErrNone) && h.isStarting(r.Context(), id):
		h.sendStarting(w, id, "")
	case errors.Is(err, record.ErrNone):
		SendProblem(w, http.StatusNotFound, "there is no scenario run "+id)
	default:
		SendProblem(w, statusOf(err), err.Error())
	}
}
