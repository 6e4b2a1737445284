package prune

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/workflows/drive"
)

// listWorkflows adds the states of workflows, and the runs without files.
func (inv *inventory) listWorkflows(ctx context.Context) error {
	var types []string
	byType, known := map[string]*kind{}, map[string]*run{}
	for _, k := range kinds {
		types = append(types, "'"+k.workflow+"'")
		byType[k.workflow] = k
	}
	for _, r := range inv.runs {
		known[r.kind.workflow+" "+r.workflow] = r
	}
	executions, err := listExecutions(ctx, inv.conn, "WorkflowType IN ("+strings.Join(types, ", ")+")")
	if err != nil {
		return fmt.Errorf("list the workflows %s: %w", inv.conn.Target, err)
	}
	for _, e := range executions {
		k, id := byType[e.GetType().GetName()], e.GetExecution().GetWorkflowId()
		if k == nil {
			continue
		}
		r := known[k.workflow+" "+id]
		if r == nil {
			if e.GetTaskQueue() != inv.conn.Queue {
				continue // another program may have workflows of this type
			}
			r = &run{kind: k, id: id, workflow: id}
			known[k.workflow+" "+id] = r
			inv.runs = append(inv.runs, r)
		}
		r.addExecution(e)
	}
	return nil
}

func (r *run) addExecution(e *workflowpb.WorkflowExecutionInfo) {
	r.bytes += e.GetHistorySizeBytes()
	if e.GetCloseTime() == nil {
		r.open = true
	} else {
		r.closed = append(r.closed, e.GetExecution().GetRunId())
	}
	if closed := e.GetCloseTime().AsTime(); e.GetCloseTime() != nil && closed.After(r.ended) {
		r.ended = closed
	}
	r.caller = cmp.Or(r.caller, e.GetParentExecution().GetWorkflowId())
	if started := e.GetStartTime().AsTime(); started.After(r.started) { // the newest run counts
		r.started = started
		r.status = runs.StatusOf(r.kind.failed, e.GetStatus(), e.GetMemo())
		if r.status == drive.Running { // or paused, or parked
			r.status = runs.Memo(e.GetMemo(), drive.MemoStatus, r.status)
		}
		r.query = cmp.Or(runs.Memo(e.GetMemo(), drive.MemoQuery, ""), r.query)
	}
}

// listExecutions lists the executions that a visibility query finds.
func listExecutions(ctx context.Context, conn *hall.Connection, query string) ([]*workflowpb.WorkflowExecutionInfo, error) {
	var all []*workflowpb.WorkflowExecutionInfo
	for request := (&workflowservice.ListWorkflowExecutionsRequest{Query: query}); ; {
		asking, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
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

// readStatuses reads from the store how runs without a history ended.
func (inv *inventory) readStatuses(ctx context.Context) error {
	return inv.each(ctx, func(ctx context.Context, r *run) error {
		if r.open || len(r.closed) > 0 {
			return nil
		}
		r.ended, r.status = r.modified, unknown
		data, err := inv.conn.Store.Get(ctx, r.root+r.kind.record)
		if err != nil {
			return ctx.Err()
		}
		var recorded struct {
			Status string `json:"status"`
		}
		if json.Unmarshal(data, &recorded) == nil && recorded.Status != "" && recorded.Status != drive.Running {
			r.status = recorded.Status
		}
		return nil
	})
}
