package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"conclave/cmd/conclave/progress"
	"conclave/engine/pipeline"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
)

// pipelineStatus is one look at a run of a pipeline.
func (c *cli) pipelineStatus(ctx context.Context, p *place, k known) error {
	var state pipelineflow.State
	if err := query(ctx, p, k.workflow, drive.StateQuery, &state); err != nil {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case k.running():
			return fmt.Errorf("ask pipeline run %s for its state: %w; its status is %s, and a worker has to run on the task queue %s to say more",
				k.id, err, k.status, p.queue)
		}
		r, err := awaitPipeline(ctx, p, k)
		if err != nil {
			return err
		}
		state = closedPipeline(k, r)
	}
	if !k.running() {
		// Temporal may have ended it without asking.
		state.Status, state.Paused, state.Parked, state.Step = pipelineStatusOf(k), false, nil, ""
	}
	if !c.people() {
		if k.offline {
			c.say("%s", offlinePipelineNote)
		}
		return c.printJSON(state)
	}
	lines := pipelineTable(state, k)
	for _, h := range c.pipelineHolds(state, k.workflow) {
		lines = append(lines, "  "+h.Why, "    "+h.Release)
	}
	if k.running() {
		lines = append(lines, "  follow it: "+c.again("watch", k.workflow))
	} else {
		lines = append(lines, "  its result: "+c.again("result", k.workflow))
	}
	if !p.cluster {
		lines = append(lines, "  in the browser while a stack runs: "+p.link(k.workflow))
	}
	_, err := io.WriteString(c.stdout, progress.Plain(strings.Join(lines, "\n")+"\n"))
	return unprinted(err)
}

// pipelineStatusOf is the status of a run that has ended, in its own words.
func pipelineStatusOf(k known) string {
	if k.status == statusFailed {
		return string(pipeline.Failed)
	}
	return k.status
}

// closedPipeline is as much of a run's state as its result and its memo say.
func closedPipeline(k known, r pipelineflow.Result) pipelineflow.State {
	state := pipelineflow.State{ID: k.id, Request: k.query, Status: string(r.Status)}
	if r.Error != nil {
		state.Reason = r.Error.Message
	}
	state.Stack, state.Trace, state.Transitions, state.Usage = []string{}, r.Trace, r.Transitions, r.Usage
	return state
}

// pipelineTable is a run as a table.
func pipelineTable(s pipelineflow.State, k known) []string {
	parts := []string{k.id, strings.ReplaceAll(s.Status, "_", " ")}
	if s.Paused {
		parts = append(parts, "paused")
	}
	if s.Parked != nil {
		parts = append(parts, "parked")
	}
	parts = append(parts, progress.Clock(k.elapsed().Round(time.Second)))
	if k.offline {
		parts = append(parts, "offline models")
	}
	lines := []string{strings.Join(parts, " · ")}
	if request := progress.Line(s.Request); request != "" {
		lines = append(lines, "  "+progress.Cut(request, maxMemoQuery))
	}
	lines = append(lines, traceTable(s.Trace)...)
	if s.Step != "" && s.Status == drive.Running {
		lines = append(lines, "  at "+s.Step)
	}
	if len(s.Stack) > 0 {
		lines = append(lines, "  waiting for a step they called: "+strings.Join(s.Stack, ", "))
	}
	if s.Reason != "" {
		lines = append(lines, "  "+progress.Line(s.Reason))
	}
	return append(lines, "  "+progress.Plural(s.Transitions, "transition")+" · "+progress.Cost(s.Usage))
}

// traceTable is what has ended, a line each.
func traceTable(trace []pipeline.Segment) []string {
	if len(trace) == 0 {
		return nil
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, g := range trace {
		then := progress.Cut(progress.Line(g.Text), 60)
		switch {
		case g.Error != nil:
			then = progress.Cut(progress.Line(g.Error.Type+": "+g.Error.Message), maxFailure)
		case g.Action != pipeline.NoAction:
			then = string(g.Action) + " " + progress.Line(g.To)
		}
		number := fmt.Sprintf("%03d", g.Number)
		if g.Number == 0 { // it came to an end without a directory
			number = "–"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s tokens\t%s\n", number, progress.Line(g.Step),
			strings.ReplaceAll(string(g.Status), "_", " "), progress.Count(g.Usage.InputTokens+g.Usage.OutputTokens), then)
	}
	_ = table.Flush() // a builder takes everything
	return strings.Split(trimLines(strings.TrimRight(out.String(), "\n")), "\n")
}
