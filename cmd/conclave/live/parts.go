package live

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"conclave/cmd/conclave/page"
	"conclave/cmd/conclave/record"
	"conclave/engine/artifact"
	"conclave/engine/step"
)

// step sends the transcript of a step, which may still be running.
func (h *Handler) step(w http.ResponseWriter, r *http.Request) {
	f, s, ok := h.current(w, r)
	if !ok {
		return
	}
	number, _ := strconv.Atoi(r.PathValue("number")) // 0 is no step
	p := s.Step(r.PathValue("agent"), number)
	if p == nil {
		fail(w, record.ErrNone)
		return
	}
	t, err := f.session.reader.Transcript(r.Context(), p)
	sendTranscript(w, t, p, err)
}

// current returns the session that a request refers to, as of the last reading of its page. If
// no session has that ID, it sends the error and ok is false.
func (h *Handler) current(w http.ResponseWriter, r *http.Request) (f *followed, s *record.Session, ok bool) {
	f, err := h.followed(r)
	if err == nil {
		s, err = f.current(r.Context())
	}
	if err != nil {
		fail(w, err)
		return nil, nil, false
	}
	return f, s, true
}

// evaluation sends the transcript of an answer's evaluation.
func (h *Handler) evaluation(w http.ResponseWriter, r *http.Request) {
	f, s, ok := h.current(w, r)
	if !ok {
		return
	}
	p := s.Answered(r.PathValue("label"))
	if p == nil || p.Evaluation == nil {
		fail(w, artifact.ErrNotFound)
		return
	}
	t, err := f.session.reader.EvaluationTranscript(r.Context(), p)
	sendTranscript(w, t, p, err)
}

// sendTranscript sends a transcript, or the page's text for a missing one.
func sendTranscript(w http.ResponseWriter, t step.Transcript, p *record.Step, err error) {
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		fail(w, err)
		return
	}
	html, err := page.Transcript(t, p)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(html)
}

// file sends a file of an answer: rendered for the page with ?view, or else as a download.
func (h *Handler) file(w http.ResponseWriter, r *http.Request) {
	f, s, ok := h.current(w, r)
	if !ok {
		return
	}
	p := s.Answered(r.PathValue("label"))
	if p == nil {
		fail(w, artifact.ErrNotFound)
		return
	}
	send(w, r, p.Answer.Label, p.Answer.Files, func(each artifact.File, limit int64) ([]byte, error) {
		return f.session.reader.Content(r.Context(), p.Dir, each, limit)
	})
}

// visited sends a file of a visit of a pipeline's step like one of an answer.
func (h *Handler) visited(w http.ResponseWriter, r *http.Request) {
	f, err := h.followed(r)
	var run *record.Pipeline
	if err == nil {
		run, err = f.run(r.Context())
	}
	if err != nil {
		fail(w, err)
		return
	}
	number, _ := strconv.Atoi(r.PathValue("visit")) // 0 is no visit
	if number < 1 || number > len(run.Visits) {
		fail(w, artifact.ErrNotFound)
		return
	}
	v := run.Visits[number-1]
	send(w, r, "visit "+strconv.Itoa(number), v.Files, func(each artifact.File, limit int64) ([]byte, error) {
		return run.Content(r.Context(), v.Dir, each, limit)
	})
}

// send sends the requested one of some files.
func send(w http.ResponseWriter, r *http.Request, name string, files []artifact.File, read func(each artifact.File, limit int64) ([]byte, error)) {
	i := slices.IndexFunc(files, func(f artifact.File) bool { return f.Path == r.PathValue("path") && f.Link == "" })
	if i < 0 {
		fail(w, artifact.ErrNotFound)
		return
	}
	each := files[i]
	_, viewed := r.URL.Query()["view"]
	const most = 512 << 10
	limit := each.Size
	if viewed {
		limit = min(limit, most)
	}
	data, err := read(each, limit)
	if err != nil {
		fail(w, err)
		return
	}
	if viewed {
		if data, err = page.File(name, each, data); err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	} else {
		attach(w, path.Base(each.Path))
	}
	_, _ = w.Write(data)
}

// attach marks a reply as a download with a file name.
func attach(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+strings.Map(plain, name)+`"`)
}

// plain replaces characters that a quoted header value cannot contain.
func plain(r rune) rune {
	if r < ' ' || r > '~' || r == '"' || r == '\\' {
		return '_'
	}
	return r
}
