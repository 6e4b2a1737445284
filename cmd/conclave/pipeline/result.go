package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/engine/pipeline"
	"conclave/engine/text"
	pipelineflow "conclave/workflows/pipeline"
)

// exitCode is the exit code for a result. A refused input is a usage error, although
// a worker refused it.
func exitCode(r pipelineflow.Result) int {
	switch {
	case r.Error != nil && runs.RefusedInput(r.Error.Type) && len(r.Trace) == 0:
		return hall.ExitUsage
	case r.Status == pipeline.Completed, r.Status == pipeline.MaxIterations:
		return hall.ExitOK
	}
	return hall.ExitNoAnswer
}

// printResult prints the result of a run, and returns the exit code as an error.
func printResult(ctx context.Context, conn *hall.Connection, run runs.Run, r pipelineflow.Result) error {
	if conn.Scripted() {
		if err := conn.PrintJSON(r); err != nil {
			return err
		}
	} else if err := printFinal(ctx, conn, r); err != nil {
		return err
	}
	if run.Offline {
		conn.Infof("%s", offlineNote)
	}
	code := exitCode(r)
	if code == hall.ExitOK {
		return nil
	}
	return &hall.ExitError{Code: code, Err: noFinal(r)}
}

// printFinal prints the whole final text on stdout, and a summary of the run on stderr.
func printFinal(ctx context.Context, conn *hall.Connection, r pipelineflow.Result) error {
	final := r.Final
	if r.FinalTruncated && r.FinalPath != nil {
		whole, err := wholeFinal(ctx, conn, r)
		if err != nil {
			conn.Infof("only the first %d bytes of the text are shown: %v; the whole is at %s", len(final), err, *r.FinalPath)
		} else {
			final = whole
		}
	}
	if final != "" {
		if err := conn.Print(strings.TrimRight(text.Terminal(final), "\n") + "\n"); err != nil {
			return err
		}
	}
	how := strings.ReplaceAll(string(r.Status), "_", " ")
	if final == "" && exitCode(r) == hall.ExitOK {
		how += ", without a text"
	}
	conn.Infof("\n%s · %s · %s", how, progress.Plural(r.Transitions, "transition"), progress.Cost(r.Usage))
	if len(r.Trace) > 0 {
		conn.Infof("all steps and files: %s", runs.PullCommand(conn, r.ID, r.FinalPath, "/pipelines/"))
	}
	return nil
}

// wholeFinal reads from the store a text that the result holds truncated.
func wholeFinal(ctx context.Context, conn *hall.Connection, r pipelineflow.Result) (string, error) {
	if conn.Store == nil {
		return "", errors.New("reading more needs --bucket")
	}
	layout := artifact.InPipeline(r.ID)
	_, name, ok := strings.Cut(*r.FinalPath, layout.Root())
	if !ok {
		return "", errors.New("its place is not in the run's directory")
	}
	reading, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	a, err := artifact.ReadJSON[artifact.Answer](reading, conn.Store, layout.File(name))
	return a.Answer, err
}

// noFinal is the error of a run that did not complete.
func noFinal(r pipelineflow.Result) error {
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
