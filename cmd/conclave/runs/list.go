package runs

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// List is a command that lists runs, with its flags.
type List struct {
	Kind   *Kind
	Titles [2]string // titles of the first and the last column
	JSON   func(Listed) any
	Teams  bool // the runs have teams, by which --team selects

	statuses []string
	team     string
	limit    int
	since    hall.Age
}

// Listed is a run in a list with its usage, which is nil if unknown.
type Listed struct {
	Run
	Usage *llm.Usage
}

// Add sets the flags and the function of cmd.
func (l *List) Add(c *hall.CLI, cmd *cobra.Command) *cobra.Command {
	set := cmd.Flags()
	set.SortFlags = false
	set.StringSliceVar(&l.statuses, "status", nil, "only those with this `STATUS`; several are separated by commas")
	if l.Teams {
		set.StringVar(&l.team, "team", "", "only those of the operator's team `NAME`")
	}
	set.IntVar(&l.limit, "limit", 50, "at most the newest `N`; 0 for all")
	set.Var(&l.since, "since", "only those started within this `AGE`, such as 36h, 7d or 2w")
	cmd.Args = hall.Arguments()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := l.check(); err != nil {
			return err
		}
		return l.run(cmd.Context(), c)
	}
	_ = cmd.RegisterFlagCompletionFunc("status", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return l.valid(), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func (l *List) valid() []string {
	all := append([]string{drive.Running, drive.Paused, drive.Parked, drive.Cancelled}, l.Kind.Statuses...)
	slices.Sort(all)
	return all
}

// check refuses values that can never match.
func (l *List) check() error {
	if l.limit < 0 {
		return fmt.Errorf("--limit is %d; give the number of runs to list, or 0 for all", l.limit)
	}
	for _, s := range l.statuses {
		if slices.Contains(l.valid(), s) {
			continue
		}
		hint := "it takes " + strings.Join(l.valid(), ", ")
		if near, ok := text.Nearest(s, l.valid()); ok {
			hint = "did you mean " + near + "?"
		}
		return fmt.Errorf("--status: no %s has the status %q; %s", l.Kind.Noun, text.Truncate(s, hall.MaxEcho), hint)
	}
	return nil
}

func (l *List) run(ctx context.Context, c *hall.CLI) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	return c.With(ctx, t, func(conn *hall.Connection) error {
		found, more, err := l.find(ctx, conn)
		if err != nil {
			return fmt.Errorf("list the %ss %s: %w", l.Kind.Noun, conn.Target, err)
		}
		listed := addUsage(ctx, conn, found)
		if more {
			c.Infof("only the newest %d are listed; --limit lists more", len(listed))
		}
		if c.Scripted() {
			records := []any{}
			for _, r := range listed {
				records = append(records, l.JSON(r))
			}
			return c.PrintJSON(records)
		}
		if len(listed) == 0 {
			c.Infof("no %ss %s%s", l.Kind.Noun, conn.Target, l.condition())
			return nil
		}
		width, terminal := terminalWidth(c)
		return c.Print(l.table(listed, time.Now(), width, terminal))
	})
}

// condition names the flags that may have excluded runs.
func (l *List) condition() string {
	var given []string
	for flag, is := range map[string]bool{"--status": len(l.statuses) > 0, "--since": l.since > 0, "--team": l.team != ""} {
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

// find searches growing periods until it has the newest runs. It reports whether there are
// more.
func (l *List) find(ctx context.Context, conn *hall.Connection) (found []Run, more bool, err error) {
	spans := []time.Duration{7 * hall.Day, 70 * hall.Day, 0}
	if l.limit == 0 {
		spans = []time.Duration{0}
	}
	if l.since > 0 {
		spans = []time.Duration{time.Duration(l.since)}
	}
	for _, span := range spans {
		all, err := l.search(ctx, conn, span)
		if err != nil {
			return nil, false, err
		}
		found = slices.DeleteFunc(all, func(r Run) bool { return !l.hasStatus(r) })
		if l.limit > 0 && len(found) > l.limit {
			return found[:l.limit], true, nil
		}
	}
	return found, false, nil
}

func (l *List) hasStatus(r Run) bool {
	return len(l.statuses) == 0 || slices.Contains(l.statuses, r.Status) || slices.Contains(l.statuses, r.waiting)
}

// list returns the runs of a kind that were started within a period, or all if it is 0. Of
// several executions of a workflow it returns the newest.
func list(ctx context.Context, conn *hall.Connection, kind *Kind, span time.Duration) ([]Run, error) {
	return query(ctx, conn, kind, since(span))
}

// since returns the query condition for runs that were started within a period, or "" if it is 0.
func since(span time.Duration) string {
	if span == 0 {
		return ""
	}
	return fmt.Sprintf(" AND StartTime >= '%s'", time.Now().Add(-span).UTC().Format(time.RFC3339))
}

// query is like list, with further conditions that each begin with AND.
func query(ctx context.Context, conn *hall.Connection, kind *Kind, conditions string) ([]Run, error) {
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew'", kind.Type) + conditions,
	}
	var executions []*workflowpb.WorkflowExecutionInfo
	for {
		asking, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
		page, err := conn.Client.ListWorkflow(asking, request)
		cancel()
		if err != nil {
			return nil, err
		}
		executions = append(executions, page.GetExecutions()...)
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			break
		}
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

// addUsage adds the usage of runs, reading several at a time.
func addUsage(ctx context.Context, conn *hall.Connection, found []Run) []Listed {
	const atOnce = 8
	listed := make([]Listed, len(found))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, r := range found {
		group.Go(func() error {
			listed[i] = Listed{Run: r, Usage: usageOf(ctx, conn, r)}
			return nil
		})
	}
	_ = group.Wait()
	return listed
}

// usageOf reads the usage of a run from its result, or else from its last record in the store.
func usageOf(ctx context.Context, conn *hall.Connection, r Run) *llm.Usage {
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	type document struct{ Cost, Usage *llm.Usage }
	var d document
	if !r.Running() {
		if err := conn.Client.GetWorkflow(ctx, r.Workflow, "").Get(ctx, &d); err != nil {
			_ = drive.CanceledResult(err, &d)
		}
		if usage := cmp.Or(d.Cost, d.Usage); usage != nil {
			return usage
		}
	}
	if conn.Store == nil || r.Kind.Files == nil {
		return nil
	}
	d, err := artifact.ReadJSON[document](ctx, conn.Store, r.Kind.Files(r.ID).File("status.json"))
	if err != nil {
		return nil
	}
	return cmp.Or(d.Cost, d.Usage)
}

// terminalWidth returns the width of stdout if it is a terminal.
func terminalWidth(c *hall.CLI) (width int, terminal bool) {
	f, ok := c.Stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 2 {
		width = 80
	}
	return width, true
}

// table formats runs for a person. On a terminal it shows their age and truncates lines,
// otherwise it shows the time of their start in UTC.
func (l *List) table(listed []Listed, now time.Time, width int, terminal bool) string {
	const maxQuery = 60
	var out strings.Builder
	started := "STARTED"
	if terminal {
		started = "AGE"
	}
	fmt.Fprintf(&out, "%s\tSTATUS\t%s\tTIME\tCOST\t%s\n", l.Titles[0], started, l.Titles[1])
	for _, r := range listed {
		when, query := r.Started.UTC().Format(time.RFC3339), progress.Line(r.Query)
		if terminal {
			when = ageWords(now.Sub(r.Started))
		}
		if r.Pipeline != "" {
			query = "step of " + progress.Line(r.Pipeline) + ": " + query
		}
		if r.Continues != "" {
			query = "continues " + progress.Line(r.Continues) + ": " + query
		}
		if !terminal {
			query = text.Truncate(query, maxQuery)
		}
		fmt.Fprintf(&out, "%s\t%s\t%s\t%s\t%s\t%s\n",
			progress.Line(r.ID), progress.Line(r.Shown()), when, progress.Clock(r.Elapsed()), costCell(r), query)
	}
	table := hall.Table(out.String())
	if !terminal {
		return table
	}
	lines := strings.Split(table, "\n")
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], width, "…")
	}
	return strings.Join(lines, "\n")
}

// ageWords formats an age in its largest unit.
func ageWords(age time.Duration) string {
	switch {
	case age < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(age/time.Second)))
	case age < time.Hour:
		return fmt.Sprintf("%dm", int(age/time.Minute))
	case age < 2*hall.Day:
		return fmt.Sprintf("%dh", int(age/time.Hour))
	default:
		return fmt.Sprintf("%dd", int(age/hall.Day))
	}
}

// costCell returns the cost of a run, or else its tokens.
func costCell(r Listed) string {
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
		return progress.Count(u.InputTokens+u.OutputTokens) + " tok"
	}
}
