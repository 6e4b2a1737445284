package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/workflows/drive"
)

// Kind describes runs of one kind, such as sessions, to the commands that take an ID.
type Kind struct {
	Type   string // type of the workflow
	Noun   string // word for a run in messages
	List   string // the command that lists its runs
	MemoID string // the memo field with the ID of a run

	MemoSlug string // the memo field with the scenario of a run; empty for other kinds

	// StateKeys are the JSON keys of the ID and the query in the state.
	StateKeys [2]string

	Failed string // the status of a run that Temporal ended as failed

	Statuses []string                        // the final statuses of runs, except cancelled
	Files    func(id string) artifact.Layout // the layout of a run in the store; nil if the ID does not determine it

	Dirs string // pattern of the directories of the runs in a store

	// Page is the path of the pages of runs, up to the ID; empty for runs without pages.
	Page string
	// Offer serves pages while a command follows a run and sets conn.Pages. It is nil if there are
	// no pages.
	Offer func(conn *hall.Connection, kinds ...*Kind) (stop func())

	// OfflineNote is printed wherever the built-in model answers.
	OfflineNote string

	// Running returns the JSON result of a run that has not ended, with its last known state.
	Running func(context.Context, *hall.Connection, Run) any
	// Watch follows a run to its end and prints the result.
	Watch func(context.Context, *hall.Connection, Run) error
	// Result waits for the end of a run and prints the result.
	Result func(context.Context, *hall.Connection, Run) error
	// Await waits for the end of a run.
	Await func(context.Context, *hall.Connection, Run) (result any, status string, err error)
	// Status prints the state of a run.
	Status func(context.Context, *hall.Connection, Run) error
	// Adapt refuses an update or adapts its payload to the kind. Nil accepts all updates.
	Adapt func(*hall.Connection, Run, *Update) error
	// Reopen returns the input of a new run that continues an ended one, repeating the failed
	// step of one agent or of all, or with a message. If the run cannot continue, it returns the
	// reason. Nil means that no run of the kind can continue.
	Reopen func(ctx context.Context, conn *hall.Connection, run Run, asked drive.Request) (input any, err error)
	// Undecided is the status of an ended run that a message continues; empty if none does.
	Undecided string
	// Follow returns the command line that follows a reopened run. If it is nil, the command is
	// watch.
	Follow func(*hall.Connection, Run) string
}

// Run is a run as described by Temporal, without querying a worker.
type Run struct {
	Kind     *Kind
	ID       string
	Workflow string // its workflow ID, which may differ from the ID
	Query    string // shortened text
	Status   string // a documented status, or running
	Pipeline string // workflow ID of the pipeline run of which a session is a step
	Offline  bool
	Started  time.Time
	Closed   time.Time // zero while it runs
	Memo     *commonpb.Memo
	waiting  string // paused or parked while it waits for a person

	execution string // run ID of the workflow
	reset     bool   // the run began with a reset
	taskQueue string
	closed    enumspb.WorkflowExecutionStatus // how Temporal closed it

	Continues string // ID of the session whose conversation it continues
	Team      string // name of the team or of its file; empty if it is unknown

	Activities []progress.Activity

	// Spent is the usage that running steps have reported, by agent or step. The state of the
	// run does not include it yet.
	Spent map[string]llm.Usage
}

// String names the run in messages.
func (r Run) String() string { return r.Kind.Noun + " " + r.ID }

// slugged returns SLUG/RUN_ID for a scenario's run and "" for other runs.
func (r Run) slugged() string {
	if slug := Memo(r.Memo, r.Kind.MemoSlug, ""); slug != "" {
		return slug + "/" + r.ID
	}
	return ""
}

// Running reports whether the run has not ended.
func (r Run) Running() bool { return r.Closed.IsZero() }

// Shown returns the status of a run in lists, which is paused or parked while the run waits for a
// person.
func (r Run) Shown() string { return cmp.Or(r.waiting, r.Status) }

// Waiting returns the status of an open run, which is paused or parked while the run waits for a
// person.
func Waiting(paused bool, parked *string) string {
	switch {
	case parked != nil:
		return drive.Parked
	case paused:
		return drive.Paused
	}
	return drive.Running
}

// Elapsed returns the duration of a run up to its end or now, or 0 if its start is unknown.
func (r Run) Elapsed() time.Duration {
	switch {
	case r.Started.IsZero():
		return 0
	case r.Running():
		return time.Since(r.Started)
	}
	return r.Closed.Sub(r.Started)
}

// Seconds returns the elapsed time in seconds, rounded to milliseconds.
func (r Run) Seconds() float64 {
	return float64(r.Elapsed().Round(time.Millisecond).Milliseconds()) / 1000
}

// find returns the run with a workflow ID. Otherwise it returns the newest run with
// that run ID or SLUG/RUN_ID, of the first kind that has one.
func find(ctx context.Context, conn *hall.Connection, kinds []*Kind, id string) (Run, error) {
	run, err := describe(ctx, conn, id, kinds...)
	_, missing := errors.AsType[*serviceerror.NotFound](err)
	for i := 0; missing && i < len(kinds); i++ {
		all, listErr := list(ctx, conn, kinds[i], 0)
		if listErr != nil {
			break
		}
		if at := slices.IndexFunc(all, func(r Run) bool { return r.ID == id || r.slugged() == id }); at >= 0 {
			if run, err = describe(ctx, conn, all[at].Workflow, kinds...); err == nil {
				conn.Infof("%s is the workflow %s", run, run.Workflow)
			}
			break
		}
	}
	if err == nil {
		return run, nil
	}
	if ctx.Err() != nil {
		return Run{}, ctx.Err()
	}
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return Run{}, conn.NoRun(id)
	}
	if _, coded := errors.AsType[*hall.ExitError](err); coded {
		return Run{}, err
	}
	return Run{}, fmt.Errorf("look up session %s: %w", id, err)
}

// describe returns the run of a workflow. The workflow must belong to one of the kinds.
func describe(ctx context.Context, conn *hall.Connection, workflow string, kinds ...*Kind) (Run, error) {
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	reply, err := conn.Client.DescribeWorkflowExecution(ctx, workflow, "")
	if err != nil {
		return Run{}, err
	}
	info := reply.GetWorkflowExecutionInfo()
	for _, kind := range kinds {
		if kind.Type == info.GetType().GetName() {
			run := runOf(kind, info)
			if first := reply.GetWorkflowExtendedInfo().GetOriginalStartTime(); first != nil {
				run.reset = first.AsTime().Before(info.GetStartTime().AsTime())
			}
			if run.Running() {
				run.Activities, run.Spent = activitiesIn(ctx, conn, workflow, reply), spentBy(reply.GetPendingActivities())
			}
			return run, nil
		}
	}
	return Run{}, hall.Exitf(hall.ExitUsage, "%s is a workflow of type %s; this command takes the ID of a %s", workflow, info.GetType().GetName(), nouns(kinds))
}

// Refreshed describes an open run again. If the server does not respond, it returns the run
// unchanged.
func Refreshed(ctx context.Context, conn *hall.Connection, run Run) Run {
	if run.Running() {
		if now, err := describe(ctx, conn, run.Workflow, run.Kind); err == nil {
			return now
		}
	}
	return run
}

// nouns joins the nouns of kinds for a sentence.
func nouns(kinds []*Kind) string {
	var all []string
	for _, kind := range kinds {
		all = append(all, kind.Noun)
	}
	last := len(all) - 1
	if last < 1 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// runOf returns the run described by Temporal's summary of its workflow.
func runOf(kind *Kind, info *workflowpb.WorkflowExecutionInfo) Run {
	workflow := info.GetExecution().GetWorkflowId()
	run := Run{
		Kind:      kind,
		Workflow:  workflow,
		ID:        Memo(info.GetMemo(), kind.MemoID, workflow),
		Query:     Memo(info.GetMemo(), drive.MemoQuery, ""),
		Pipeline:  info.GetParentExecution().GetWorkflowId(),
		Offline:   Memo(info.GetMemo(), drive.MemoOffline, false),
		Status:    StatusOf(kind.Failed, info.GetStatus(), info.GetMemo()),
		Started:   info.GetStartTime().AsTime().Truncate(time.Millisecond),
		Continues: Memo(info.GetMemo(), drive.MemoContinues, ""),
		Team:      Memo(info.GetMemo(), drive.MemoTeam, ""),
		execution: info.GetExecution().GetRunId(),
		taskQueue: info.GetTaskQueue(),
		Memo:      info.GetMemo(),
		closed:    info.GetStatus(),
	}
	if info.GetCloseTime() != nil {
		run.Closed = info.GetCloseTime().AsTime()
	} else if status := Memo(info.GetMemo(), drive.MemoStatus, ""); status == drive.Paused || status == drive.Parked {
		run.waiting = status
	}
	return run
}

// StatusOf returns the status of a run. For a completed workflow it is in the memo.
// If Temporal ended the workflow, the run is failed or cancelled.
func StatusOf(failed string, status enumspb.WorkflowExecutionStatus, m *commonpb.Memo) string {
	switch status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return drive.Cancelled
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return failed
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return Memo(m, drive.MemoStatus, "completed")
	default:
		return drive.Running
	}
}

// Memo returns a memo field, or the default if it is absent or has another type.
func Memo[T any](m *commonpb.Memo, name string, otherwise T) T {
	var value T
	payload, ok := m.GetFields()[name]
	if !ok || converter.GetDefaultDataConverter().FromPayload(payload, &value) != nil {
		return otherwise
	}
	return value
}
