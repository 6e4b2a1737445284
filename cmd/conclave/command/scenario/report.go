package scenario

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/view/page"
	"conclave/engine/scenario"
	"conclave/engine/text"
	"conclave/workflows"
)

// maxReason is the length to which a step's error is truncated on a line, in bytes.
const maxReason = 300

// allRuns is the JSON output of several runs.
type allRuns struct {
	Status scenario.Status   `json:"status"` // pass if all passed, else fail
	Runs   []json.RawMessage `json:"runs"`   // result.json of each run
	Errors []string          `json:"errors"` // errors of runs that did not get to their end
}

// reportRuns updates the statistics, prints the results and returns the exit code as an error.
func reportRuns(ctx context.Context, c *cli.CLI, o *order) error {
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
		return cli.Exitf(cmp.Or(code, cli.ExitNoAnswer), "%w", err)
	}
	return cli.Exit(code)
}

func exitCode(ctx context.Context, all []*run) int {
	if ctx.Err() != nil {
		return cli.ExitInterrupted
	}
	code := cli.ExitOK
	for _, r := range all {
		if coded, ok := errors.AsType[*cli.ExitError](r.problem); ok && len(all) == 1 {
			return coded.Code
		}
		if r.problem != nil || r.result.Status != scenario.Pass {
			code = cli.ExitNoAnswer
		}
	}
	return code
}

func printTable(c *cli.CLI, o *order) error {
	table := resultTable(o.runs)
	for _, r := range o.runs {
		if !r.absent {
			table += "results and evidence: " + o.project.Path(r.slug, "runs", r.id) + "\n"
		}
	}
	return c.Print(cli.Table(table))
}

func resultTable(all []*run) string {
	var b strings.Builder
	fmt.Fprintln(&b, "SCENARIO\tRUN\tSTATUS\tSTEPS\tTIME\tWHY")
	for _, r := range all {
		steps := fmt.Sprintf("%d/%d", r.result.Passed(), max(len(r.input.Plan.All()), len(r.result.Steps)))
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\t%s\n", r.slug, formatNumber(r.result.RunNumber), r.statusWord(), steps,
			formatDuration(r.result.DurationMS), text.Truncate(cli.Line(r.failureReason()), maxReason))
	}
	return b.String()
}

// formatNumber formats a run's number within its scenario. 0 means unknown.
func formatNumber(n int) string {
	if n == 0 {
		return "–"
	}
	return "#" + strconv.Itoa(n)
}

func formatDuration(ms int64) string { return fmt.Sprintf("%.1f s", float64(ms)/1000) }

func (r *run) statusWord() string {
	switch {
	case r.result.Status != "":
		return statusText(r.result)
	case r.problem != nil:
		return "not run"
	}
	return string(scenario.Running)
}

func statusText(r scenario.Run) string {
	switch {
	case r.Paused && !r.Over():
		return workflows.Paused
	case r.Flaky():
		return string(r.Status) + " (flaky)"
	case len(r.Only) > 0:
		return string(r.Status) + " (only " + strings.Join(r.Only, ", ") + ")"
	}
	return string(r.Status)
}

// failureReason returns why the run did not pass or why it is flaky. It returns "" if the
// run passed at once or is still running.
func (r *run) failureReason() string {
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

func lastFailure(s scenario.Result) string {
	for _, a := range slices.Backward(s.Attempts) {
		if a.Failed() && a.Error != nil {
			return *a.Error
		}
	}
	return string(scenario.Fail)
}

func firstLine(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func printJSON(c *cli.CLI, o *order) error {
	if !o.flags.selectsSeveral() {
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

// setCompletion sets the completion of a subcommand's arguments and flags from the scenarios in its DIR.
func setCompletion(cmd *cobra.Command) {
	if strings.Contains(cmd.Use, "SLUG") && cmd.Name() != "create" { // a new scenario has a new slug
		hasRun := strings.Contains(cmd.Use, "RUN_ID")
		cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch {
			case len(args) == 0:
				return nil, cobra.ShellCompDirectiveFilterDirs
			case len(args) == 1:
				return completionWords(args, slugWords), cobra.ShellCompDirectiveNoFileComp
			case len(args) == 2 && hasRun:
				return completionWords(args, runIDs), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for flag, find := range map[string]func(*Project, string) []string{"tag": tagWords, "only": stepIDs, "retry": runIDs} {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				return completionWords(args, find), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
			}) // fails for unknown flags only
		}
	}
}

// completionWords opens the project given by the arguments DIR and SLUG and returns the words that find finds
// in it.
func completionWords(args []string, find func(*Project, string) []string) []string {
	if len(args) == 0 {
		return nil
	}
	p, err := OpenProject(args[0])
	if err != nil {
		return nil
	}
	defer p.Close()
	return find(p, append(args, "")[1])
}

func slugWords(p *Project, _ string) []string {
	all, _ := p.Slugs()
	return all
}

func tagWords(p *Project, _ string) []string {
	var all []string
	for _, slug := range slugWords(p, "") {
		if d, err := p.Describe(slug); err == nil {
			all = append(all, d.Tags...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func stepIDs(p *Project, slug string) []string {
	d, err := p.Describe(slug)
	if err != nil {
		return nil
	}
	return text.Each(d.Plan.Steps, func(s scenario.StepRef) string { return s.ID + "\t" + s.Title })
}

func runIDs(p *Project, slug string) []string {
	if scenario.CheckSlug(slug) != nil {
		return nil
	}
	found, _, err := p.Runs(slug)
	if err != nil {
		return nil
	}
	return text.Each(found, func(r scenario.Run) string { return r.RunID + "\t" + statusText(r) })
}

// writeHTML writes a page about the runs, with an index of all runs of the directory.
func writeHTML(o *order) error {
	var runs []page.ScenarioRun
	for _, r := range o.runs {
		one := page.ScenarioRun{Run: r.result, Evidence: o.evidenceReader(r), Link: o.evidenceLink(r)}
		one.Title = r.title
		if one.Scenario == "" {
			one.Scenario, one.RunID = r.slug, r.id
		}
		if r.problem != nil {
			one.Problem = r.problem.Error()
		}
		runs = append(runs, one)
	}
	all, err := o.allRuns()
	if err != nil {
		return fmt.Errorf("write the page of the runs: %w", err)
	}
	html, err := page.Scenarios(runs, all, time.Now())
	if err == nil {
		err = os.WriteFile(o.flags.html, html, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the page of the runs: %w", err)
	}
	return nil
}

func (o *order) allRuns() ([]scenario.Run, error) {
	slugs, err := o.project.Slugs()
	if err != nil {
		return nil, err
	}
	var all []scenario.Run
	for _, slug := range slugs {
		runs, _, err := o.project.Runs(slug) // invalid results are reported by status
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return all, nil
}

// evidencePath returns the path of a piece of evidence, or "" if it would leave the folder of the run.
func (o *order) evidencePath(r *run, name string) string {
	name = filepath.FromSlash(name)
	if !filepath.IsLocal(name) {
		return ""
	}
	return o.project.Path(r.slug, "runs", r.id, name)
}

// evidenceReader returns a function that reads evidence of a run. It returns nil for a file that cannot be
// shown.
func (o *order) evidenceReader(r *run) func(string) []byte {
	return func(name string) []byte {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil
		}
		const most = 8 << 20
		data, _ := o.project.readUpTo(scenarioPath(r.slug, "runs", r.id, name), most)
		return data
	}
}

// evidenceLink returns a function for the address of evidence relative to the page.
func (o *order) evidenceLink(r *run) func(string) string {
	from, err := filepath.Abs(filepath.Dir(o.flags.html))
	return func(name string) string {
		file := o.evidencePath(r, name)
		to, absErr := filepath.Abs(file)
		if err != nil || absErr != nil || file == "" {
			return ""
		}
		relative, relErr := filepath.Rel(from, to)
		if relErr != nil {
			return ""
		}
		parts := strings.Split(filepath.ToSlash(relative), "/")
		for i := range parts {
			parts[i] = url.PathEscape(parts[i])
		}
		return "./" + strings.Join(parts, "/")
	}
}
