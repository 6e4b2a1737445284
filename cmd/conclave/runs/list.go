package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// Listed is a run in a list.
type Listed struct {
	ID        string
	Status    string
	Query     string // shortened
	CreatedAt time.Time

	workflow string
	waiting  string // paused or parked, for people; programs read running
}

// PrintList prints the runs of a kind, newest first. Titles are those of the table's
// first and last column; toJSON is the form of a run for programs.
func PrintList(ctx context.Context, c *hall.CLI, kind *Kind, titles [2]string, toJSON func(Listed) any) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	return c.With(ctx, t, func(conn *hall.Connection) error {
		all, err := list(ctx, conn, kind)
		if err != nil {
			return fmt.Errorf("list the %ss %s: %w", kind.Noun, conn.Target, err)
		}
		if c.Scripted() {
			records := []any{}
			for _, r := range all {
				records = append(records, toJSON(r))
			}
			return c.PrintJSON(records)
		}
		if len(all) == 0 {
			c.Infof("no %ss %s", kind.Noun, conn.Target)
			return nil
		}
		return printTable(c, titles, all)
	})
}

// list asks Temporal's visibility for the runs of a kind. A run that was continued or
// reset has several executions; the newest one counts.
func list(ctx context.Context, conn *hall.Connection, kind *Kind) ([]Listed, error) {
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew'", kind.Type),
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
	var all []Listed
	seen := map[string]bool{}
	for _, e := range executions {
		workflow := e.GetExecution().GetWorkflowId()
		if seen[workflow] {
			continue
		}
		seen[workflow] = true
		all = append(all, Listed{
			workflow:  workflow,
			waiting:   waitingOf(e),
			ID:        memo(e.GetMemo(), kind.MemoID, workflow),
			Status:    statusOf(kind, e.GetStatus(), e.GetMemo()),
			Query:     memo(e.GetMemo(), drive.MemoQuery, ""),
			CreatedAt: e.GetStartTime().AsTime().UTC().Truncate(time.Millisecond),
		})
	}
	return all, nil
}

// waitingOf is paused or parked for an open run that waits for a person, else empty.
func waitingOf(e *workflowpb.WorkflowExecutionInfo) string {
	status := memo(e.GetMemo(), drive.MemoStatus, "")
	if e.GetCloseTime() == nil && (status == drive.Paused || status == drive.Parked) {
		return status
	}
	return ""
}

func printTable(c *hall.CLI, titles [2]string, all []Listed) error {
	const maxQuery = 60
	table := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, titles[0]+"\tSTATUS\tCREATED\t"+titles[1])
	for _, r := range all {
		fmt.Fprintln(table, strings.Join([]string{
			progress.Line(r.ID), progress.Line(cmp.Or(r.waiting, r.Status)),
			r.CreatedAt.Local().Format("2006-01-02 15:04:05"), text.Truncate(progress.Line(r.Query), maxQuery),
		}, "\t"))
	}
	return hall.PrintError(table.Flush())
}
