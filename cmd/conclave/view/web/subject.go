package web

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/view/page"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
)

func newSubject(run record.Run, base string) subject {
	switch run.Kind {
	case record.Pipelines:
		return &pipeline{run: run}
	case record.Scenarios:
		return &scenarioRun{run: run, base: base, canvas: page.NewCanvas()}
	}
	return newSession(run.Reader())
}

// session is the subject of a session's page.
type session struct {
	reader *record.Reader
	canvas *page.Canvas
	last   *record.Session
}

func newSession(reader *record.Reader) *session {
	return &session{reader: reader, canvas: page.NewCanvas()}
}

func (s *session) readRecord(ctx context.Context) error {
	last, err := s.reader.Read(ctx)
	if err == nil {
		s.last = last
	}
	return err
}

func (s *session) drawPage(ctx context.Context, live page.Live, now time.Time) (drawing, error) {
	return page.Draw(ctx, s.last, live, now, s.canvas), nil
}

func (s *session) isRunning() bool { return s.last.Running() }

func (s *session) findFolder(label string) (folder, error) {
	p := s.last.Answered(label)
	if p == nil {
		return folder{}, artifact.ErrNotFound
	}
	return folder{label, p.Answer.Files, func(ctx context.Context, f artifact.File, limit int64) ([]byte, error) {
		return s.reader.Content(ctx, p.Dir, f, limit)
	}}, nil
}

// pipeline is the subject of the page of a pipeline's run.
type pipeline struct {
	run  record.Run
	last *record.Pipeline
}

func (p *pipeline) readRecord(ctx context.Context) error {
	last, err := record.ReadPipeline(ctx, p.run.Store, p.run.Layout)
	if err == nil {
		p.last = last
	}
	return err
}

func (p *pipeline) drawPage(ctx context.Context, live page.Live, now time.Time) (drawing, error) {
	return page.DrawPipeline(ctx, p.last, live, now)
}

func (p *pipeline) isRunning() bool { return p.last.Running() }

func (p *pipeline) findFolder(label string) (folder, error) {
	number, _ := strconv.Atoi(label) // 0 is no visit
	if number < 1 || number > len(p.last.Visits) {
		return folder{}, artifact.ErrNotFound
	}
	v := p.last.Visits[number-1]
	return folder{"visit " + strconv.Itoa(number), v.Files, func(ctx context.Context, f artifact.File, limit int64) ([]byte, error) {
		return p.run.Content(ctx, v.Dir, f, limit)
	}}, nil
}

// scenarioRun is the subject of the page of a scenario's run.
type scenarioRun struct {
	run    record.Run
	base   string // path of the page
	canvas *page.Canvas
	last   scenario.Run
}

func (s *scenarioRun) readRecord(ctx context.Context) error {
	last, err := record.ReadScenario(ctx, s.run.Store, s.run.Layout)
	if err == nil {
		s.last = last
	}
	return err
}

func (s *scenarioRun) drawPage(ctx context.Context, live page.Live, now time.Time) (drawing, error) {
	run := page.ScenarioRun{
		Run:      s.last,
		Evidence: func(path string) []byte { return s.run.ReadEvidence(ctx, path) },
		Link:     func(path string) string { return s.base + "/evidence/" + (&url.URL{Path: path}).EscapedPath() },
	}
	return page.DrawScenario(run, live, now, s.canvas)
}

func (s *scenarioRun) isRunning() bool { return !s.last.Over() }

func (s *scenarioRun) findFolder(string) (folder, error) {
	of := folder{read: func(ctx context.Context, f artifact.File, _ int64) ([]byte, error) {
		return s.run.Store.Get(ctx, s.run.Layout.File(f.Path))
	}}
	for _, step := range s.last.Steps {
		paths := step.EvidencePaths
		for _, a := range step.Attempts {
			paths = append(paths[:len(paths):len(paths)], a.EvidencePaths...)
		}
		for _, name := range paths {
			of.files = append(of.files, artifact.File{Path: name})
		}
	}
	return of, nil
}
