package scenario

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/scenario"
	"conclave/engine/text"
)

// allRuns is what --json prints of several scenarios.
type allRuns struct {
	Status scenario.Status   `json:"status"` // pass if all passed, else fail
	Runs   []json.RawMessage `json:"runs"`   // of each scenario its result.json
	Errors []string          `json:"errors"` // of scenarios that were not run to their end
}

// reportTrials folds the statistics, and prints and writes what came out. Its error
// is the exit code.
func reportTrials(ctx context.Context, c *hall.CLI, w *order) error {
	var problems []error
	for _, t := range w.trials {
		if t.run.Over() {
			// The command may have been interrupted: what has ended counts.
			_, err := w.from.Fold(context.WithoutCancel(ctx), t.slug)
			problems = append(problems, err)
		}
	}
	if w.flags.junit != "" {
		problems = append(problems, writeJUnit(w.flags.junit, w.trials))
	}
	if !c.Scripted() {
		problems = append(problems, printTrials(c, w))
	} else {
		problems = append(problems, printTrialsJSON(c, w))
	}
	for _, t := range w.trials {
		if t.problem != nil && !errors.Is(t.problem, context.Canceled) {
			c.Warnf("%v", t.problem)
		}
	}
	code := trialsCode(ctx, w.trials)
	if err := errors.Join(problems...); err != nil {
		return hall.Exitf(cmp.Or(code, hall.ExitNoAnswer), "%w", err)
	}
	return hall.Exit(code)
}

// trialsCode is the exit code of runs: that of the worst.
func trialsCode(ctx context.Context, trials []*trial) int {
	code := hall.ExitOK
	for _, t := range trials {
		var told *hall.ExitError
		switch {
		case ctx.Err() != nil:
			return hall.ExitInterrupted
		case t.problem != nil && errors.As(t.problem, &told) && len(trials) == 1:
			return told.Code
		case t.problem != nil, t.run.Status != scenario.Pass:
			code = hall.ExitNoAnswer
		}
	}
	return code
}

// printTrials prints one table of all runs, and where the results are.
func printTrials(c *hall.CLI, w *order) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tRUN\tSTATUS\tSTEPS\tTIME\tWHY")
	for _, t := range w.trials {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", t.slug, t.number(), t.status(), t.steps(), tookMS(t.run.DurationMS), text.Truncate(progress.Line(t.why()), maxWhy))
	}
	_ = table.Flush() // into memory
	for _, t := range w.trials {
		if t.id != "" {
			fmt.Fprintln(&b, "results and evidence: "+w.from.Path(t.slug, "runs", t.id))
		}
	}
	_, err := fmt.Fprint(c.Stdout, hall.TrimLines(b.String()))
	return hall.PrintError(err)
}

// number is the run's among those of its scenario, as far as it is known.
func (t *trial) number() string { return numbered(t.run.RunNumber) }

func numbered(n int) string {
	if n == 0 {
		return "–"
	}
	return "#" + strconv.Itoa(n)
}

func (t *trial) status() string {
	switch {
	case t.run.Status != "":
		return string(t.run.Status)
	case t.id == "" || t.problem != nil:
		return "not run"
	}
	return string(scenario.Running)
}

// steps is how many of the steps passed.
func (t *trial) steps() string {
	all := max(len(t.input.Plan.Steps), len(t.run.Steps))
	return fmt.Sprintf("%d/%d", t.run.Passed(), all)
}

// why is what kept the run from passing; empty if nothing did.
func (t *trial) why() string {
	if s, ok := t.run.Failed(); ok {
		text := s.ID + " " + s.Title
		if s.Error != nil {
			text += ": " + *s.Error
		}
		return text
	}
	if t.problem != nil {
		return firstLine(t.problem)
	}
	return ""
}

// printTrialsJSON prints the result of one run, or of all.
func printTrialsJSON(c *hall.CLI, w *order) error {
	if !w.flags.all {
		if t := w.trials[0]; t.document != nil {
			return c.PrintJSON(json.RawMessage(t.document))
		}
		return nil // the error says why there is none
	}
	all := allRuns{Status: scenario.Pass, Runs: []json.RawMessage{}, Errors: []string{}}
	for _, t := range w.trials {
		if t.document != nil {
			all.Runs = append(all.Runs, t.document)
		}
		if t.problem != nil {
			all.Errors = append(all.Errors, t.slug+": "+firstLine(t.problem))
		}
		if t.problem != nil || t.run.Status != scenario.Pass {
			all.Status = scenario.Fail
		}
	}
	return c.PrintJSON(all)
}

func writeJUnit(file string, trials []*trial) error {
	var suites []scenario.Suite
	for _, t := range trials {
		s := scenario.Suite{Slug: t.slug, Title: t.title, Run: t.run}
		if t.problem != nil {
			s.Problem = firstLine(t.problem)
		}
		suites = append(suites, s)
	}
	data, err := scenario.JUnit(suites)
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the JUnit report: %w", err)
	}
	return nil
}
