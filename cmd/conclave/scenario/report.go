package scenario

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/scenario"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// maxReason is the length to which a step's error is truncated on a line, in bytes.
const maxReason = 300

// allRuns is the JSON output of several runs.
type allRuns struct {
	Status scenario.Status   `json:"status"` // pass if all passed, else fail
	Runs   []json.RawMessage `json:"runs"`   // result.json of each run
	Errors []string          `json:"errors"` // errors of runs that did not get to their end
}

// report updates the statistics, prints the results and returns the exit code as an error.
func report(ctx context.Context, c *hall.CLI, o *order) error {
	var problems []error
	for _, r := range o.runs {
		if r.result.Over() {
			// An ended run counts even if the command was interrupted.
			_, err := o.project.Fold(context.WithoutCancel(ctx), r.slug)
			problems = append(problems, err)
		}
	}
	if o.flags.junit != "" {
		problems = append(problems, writeJUnit(o))
	}
	if o.flags.html != "" {
		problems = append(problems, writeHTML(o))
	}
	if c.Scripted() {
		problems = append(problems, printJSON(c, o))
	} else {
		problems = append(problems, printTable(c, o))
	}
	for _, r := range o.runs {
		if r.problem != nil && !errors.Is(r.problem, context.Canceled) {
			c.Warnf("%v", r.problem)
		}
	}
	code := exitCode(ctx, o.runs)
	if err := errors.Join(problems...); err != nil {
		return hall.Exitf(cmp.Or(code, hall.ExitNoAnswer), "%w", err)
	}
	return hall.Exit(code)
}

// exitCode returns the exit code for the worst result.
func exitCode(ctx context.Context, all []*run) int {
	if ctx.Err() != nil {
		return hall.ExitInterrupted
	}
	code := hall.ExitOK
	for _, r := range all {
		if coded, ok := errors.AsType[*hall.ExitError](r.problem); ok && len(all) == 1 {
			return coded.Code
		}
		if r.problem != nil || r.result.Status != scenario.Pass {
			code = hall.ExitNoAnswer
		}
	}
	return code
}

// printTable prints a table of all runs and the paths of their results.
func printTable(c *hall.CLI, o *order) error {
	var b strings.Builder
	fmt.Fprintln(&b, "SCENARIO\tRUN\tSTATUS\tSTEPS\tTIME\tWHY")
	for _, r := range o.runs {
		steps := fmt.Sprintf("%d/%d", r.result.Passed(), max(len(r.input.Plan.All()), len(r.result.Steps)))
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\t%s\n", r.slug, number(r.result.RunNumber), r.status(), steps,
			duration(r.result.DurationMS), text.Truncate(progress.Line(r.reason()), maxReason))
	}
	for _, r := range o.runs {
		if r.id != "" {
			fmt.Fprintln(&b, "results and evidence: "+o.project.Path(r.slug, "runs", r.id))
		}
	}
	return c.Print(hall.Table(b.String()))
}

// number formats a run's number within its scenario. 0 means unknown.
func number(n int) string {
	if n == 0 {
		return "–"
	}
	return "#" + strconv.Itoa(n)
}

func duration(ms int64) string { return fmt.Sprintf("%.1f s", float64(ms)/1000) }

func (r *run) status() string {
	switch {
	case r.result.Status != "":
		return statusText(r.result)
	case r.id == "" || r.problem != nil:
		return "not run"
	}
	return string(scenario.Running)
}

// statusText returns the status of a run for people.
func statusText(r scenario.Run) string {
	switch {
	case r.Paused && !r.Over():
		return drive.Paused
	case r.Flaky():
		return string(r.Status) + " (flaky)"
	case len(r.Only) > 0:
		return string(r.Status) + " (only " + strings.Join(r.Only, ", ") + ")"
	}
	return string(r.Status)
}

// reason returns why the run did not pass or why it is flaky. It returns "" if the
// run passed at once or is still running.
func (r *run) reason() string {
	if s, ok := r.result.Failed(); ok {
		text := s.ID + " " + s.Title
		if s.Error != nil {
			text += ": " + *s.Error
		}
		return text
	}
	for _, s := range r.result.Steps {
		if s.Flaky {
			return fmt.Sprintf("%s %s passed in attempt %d, after: %s", s.ID, s.Title, len(s.Attempts), lastFailure(s))
		}
	}
	return firstLine(r.problem)
}

// lastFailure returns the error of the last attempt that failed before a step passed.
func lastFailure(s scenario.Result) string {
	for _, a := range slices.Backward(s.Attempts) {
		if a.Failed() && a.Error != nil {
			return *a.Error
		}
	}
	return string(scenario.Fail)
}

// firstLine returns the first line of an error, or "" for nil.
func firstLine(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// printJSON prints the result of one run or of several.
func printJSON(c *hall.CLI, o *order) error {
	if !o.flags.several() {
		if r := o.runs[0]; r.document != nil {
			return c.PrintJSON(json.RawMessage(r.document))
		}
		return nil // the error explains the missing result
	}
	all := allRuns{Status: scenario.Pass, Runs: []json.RawMessage{}, Errors: []string{}}
	for _, r := range o.runs {
		if r.document != nil {
			all.Runs = append(all.Runs, r.document)
		}
		if r.problem != nil {
			all.Errors = append(all.Errors, r.slug+": "+firstLine(r.problem))
		}
		if r.problem != nil || r.result.Status != scenario.Pass {
			all.Status = scenario.Fail
		}
	}
	return c.PrintJSON(all)
}
