package live

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"time"

	"conclave/cmd/conclave/page"
	"conclave/cmd/conclave/record"
	"conclave/engine/artifact"
	"conclave/engine/scenario"
)

// scenarioRun is the subject of the page of a scenario's run.
type scenarioRun struct {
	store  artifact.Store
	layout artifact.Layout
	base   string // base of the page
	canvas *page.Canvas
	last   scenario.Run
}

func newScenarioRun(store artifact.Store, layout artifact.Layout, base string) *scenarioRun {
	return &scenarioRun{store: store, layout: layout, base: base, canvas: page.NewCanvas()}
}

// findScenario returns the run with an ID in a store, which may not have ended.
func findScenario(ctx context.Context, store artifact.Store, id string) (*scenarioRun, error) {
	layout, err := record.FindScenario(ctx, store, id)
	if err != nil {
		return nil, err
	}
	run := newScenarioRun(store, layout, scenarios+id)
	return run, run.read(ctx)
}

// workflow returns the ID of the run's workflow.
func (s *scenarioRun) workflow() string { return "scenario-" + s.last.Scenario + "-" + s.last.RunID }

func (s *scenarioRun) read(ctx context.Context) error {
	last, err := record.ReadScenario(ctx, s.store, s.layout)
	if err == nil {
		s.last = last
	}
	return err
}

func (s *scenarioRun) draw(ctx context.Context, live page.Live, now time.Time) (drawing, error) {
	run := page.ScenarioRun{
		Run:      s.last,
		Evidence: func(path string) []byte { return Evidence(ctx, s.store, s.layout, path) },
		Link:     func(path string) string { return s.base + "/evidence/" + (&url.URL{Path: path}).EscapedPath() },
	}
	return page.DrawScenario(run, live, now, s.canvas)
}

func (s *scenarioRun) running() bool { return !s.last.Over() }

// Evidence returns a file of a scenario's run, or nil if it is missing or too large for a page.
func Evidence(ctx context.Context, store artifact.Store, layout artifact.Layout, path string) []byte {
	const most = 8 << 20
	body, err := store.Open(ctx, layout.File(path))
	if err != nil {
		return nil
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, most+1))
	if err != nil || len(data) > most {
		return nil
	}
	return data
}

// hasEvidence reports whether a path is evidence of an attempt of the run.
func (s *scenarioRun) hasEvidence(path string) bool {
	for _, step := range s.last.Steps {
		paths := step.EvidencePaths
		for _, a := range step.Attempts {
			paths = append(paths[:len(paths):len(paths)], a.EvidencePaths...)
		}
		if slices.Contains(paths, path) {
			return true
		}
	}
	return false
}

// evidence sends a file of a scenario's run as a download.
func (h *Handler) evidence(w http.ResponseWriter, r *http.Request) {
	f, err := h.followed(r)
	if err != nil {
		fail(w, err)
		return
	}
	name := r.PathValue("path")
	run, ok := f.subject.(*scenarioRun)
	if ok {
		f.mu.Lock()
		err = run.read(r.Context())
		ok = err == nil && run.hasEvidence(name)
		f.mu.Unlock()
	}
	if !ok {
		fail(w, artifact.ErrNotFound)
		return
	}
	body, err := run.store.Open(r.Context(), run.layout.File(name))
	if err != nil {
		fail(w, err)
		return
	}
	defer func() { _ = body.Close() }()
	attach(w, path.Base(name))
	_, _ = io.Copy(w, body)
}
