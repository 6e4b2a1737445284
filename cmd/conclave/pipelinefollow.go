package main

import (
	"context"
	"time"

	"conclave/cmd/conclave/progress"
	"conclave/engine/coordination"
	"conclave/engine/pipeline"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
)

// pipelineFollower shows one run of a pipeline until it ends: a line for every
// passing of control.
type pipelineFollower struct {
	follower
}

// followPipelineAndPrint follows a run and prints what came out, which for an
// interrupted one in automation is that it runs.
func (c *cli) followPipelineAndPrint(ctx context.Context, p *place, k known) error {
	out := c.stderr
	if c.automation {
		out = c.stdout
	}
	f := &pipelineFollower{follower{cli: c, place: p, session: k, display: progress.NewLines(out), lastAnswer: time.Now()}}
	r, err := attend(ctx, func(ctx context.Context) (pipelineflow.Result, error) { return awaitPipeline(ctx, p, k) }, f.look)
	if err != nil {
		if !c.people() {
			if printErr := c.printJSON(runningPipeline(k)); printErr != nil {
				return printErr
			}
		}
		return c.lostSight(ctx, p, k, err)
	}
	if f.session.running() {
		f.session.closed = time.Now()
	}
	// The result is known: a display that misses the last events is no failure.
	_ = f.look(ctx)
	return c.printPipelineResult(ctx, p, f.session, r)
}

// look asks for the state and shows what is new. It fails only when there is no
// point in asking again.
func (f *pipelineFollower) look(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f.describe(asking)
	var state pipelineflow.State
	if err := query(asking, f.place, f.session.workflow, drive.StateQuery, &state); err != nil {
		if ctx.Err() != nil || time.Since(f.lastAnswer) < patience {
			return nil
		}
		return f.diagnose(ctx)
	}
	f.lastAnswer = time.Now()
	s := progress.Snapshot{
		Elapsed: f.session.elapsed(), Delays: f.delays(), Holds: f.cli.pipelineHolds(state, f.session.workflow),
		// What a first look finds in an older run was not seen happening.
		Earlier: f.seen == 0 && f.session.elapsed() > patience,
	}
	if state.Events > f.seen {
		var entries []pipeline.Entry
		if err := query(asking, f.place, f.session.workflow, drive.TimelineQuery, &entries); err == nil {
			s.News, s.Missed = f.news(shownEntries(entries))
		}
	}
	f.display.Show(s)
	return nil
}

// shownEntries are the entries of a pipeline's timeline as they are shown.
func shownEntries(entries []pipeline.Entry) []coordination.Entry {
	var shown []coordination.Entry
	for _, e := range entries {
		shown = append(shown, coordination.Entry{Seq: e.Seq, Text: e.Text})
	}
	return shown
}

// pipelineHolds says what a person is waited for in a run that has not ended.
func (c *cli) pipelineHolds(s pipelineflow.State, workflow string) []progress.Hold {
	if s.Status != drive.Running {
		return nil
	}
	return c.heldBy(workflow, s.Paused, s.Parked, "runs the step again, cancel ends the run")
}
