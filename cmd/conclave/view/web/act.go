package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"conclave/activities"
	acts "conclave/activities/session"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/inputs"
	"conclave/cmd/conclave/run/outputs"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/view/page"
	"conclave/engine/coordination"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// notice is the outcome of a request, shown once.
type notice struct {
	text   string
	failed bool
}

// admitForm reports whether the form of a request may change something. If not, it has replied.
func (h *Handler) admitForm(w http.ResponseWriter, r *http.Request, most int64) bool {
	r.Body = http.MaxBytesReader(w, r.Body, most)
	switch {
	case r.ParseForm() != nil:
		SendProblem(w, http.StatusBadRequest, "the form is too long or malformed")
	case h.ReadOnly || h.conn == nil || h.conn.Client == nil:
		SendProblem(w, http.StatusForbidden, "this server is read-only")
	case subtle.ConstantTimeCompare([]byte(r.PostForm.Get("token")), []byte(h.token)) != 1:
		SendProblem(w, http.StatusForbidden, "the form has no valid token; load the page again")
	default:
		return true
	}
	return false
}

// steerRun carries out a form on the page of a run, and redirects to the page.
func (h *Handler) steerRun(w http.ResponseWriter, r *http.Request) {
	if !h.admitForm(w, r, 4*coordination.MaxText) {
		return
	}
	run := runOf(r)
	var said string
	var err error
	if verb := r.PathValue("verb"); verb == "apply" && run.Kind == record.Sessions {
		said, err = h.applyChange(r.Context(), run, access.From(r.Context()), r.PostForm.Get("change"))
	} else {
		said, err = runs.Steer(r.Context(), h.conn, h.Kinds, run.ID, runs.Request{
			Verb: verb, Agent: r.PostForm.Get("agent"), Text: r.PostForm.Get("text"),
			Question: r.PostForm.Get("question"), Option: optionOf(r), By: access.From(r.Context()).Name,
		})
	}
	h.redirect(w, r, run.Page(), said, err)
}

// optionOf returns the option of a question that a form chooses; 0 for none.
func optionOf(r *http.Request) int {
	n, _ := strconv.Atoi(r.PostForm.Get("option")) // a form without one
	return n
}

// redirect redirects to a page that shows the outcome of a request.
func (h *Handler) redirect(w http.ResponseWriter, r *http.Request, path, said string, err error) {
	outcome := notice{text: withoutCommands(said)}
	if err != nil {
		outcome = notice{text: withoutCommands(err.Error()), failed: true}
	}
	to := url.URL{Path: path, RawQuery: "n=" + h.keepNotice(outcome)}
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

// commandClause matches the part of a message that names the next command. A page has a button for it.
var commandClause = regexp.MustCompile("[;,:] (?:or )?`conclave [^`]*`[^;\n]*")

func withoutCommands(said string) string { return commandClause.ReplaceAllString(said, "") }

func (h *Handler) keepNotice(n notice) string {
	const most = 100
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.notices) >= most {
		clear(h.notices)
	}
	key := rand.Text()
	h.notices[key] = n
	return key
}

// lookNotice returns a notice, which stays until it is taken.
func (h *Handler) lookNotice(key string) notice {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.notices[key]
}

func (h *Handler) takeNotice(key string) notice {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.notices[key]
	delete(h.notices, key)
	return n
}

// startSession starts a session with the question of a form: a new one, or one that continues the
// session of the page.
func (h *Handler) startSession(w http.ResponseWriter, r *http.Request) {
	if !h.admitForm(w, r, 4*workflows.MaxInput) {
		return
	}
	by, continues, back := access.From(r.Context()), r.PathValue("id"), "/"
	if continues != "" {
		back = record.Sessions.At(nil, continues).Page()
	}
	id, said, err := h.ask(r.Context(), by, continues, r.PostForm.Get("team"), r.PostForm.Get("text"))
	if err == nil {
		back = record.Sessions.At(nil, id).Page()
	}
	h.redirect(w, r, back, said, err)
}

// ask starts a session, which runs wherever a worker runs steps, and returns its ID. One that continues
// another has the team of that one.
func (h *Handler) ask(ctx context.Context, by access.Caller, continues, team, question string) (id, said string, err error) {
	q := gateway.Question{Input: sessionflow.Input{Query: question, Continues: continues}}
	if err = cli.CheckText("QUESTION", question, workflows.MaxInput, "put large material where the agents can read it"); err != nil {
		return "", "", err
	}
	switch {
	case strings.TrimSpace(question) == "":
		err = errors.New("the question is empty; write one")
	case continues == "":
		q.Team, err = h.Desk.Team(by, cmp.Or(team, activities.DefaultTeam))
	default:
		q.Team.Name = "session " + continues
		_, err = acts.Continue(ctx, h.conn.Store, continues)
	}
	if err != nil {
		return "", "", err
	}
	ticket, err := h.Desk.Start(ctx, by, q)
	if err != nil {
		return "", "", err
	}
	return ticket.ID, runs.Told(h.conn, func(conn *cli.Connection) {
		if dir, err := inputs.Directory(conn, continues); continues != "" && err == nil {
			inputs.Remember(conn, ticket.ID, dir)
		}
		conn.WarnIdle(ctx, conn.Queue)
	}), nil
}

// target returns the directory to which a session's change can be applied from its page: on this
// machine, by its only user.
func (h *Handler) target(run record.Run) string {
	if h.ReadOnly || h.AnyUser || h.conn.Cluster || h.conn.Client == nil || run.Kind != record.Sessions {
		return ""
	}
	dir, _ := inputs.Directory(h.conn, run.ID) // empty if it is not remembered
	return dir
}

// applyChange applies the change of a session's decision to the directory that its base came from, if
// it is the change that the page showed.
func (h *Handler) applyChange(ctx context.Context, run record.Run, by access.Caller, shown string) (said string, err error) {
	dir := h.target(run)
	if dir == "" || by.Name != "" {
		return "", errors.New("the change cannot be applied from here; use the command")
	}
	run.Store = h.conn.Store
	s, err := run.Reader().Read(ctx)
	if err != nil {
		return "", err
	}
	if page.HashOfPatch(s.Change) != shown {
		return "", errors.New("the change is no longer the one that was shown; look at it again")
	}
	said = runs.Told(h.conn, func(conn *cli.Connection) { err = outputs.Apply(ctx, conn, run.ID, dir) })
	return said, err
}

// goBeside redirects to the page of the next newer or older run of the same kind.
func (h *Handler) goBeside(w http.ResponseWriter, r *http.Request) {
	run := runOf(r)
	items, err := h.listItems(r.Context(), access.From(r.Context()))
	if err != nil {
		SendProblem(w, http.StatusBadGateway, err.Error())
		return
	}
	word, by := "older", 1
	if strings.HasSuffix(r.URL.Path, "/newer") {
		word, by = "newer", -1
	}
	to := page.Beside(items, run.Page(), by)
	if to == "" {
		h.redirect(w, r, run.Page(), "There is no "+word+" one.", nil)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
