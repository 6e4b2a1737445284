package main

import (
	"context"
	"fmt"
	"strings"

	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/transcript"
	"conclave/engine/artifact"
	"conclave/engine/step"
)

// readSegment finds a step of a pipeline's run, or says what there is instead. There
// is no session with this ID.
func (c *cli) readSegment(ctx context.Context, p *place, want wanted) (transcript.Step, error) {
	layout := artifact.InPipeline(want.session)
	there, err := p.store.Exists(ctx, layout.File("pipeline.json"))
	if err != nil {
		return transcript.Step{}, fmt.Errorf("look for pipeline run %s: %w", want.session, err)
	}
	if !there {
		return transcript.Step{}, c.noFiles(p, want.session)
	}
	segments, err := transcript.Segments(ctx, p.store, layout)
	if err != nil {
		return transcript.Step{}, err
	}
	s := transcript.Step{Agent: want.agent}
	for _, g := range segments { // the last one that fits
		if g.Step == want.agent && (want.step == 0 || want.step == g.Number) {
			s.Number = g.Number
		}
	}
	if s.Number == 0 {
		return s, c.noSegment(want, segments)
	}
	dir := layout.Segment(s.Number, s.Agent, "")
	s.Transcript, err = step.ReadTranscript(ctx, p.store, layout, dir)
	if err != nil {
		return s, fmt.Errorf("show step %03d, %s, of pipeline run %s: %w", s.Number, s.Agent, want.session, err)
	}
	if last, err := artifact.ReadJSON[artifact.LastAction](ctx, p.store, dir+"last_action.json"); err == nil {
		s.Failure = last.Error
	}
	return s, nil
}

// noSegment says which steps a run has.
func (c *cli) noSegment(want wanted, segments []transcript.Segment) error {
	if len(segments) == 0 {
		return end(exitUsage, "pipeline run %s has no steps yet; `%s` shows how it stands", want.session, c.again("status", want.session))
	}
	var all []string
	for _, g := range segments {
		all = append(all, fmt.Sprintf("%s %03d", g.Step, g.Number))
	}
	asked := progress.Cut(want.agent, maxEcho)
	if want.step > 0 {
		asked += fmt.Sprintf(" %03d", want.step)
	}
	return end(exitUsage, "pipeline run %s has no step %q; it has %s", want.session, asked, progress.Cut(strings.Join(all, ", "), maxListed))
}
