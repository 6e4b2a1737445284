package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"conclave/cmd/conclave/progress"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

// listed is one session of `list --json`.
type listed struct {
	SessionID string    `json:"session_id"`
	Status    string    `json:"status"`
	Query     string    `json:"query"` // cut
	CreatedAt time.Time `json:"created_at"`

	workflow string
	held     string // paused or parked, for people: to programs it is running
}

func (c *cli) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Sessions, newest first",
		Long: `List the sessions of the local data directory, or of a cluster's namespace, newest
first. One that waits for a person is paused or parked here, with --json it is
running. It never runs a step.`,
		Example: `  conclave list
  conclave list --json | jq -r '.[] | select(.status == "running") | .session_id'`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.list(cmd.Context()) },
	}
}

func (c *cli) list(ctx context.Context) error {
	t, err := c.target()
	if err != nil {
		return err
	}
	return c.at(ctx, t, func(p *place) error {
		sessions, err := listKind(ctx, p, sessionflow.Type)
		if err != nil {
			return fmt.Errorf("list the sessions %s: %w", p.where(), err)
		}
		if !c.people() {
			return c.printJSON(sessions)
		}
		if len(sessions) == 0 {
			c.say("no sessions %s", p.where())
		}
		return c.printSessions(sessions)
	})
}

// listKind asks Temporal's visibility for the workflows of a type. One that was
// continued or reset has several runs: the newest one tells.
func listKind(ctx context.Context, p *place, kind string) ([]listed, error) {
	sessions, seen := []listed{}, map[string]bool{}
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew'", kind),
	}
	var runs []*workflowpb.WorkflowExecutionInfo
	for {
		asking, cancel := context.WithTimeout(ctx, reachTimeout)
		page, err := p.client.ListWorkflow(asking, request)
		cancel()
		if err != nil {
			return nil, err
		}
		runs = append(runs, page.GetExecutions()...)
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			break
		}
	}
	slices.SortStableFunc(runs, func(a, b *workflowpb.WorkflowExecutionInfo) int {
		return b.GetStartTime().AsTime().Compare(a.GetStartTime().AsTime())
	})
	for _, run := range runs {
		id := run.GetExecution().GetWorkflowId()
		if seen[id] {
			continue
		}
		seen[id] = true
		sessions = append(sessions, listed{
			workflow:  id,
			held:      heldOf(run),
			SessionID: memo(run.GetMemo(), memoID(kind), id),
			Status:    statusOf(run.GetStatus(), run.GetMemo()),
			Query:     memo(run.GetMemo(), drive.MemoQuery, ""),
			CreatedAt: run.GetStartTime().AsTime().UTC().Truncate(time.Millisecond),
		})
	}
	return sessions, nil
}

// heldOf is paused or parked for a session that waits for a person, else empty.
func heldOf(run *workflowpb.WorkflowExecutionInfo) string {
	status := memo(run.GetMemo(), drive.MemoStatus, "")
	if run.GetCloseTime() == nil && (status == drive.Paused || status == drive.Parked) {
		return status
	}
	return ""
}

func (c *cli) printSessions(sessions []listed) error {
	const gist = 60
	table := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	if len(sessions) > 0 {
		fmt.Fprintln(table, "SESSION\tSTATUS\tCREATED\tQUERY")
	}
	for _, s := range sessions {
		fmt.Fprintln(table, strings.Join([]string{
			progress.Line(s.SessionID), progress.Line(cmp.Or(s.held, s.Status)),
			s.CreatedAt.Local().Format("2006-01-02 15:04:05"), progress.Cut(progress.Line(s.Query), gist),
		}, "\t"))
	}
	return unprinted(table.Flush())
}
