package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	acts "conclave/activities/pipeline"
	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/engine/pipeline"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
)

// runningPipeline is the result of a run that has not ended.
func runningPipeline(k known) pipelineflow.Result {
	return pipelineflow.Result{
		ID: k.id, Status: drive.Running, Trace: []pipeline.Segment{}, History: []acts.HistoryEntry{},
	}
}

// awaitPipeline returns how the run ended, once it has.
func awaitPipeline(ctx context.Context, p *place, k known) (pipelineflow.Result, error) {
	var r pipelineflow.Result
	err := p.client.GetWorkflow(ctx, k.workflow, "").Get(ctx, &r)
	var ended *temporal.WorkflowExecutionError
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		return r, ctx.Err()
	case !errors.As(err, &ended):
		return r, fmt.Errorf("wait for pipeline run %s: %w", k.id, err)
	}
	u := unanswered(k.id, ended)
	r = runningPipeline(k)
	r.Status, r.Error = pipeline.Failed, u.Error
	if u.Status == statusCancelled {
		r.Status = pipeline.Cancelled
		r = recorded(ctx, p, k, r)
	}
	return r, nil
}

// recorded is the result.json of a run that was cancelled, where it can be read,
// else the result as it is.
func recorded(ctx context.Context, p *place, k known, r pipelineflow.Result) pipelineflow.Result {
	if p.store == nil {
		return r
	}
	reading, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	there, err := artifact.ReadJSON[pipelineflow.Result](reading, p.store, artifact.InPipeline(k.id).File("result.json"))
	if err != nil || there.Status != r.Status {
		return r
	}
	return there
}

// awaitAndPrintPipeline prints how a run ended, once it has.
func (c *cli) awaitAndPrintPipeline(ctx context.Context, p *place, k known) error {
	r, err := awaitPipeline(ctx, p, k)
	if err == nil {
		return c.printPipelineResult(ctx, p, k, r)
	}
	if !c.people() {
		if printErr := c.printJSON(runningPipeline(k)); printErr != nil {
			return printErr
		}
	}
	return c.lostSight(ctx, p, k, err)
}

// pipelineCode is the exit code for a result. An input that was refused is a usage
// error, although the refusal came from a worker.
func pipelineCode(r pipelineflow.Result) int {
	if r.Error != nil {
		switch r.Error.Type {
		case drive.InvalidInput, activities.ConfigInvalid, activities.SessionTaken:
			if len(r.Trace) == 0 {
				return exitUsage
			}
		}
	}
	if r.Status == pipeline.Completed || r.Status == pipeline.MaxIterations {
		return exitDone
	}
	return exitNoAnswer
}

// printPipelineResult prints how a run ended and returns the exit code as an error.
func (c *cli) printPipelineResult(ctx context.Context, p *place, k known, r pipelineflow.Result) error {
	if !c.people() {
		if err := c.printJSON(r); err != nil {
			return err
		}
	} else if err := c.printFinal(ctx, p, r); err != nil {
		return err
	}
	if k.offline {
		c.say("%s", offlinePipelineNote)
	}
	code := pipelineCode(r)
	if code == exitDone {
		return nil
	}
	return &endError{code: code, err: c.noFinal(r)}
}

// printFinal prints the whole final text for a person, and about the run on stderr.
func (c *cli) printFinal(ctx context.Context, p *place, r pipelineflow.Result) error {
	final := r.Final
	if r.FinalTruncated && r.FinalPath != nil {
		whole, err := wholeFinal(ctx, p, r)
		if err != nil {
			c.say("only the first %d bytes of the text are shown: %v; the whole is at %s", len(final), err, *r.FinalPath)
		} else {
			final = whole
		}
	}
	if final != "" {
		if _, err := fmt.Fprintln(c.stdout, strings.TrimRight(progress.Plain(final), "\n")); err != nil {
			return end(exitNoAnswer, "print the text: %w", err)
		}
	}
	how := strings.ReplaceAll(string(r.Status), "_", " ")
	if final == "" && pipelineCode(r) == exitDone {
		how += ", without a text"
	}
	c.say("\n%s · %s · %s", how, progress.Plural(r.Transitions, "transition"), progress.Cost(r.Usage))
	if len(r.Trace) > 0 {
		c.say("all steps and files: %s", c.pullLine(p, r.ID, r.FinalPath, "/pipelines/"))
	}
	return nil
}

// wholeFinal reads a text that was too long for the workflow's result.
func wholeFinal(ctx context.Context, p *place, r pipelineflow.Result) (string, error) {
	if p.store == nil {
		return "", errors.New("reading more needs --bucket")
	}
	layout := artifact.InPipeline(r.ID)
	_, name, ok := strings.Cut(*r.FinalPath, layout.Root())
	if !ok {
		return "", errors.New("its place is not in the run's directory")
	}
	reading, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	a, err := artifact.ReadJSON[artifact.Answer](reading, p.store, layout.File(name))
	return a.Answer, err
}

// noFinal says why a run came to nothing.
func (c *cli) noFinal(r pipelineflow.Result) error {
	switch {
	case r.Status == pipeline.Cancelled:
		return fmt.Errorf("pipeline run %s was cancelled; what was on record by then can be pulled", r.ID)
	case r.Error == nil:
		return fmt.Errorf("pipeline run %s ended as %s", r.ID, r.Status)
	}
	at := ""
	if last := len(r.Trace) - 1; last >= 0 && r.Trace[last].Error != nil {
		at = " in step " + r.Trace[last].Step
	}
	why := r.Error.Message
	if why == "" {
		why = r.Error.Type
	}
	return fmt.Errorf("pipeline run %s failed%s: %s", r.ID, at, why)
}
