package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/llm"
	"conclave/engine/text"
	"conclave/workflows"
)

// List is a command that lists runs, with its flags.
type List struct {
	Kind   *Kind
	Titles [2]string // titles of the first and the last column
	Teams  bool      // the runs have teams, by which --team selects

	statuses []string
	kinds    []string
	all      bool
	hidden   int // number of runs left out because of their kind
	team     string
	limit    int
	since    cli.Age
}

// Add sets the flags and the function of cmd.
func (l *List) Add(c *cli.CLI, cmd *cobra.Command) *cobra.Command {
	set := cmd.Flags()
	set.SortFlags = false
	set.StringSliceVar(&l.statuses, "status", nil, "only those with this `STATUS`; several are separated by commas")
	set.BoolVar(&l.all, "all", false, "also those that a pipeline or an evaluation has started")
	set.StringSliceVar(&l.kinds, "kind", nil, "only those of this `KIND`: "+strings.Join(l.validKinds(), ", "))
	if l.Teams {
		set.StringVar(&l.team, "team", "", "only those of the operator's team `NAME`")
	}
	set.IntVar(&l.limit, "limit", 50, "at most the newest `N`; 0 for all")
	set.Var(&l.since, "since", "only those started within this `AGE`, such as 36h, 7d or 2w")
	cmd.Args = cli.Arguments()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := l.checkFlags(); err != nil {
			return err
		}
		return l.printRuns(cmd.Context(), c)
	}
	_ = cmd.RegisterFlagCompletionFunc("status", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return l.validStatuses(), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// Kinds of runs in lists, besides the noun of their Kind.
const (
	pipelineStep = "pipeline_step" // a session that is a step of a pipeline
	ofEvaluation = "evaluation"
)

// listKind is the kind of the run in lists, by who has started it.
func (r Run) listKind() string {
	switch {
	case r.Pipeline != "":
		return pipelineStep
	case record.IsOfEvaluation(r.ID):
		return ofEvaluation
	}
	own, _, _ := strings.Cut(r.Kind.Noun, " ")
	return own
}

func (l *List) validKinds() []string {
	return []string{Run{Kind: l.Kind}.listKind(), pipelineStep, ofEvaluation}
}

func (l *List) validStatuses() []string {
	all := append([]string{workflows.Running, workflows.Paused, workflows.Parked, workflows.Waiting, workflows.Cancelled}, l.Kind.Statuses...)
	slices.Sort(all)
	return all
}

func (l *List) checkFlags() error {
	if l.limit < 0 {
		return fmt.Errorf("--limit is %d; give the number of runs to list, or 0 for all", l.limit)
	}
	for _, k := range l.kinds {
		if !slices.Contains(l.validKinds(), k) {
			return fmt.Errorf("--kind: there is no kind %q; it takes %s", text.Truncate(k, cli.MaxEcho), strings.Join(l.validKinds(), ", "))
		}
	}
	for _, s := range l.statuses {
		if slices.Contains(l.validStatuses(), s) {
			continue
		}
		hint := "it takes " + strings.Join(l.validStatuses(), ", ")
		if near, ok := text.Nearest(s, l.validStatuses()); ok {
			hint = "did you mean " + near + "?"
		}
		return fmt.Errorf("--status: no %s has the status %q; %s", l.Kind.Noun, text.Truncate(s, cli.MaxEcho), hint)
	}
	return nil
}

func (l *List) printRuns(ctx context.Context, c *cli.CLI) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	return c.With(ctx, t, func(conn *cli.Connection) error {
		found, more, err := l.findNewest(ctx, conn)
		if err != nil {
			return fmt.Errorf("list the %ss %s: %w", l.Kind.Noun, conn.Target, err)
		}
		listed := addUsage(ctx, conn, found)
		if more {
			c.Infof("only the newest %d are listed; --limit lists more", len(listed))
		}
		if c.Scripted() {
			records := []orderedObject{}
			for _, r := range listed {
				records = append(records, r.listRecord())
			}
			return c.PrintJSON(records)
		}
		width, terminal := cli.TerminalWidth(c.Stdout)
		if len(listed) == 0 {
			c.Infof("no %ss %s%s", l.Kind.Noun, conn.Target, l.givenFilters())
		} else if err := c.Print(l.formatTable(listed, time.Now(), width, terminal)); err != nil {
			return err
		}
		if l.hidden > 0 && len(l.kinds) == 0 {
			c.Infof("%d started by pipelines or evaluations: --all lists them", l.hidden)
		}
		return nil
	})
}

// listRecord is the run in the JSON of a list. The kind names its ID, its query and its usage.
func (r Run) listRecord() orderedObject {
	record := orderedObject{{r.Kind.StateKeys[0], r.ID}}
	if r.Kind.UsageKey == "cost" {
		record = append(record, member{"kind", r.listKind()})
	}
	record = append(record, member{"status", r.Shown()}, member{r.Kind.StateKeys[1], r.Query},
		member{"created_at", r.Started}, member{"duration_seconds", r.Seconds()}, member{r.Kind.UsageKey, r.Usage})
	if r.Continues != "" {
		record = append(record, member{"continues", r.Continues})
	}
	return record
}

// orderedObject is a JSON object whose members are written in their order.
type orderedObject []member

type member struct {
	name  string
	value any
}

func (o orderedObject) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, m := range o {
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(strconv.AppendQuote(out, m.name), ':'), value...)
	}
	return append(out, '}'), nil
}

// givenFilters names the flags that may have excluded runs.
func (l *List) givenFilters() string {
	var given []string
	for flag, is := range map[string]bool{"--status": len(l.statuses) > 0, "--since": l.since > 0, "--team": l.team != "", "--kind": len(l.kinds) > 0} {
		if is {
			given = append(given, flag)
		}
	}
	if len(given) == 0 {
		return ""
	}
	slices.Sort(given)
	return " with this " + strings.Join(given, " and ")
}

// spans are growing periods in which runs are searched; 0 is unlimited.
var spans = []time.Duration{7 * cli.Day, 70 * cli.Day, 0}

// findNewest searches growing periods until it has the newest runs. It reports whether there are
// more.
func (l *List) findNewest(ctx context.Context, conn *cli.Connection) (found []Run, more bool, err error) {
	periods := spans
	if l.limit == 0 {
		periods = []time.Duration{0}
	}
	if l.since > 0 {
		periods = []time.Duration{time.Duration(l.since)}
	}
	for _, span := range periods {
		all, err := l.searchPeriod(ctx, conn, span)
		if err != nil {
			return nil, false, err
		}
		found = slices.DeleteFunc(all, func(r Run) bool {
			return len(l.statuses) > 0 && !slices.Contains(l.statuses, r.Status) && !slices.Contains(l.statuses, r.waiting)
		})
		matching := len(found)
		found = slices.DeleteFunc(found, func(r Run) bool { return !l.hasKind(r) })
		l.hidden = matching - len(found)
		if l.limit > 0 && len(found) > l.limit {
			return found[:l.limit], true, nil
		}
	}
	return found, false, nil
}

// hasKind leaves out runs that nobody has started directly, unless the flags ask for them.
func (l *List) hasKind(r Run) bool {
	if len(l.kinds) > 0 {
		return slices.Contains(l.kinds, r.listKind())
	}
	return l.all || r.listKind() == l.validKinds()[0]
}

// listRuns returns the runs of a kind that were started within a period, or all if it is 0. Of
// several executions of a workflow it returns the newest.
func listRuns(ctx context.Context, conn *cli.Connection, kind *Kind, span time.Duration) ([]Run, error) {
	return queryRuns(ctx, conn, kind, startedWithin(span))
}

func startedWithin(span time.Duration) string {
	if span == 0 {
		return ""
	}
	return fmt.Sprintf(" AND StartTime >= '%s'", time.Now().Add(-span).UTC().Format(time.RFC3339))
}

// queryRuns is like listRuns, with further conditions that each begin with AND.
func queryRuns(ctx context.Context, conn *cli.Connection, kind *Kind, conditions string) ([]Run, error) {
	executions, err := Executions(ctx, conn, fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew'", kind.Workflow)+conditions)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(executions, func(a, b *workflowpb.WorkflowExecutionInfo) int {
		return b.GetStartTime().AsTime().Compare(a.GetStartTime().AsTime())
	})
	var all []Run
	seen := map[string]bool{}
	for _, e := range executions {
		if r := runOf(kind, e); !seen[r.Workflow] {
			seen[r.Workflow] = true
			all = append(all, r)
		}
	}
	return all, nil
}

// Executions lists the executions of workflows that a visibility query finds.
func Executions(ctx context.Context, conn *cli.Connection, query string) ([]*workflowpb.WorkflowExecutionInfo, error) {
	var all []*workflowpb.WorkflowExecutionInfo
	for request := (&workflowservice.ListWorkflowExecutionsRequest{Query: query}); ; {
		asking, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
		page, err := conn.Client.ListWorkflow(asking, request)
		cancel()
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetExecutions()...)
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return all, nil
		}
	}
}

func addUsage(ctx context.Context, conn *cli.Connection, found []Run) []Run {
	const atOnce = 8
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, r := range found {
		group.Go(func() error {
			found[i].Usage = usageOf(ctx, conn, r)
			return nil
		})
	}
	_ = group.Wait()
	return found
}

// usageOf reads the usage of a run from its result, or else from its last record in the store.
func usageOf(ctx context.Context, conn *cli.Connection, r Run) *llm.Usage {
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	type document struct{ Cost, Usage *llm.Usage }
	var d document
	if !r.Running() {
		if err := conn.Client.GetWorkflow(ctx, r.Workflow, "").Get(ctx, &d); err != nil {
			_ = workflows.CanceledResult(err, &d)
		}
		if usage := cmp.Or(d.Cost, d.Usage); usage != nil {
			return usage
		}
	}
	d, _ = ReadRecord[document](ctx, conn, r)
	usage := cmp.Or(d.Cost, d.Usage)
	for _, spent := range Refreshed(ctx, conn, r).Spent { // by running steps
		if usage != nil {
			spent = spent.Add(*usage)
		}
		usage = &spent
	}
	return usage
}

// formatTable formats runs for a person. On a terminal it shows their age and truncates lines,
// otherwise it shows the time of their start in UTC.
func (l *List) formatTable(listed []Run, now time.Time, width int, terminal bool) string {
	const maxQuery, longestID = 60, 24 // columns
	var out strings.Builder
	started := "STARTED"
	if terminal {
		started = "AGE"
	}
	fmt.Fprintf(&out, "%s\tSTATUS\t%s\tTIME\tCOST\t%s\n", l.Titles[0], started, l.Titles[1])
	for _, r := range listed {
		id := cli.Line(r.ID)
		if over := ansi.StringWidth(id) - max(longestID, width/3); terminal && over > 0 {
			id = ansi.TruncateLeft(id, over+1, "…") // the end distinguishes the runs of an evaluation
		}
		when, query := r.Started.UTC().Format(time.RFC3339), cli.Line(r.Query)
		if terminal {
			when = ageWords(now.Sub(r.Started))
		}
		if r.Pipeline != "" {
			query = "step of " + cli.Line(r.Pipeline) + ": " + query
		}
		if r.Continues != "" {
			query = "continues " + cli.Line(r.Continues) + ": " + query
		}
		if !terminal {
			query = text.Truncate(query, maxQuery)
		}
		fmt.Fprintf(&out, "%s\t%s\t%s\t%s\t%s\t%s\n",
			id, cli.Line(r.Shown()), when, cli.Clock(r.Elapsed()), costCell(r), query)
	}
	table := cli.Table(out.String())
	if !terminal {
		return table
	}
	lines := strings.Split(table, "\n")
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], width, "…")
	}
	return strings.Join(lines, "\n")
}

func ageWords(age time.Duration) string {
	switch {
	case age < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(age/time.Second)))
	case age < time.Hour:
		return fmt.Sprintf("%dm", int(age/time.Minute))
	case age < 2*cli.Day:
		return fmt.Sprintf("%dh", int(age/time.Hour))
	default:
		return fmt.Sprintf("%dd", int(age/cli.Day))
	}
}

func costCell(r Run) string {
	switch u := r.Usage; {
	case r.Offline:
		return "offline"
	case u == nil, u.ModelCalls == 0:
		return "–"
	case u.TotalUSD != nil && *u.TotalUSD > 0 && *u.TotalUSD < 0.01:
		return "< $0.01"
	case u.TotalUSD != nil:
		return fmt.Sprintf("$%.2f", *u.TotalUSD)
	case u.KnownUSD > 0:
		return fmt.Sprintf("≥ $%.2f", u.KnownUSD)
	default:
		return cli.Count(u.InputTokens+u.OutputTokens) + " tok"
	}
}
