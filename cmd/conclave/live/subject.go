package live

import (
	"context"
	"time"

	"conclave/cmd/conclave/page"
	"conclave/cmd/conclave/record"
	"conclave/engine/artifact"
)

// session is the subject of a session's page.
type session struct {
	reader *record.Reader
	canvas *page.Canvas
	last   *record.Session
}

func newSession(reader *record.Reader) *session {
	return &session{reader: reader, canvas: page.NewCanvas()}
}

func (s *session) read(ctx context.Context) error {
	last, err := s.reader.Read(ctx)
	if err == nil {
		s.last = last
	}
	return err
}

func (s *session) draw(ctx context.Context, live page.Live, now time.Time) (drawing, error) {
	return page.Draw(ctx, s.last, live, now, s.canvas), nil
}

func (s *session) running() bool { return s.last.Running() }

// pipeline is the subject of the page of a pipeline's run.
type pipeline struct {
	store  artifact.Store
	layout artifact.Layout
	last   *record.Pipeline
}

func (p *pipeline) read(ctx context.Context) error {
	last, err := record.ReadPipeline(ctx, p.store, p.layout)
	if err == nil {
		p.last = last
	}
	return err
}

func (p *pipeline) draw(ctx context.Context, live page.Live, now time.Time) (drawing, error) {
	return page.DrawPipeline(ctx, p.last, live, now)
}

func (p *pipeline) running() bool { return p.last.Running() }
