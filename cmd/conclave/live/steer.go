package live

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"net/url"

	"conclave/cmd/conclave/runs"
	"conclave/engine/coordination"
)

// steer sends the update of a form to the session and redirects to the page.
func (h *Handler) steer(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4*coordination.MaxText)
	id, verb := r.PathValue("id"), r.PathValue("verb")
	switch {
	case r.ParseForm() != nil:
		http.Error(w, "the form is too long or malformed", http.StatusBadRequest)
		return
	case h.ReadOnly || h.conn == nil || h.conn.Client == nil:
		http.Error(w, "this server is read-only", http.StatusForbidden)
		return
	case subtle.ConstantTimeCompare([]byte(r.PostForm.Get("token")), []byte(h.token)) != 1:
		http.Error(w, "the form has no valid token; load the page again", http.StatusForbidden)
		return
	}
	said, err := runs.Steer(r.Context(), h.conn, h.Kinds, id, runs.Request{
		Verb: verb, Agent: r.PostForm.Get("agent"), Text: r.PostForm.Get("text"),
	})
	outcome := notice{text: said}
	if err != nil {
		outcome = notice{text: err.Error(), failed: true}
	}
	to := kindOf(r.URL.Path) + url.PathEscape(id) + "?n=" + h.keepNotice(outcome)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// keepNotice stores the outcome of a request for the next page.
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

func (h *Handler) takeNotice(key string) notice {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.notices[key]
	delete(h.notices, key)
	return n
}
