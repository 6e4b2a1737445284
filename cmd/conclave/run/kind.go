package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/text"
	"conclave/workflows"
)

// Kind describes runs of one kind, such as sessions, to the commands that take an ID.
type Kind struct {
	*record.Kind // names and files of its runs

	List     string // the command that lists its runs
	MemoID   string // the memo field with the ID of a run
	MemoSlug string // the memo field with the scenario of a run; empty for other kinds

	// StateKeys are the JSON keys of the ID and the query in the state and in lists, and UsageKey that
	// of the usage in lists.
	StateKeys [2]string
	UsageKey  string

	// Alone says, for a kind without a team, why no request can be to one agent. It is empty for others.
	Alone string

	Undecided string   // the status of an ended run that a message continues; empty if none does
	Statuses  []string // the final statuses of runs, except cancelled

	OfflineNote string // printed wherever the built-in model answers

	Actions // nil for callers that only start and await runs
}

// Actions are the commands on the runs of a kind.
type Actions interface {
	// Watch follows a run to its end and prints the result.
	Watch(ctx context.Context, conn *cli.Connection, run Run) error
	// PrintEnd waits for the end of a run and prints the result.
	PrintEnd(ctx context.Context, conn *cli.Connection, run Run) error
	// AwaitEnd waits for the end of a run and returns its JSON result.
	AwaitEnd(ctx context.Context, conn *cli.Connection, run Run) (result any, err error)
	// OpenResult returns the JSON result of a run that has not ended, with its last known state.
	OpenResult(ctx context.Context, conn *cli.Connection, run Run) any
	// PrintStatus prints the state of a run.
	PrintStatus(ctx context.Context, conn *cli.Connection, run Run) error
	Requests
}

// Requests are the requests of people to the runs of a kind.
type Requests interface {
	// AdaptUpdate refuses an update or adapts it to the kind.
	AdaptUpdate(conn *cli.Connection, run Run, u *Update) error
	// ReopenInput returns the input of a new run that continues an ended one, repeating the failed
	// step of one agent or of all, or with a message. If the run cannot continue, the error is the
	// reason.
	ReopenInput(ctx context.Context, conn *cli.Connection, run Run, asked workflows.Request) (input any, err error)
}

// ExplainOffline returns the note on a run that asks no model server, and the name of its models in sentences.
func (r Run) ExplainOffline() (note, models string) {
	switch {
	case r.Recorded:
		return teams.RecordedNote, "recorded answers"
	case r.Offline:
		return r.Kind.OfflineNote, "offline models"
	}
	return "", ""
}

// Run is a run as described by Temporal, without querying a worker.
type Run struct {
	Kind     *Kind
	ID       string
	Slug     string // its scenario; empty for other runs
	Workflow string // its workflow ID, which may differ from the ID
	Query    string // shortened text
	Status   string // a documented status, or running
	Pipeline string // workflow ID of the pipeline run of which a session is a step
	Offline  bool
	Recorded bool // its answers are recorded ones; then it is offline, too
	Started  time.Time
	Closed   time.Time // zero while it runs
	Memo     *commonpb.Memo
	waiting  string // paused, parked or waiting while it waits for a person

	Questions []Question // those to people that are open, of its team or that of its step

	execution string // run ID of the workflow
	reset     bool   // the run began with a reset
	taskQueue string
	closed    enumspb.WorkflowExecutionStatus // how Temporal closed it

	Continues string // ID of the session whose conversation it continues
	Team      string // name of the team or of its file; empty if it is unknown

	Usage      *llm.Usage // in lists; nil if it is unknown
	Activities []cli.Activity

	// Spent is the usage that running steps have reported, by agent or step. The state of the
	// run does not include it yet.
	Spent map[string]llm.Usage
}

// String names the run in messages.
func (r Run) String() string {
	if r.Slug != "" {
		return r.Kind.Noun + " " + r.Name()
	}
	return r.Kind.Noun + " " + r.ID
}

// Name is the argument that names the run in commands: SLUG/RUN_ID for a scenario's run, else the
// ID of its workflow.
func (r Run) Name() string {
	if r.Slug != "" {
		return r.Slug + "/" + r.ID
	}
	return r.Workflow
}

// Stored names the run in the store and in the addresses of pages: SLUG/RUN_ID for a scenario's run.
func (r Run) Stored() record.Run {
	if r.Slug != "" {
		return r.Kind.At(nil, r.Name())
	}
	return r.Kind.At(nil, r.ID)
}

// Running reports whether the run has not ended.
func (r Run) Running() bool { return r.Closed.IsZero() }

// Shown returns the status of a run in lists, which is paused, parked or waiting while the run waits for
// a person.
func (r Run) Shown() string { return cmp.Or(r.waiting, r.Status) }

// Waiting returns the status of an open run, which is paused or parked while the run waits for a
// person.
func Waiting(paused bool, parked *string) string {
	switch {
	case parked != nil:
		return workflows.Parked
	case paused:
		return workflows.Paused
	}
	return workflows.Running
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

// scheduled matches the ID of a run that a schedule has started. In that of its workflow the time has colons.
var scheduled = regexp.MustCompile(`^(.+-\d{4}-\d\d-\d\dT\d\d)-(\d\d)-(\d\dZ)$`)

// findRun returns the run that an ID names: the ID of its workflow, SLUG/RUN_ID for a run of a
// scenario, or else its own ID.
func findRun(ctx context.Context, conn *cli.Connection, kinds []*Kind, id string) (Run, error) {
	run, err := describeRun(ctx, conn, workflowOf(kinds, id), kinds...)
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing && scheduled.MatchString(id) {
		run, err = describeRun(ctx, conn, scheduled.ReplaceAllString(id, "$1:$2:$3"), kinds...) // not listed for a moment
	}
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		run, err = findListed(ctx, conn, kinds, id)
	}
	if err == nil {
		return run, nil
	}
	if ctx.Err() != nil {
		return Run{}, ctx.Err()
	}
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return Run{}, conn.NoRun(ctx, id)
	}
	if _, coded := errors.AsType[*cli.ExitError](err); coded {
		return Run{}, err
	}
	return Run{}, fmt.Errorf("look up session %s: %w", id, err)
}

func workflowOf(kinds []*Kind, name string) string {
	if strings.Contains(name, "/") && slices.ContainsFunc(kinds, func(k *Kind) bool { return k.MemoSlug != "" }) {
		return record.Scenarios.At(nil, name).WorkflowID()
	}
	return name
}

// findListed returns the newest run with an ID, of the first kind that has one. It refuses the ID
// if runs of several scenarios have it.
func findListed(ctx context.Context, conn *cli.Connection, kinds []*Kind, id string) (Run, error) {
	for _, kind := range kinds {
		all, err := listRuns(ctx, conn, kind, 0)
		if err != nil {
			break
		}
		all = slices.DeleteFunc(all, func(r Run) bool { return r.ID != id && r.Name() != id })
		if len(all) == 0 {
			continue
		}
		if others := namesOf(all); len(others) > 1 {
			return Run{}, cli.Exitf(cli.ExitUsage, "several scenarios have a run %s; name one of %s", id, strings.Join(others, ", "))
		}
		run, err := describeRun(ctx, conn, all[0].Workflow, kinds...)
		if err == nil {
			conn.Infof("%s is the workflow %s", run, run.Workflow)
		}
		return run, err
	}
	return Run{}, serviceerror.NewNotFound("no run " + id)
}

// namesOf returns the names of the scenarios' runs among runs, sorted.
func namesOf(all []Run) []string {
	var names []string
	for _, r := range all {
		if r.Slug != "" {
			names = append(names, r.Name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// maxTeams bounds the teams of a pipeline run that are asked for their questions.
const maxTeams = 10

// describeRun returns the run of a workflow. The workflow must belong to one of the kinds.
func describeRun(ctx context.Context, conn *cli.Connection, workflow string, kinds ...*Kind) (Run, error) {
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	reply, err := conn.Client.DescribeWorkflowExecution(ctx, workflow, "")
	if err != nil {
		return Run{}, err
	}
	info := reply.GetWorkflowExecutionInfo()
	for _, kind := range kinds {
		if kind.Workflow == info.GetType().GetName() {
			run := runOf(kind, info)
			if first := reply.GetWorkflowExtendedInfo().GetOriginalStartTime(); first != nil {
				run.reset = first.AsTime().Before(info.GetStartTime().AsTime())
			}
			if run.Running() {
				run.Activities, run.Spent = activitiesIn(ctx, conn, workflow, reply), spentBy(reply.GetPendingActivities())
				run.Questions = questionsIn(run.Memo, workflow, "")
				for _, child := range reply.GetPendingChildren()[:min(len(reply.GetPendingChildren()), maxTeams)] {
					team, err := conn.Client.DescribeWorkflowExecution(ctx, child.GetWorkflowId(), child.GetRunId())
					if err == nil && team.GetWorkflowExecutionInfo().GetCloseTime() == nil {
						run.Questions = append(run.Questions, questionsIn(team.GetWorkflowExecutionInfo().GetMemo(), child.GetWorkflowId(), workflow)...)
					}
				}
			}
			return run, nil
		}
	}
	return Run{}, cli.Exitf(cli.ExitUsage, "%s is a workflow of type %s; this command takes the ID of a %s", workflow, info.GetType().GetName(), joinNouns(kinds))
}

// Describe describes the workflow of a run again. Its ID and scenario remain, because a memo lacks them
// until the run is prepared.
func Describe(ctx context.Context, conn *cli.Connection, run Run) (Run, error) {
	now, err := describeRun(ctx, conn, run.Workflow, run.Kind)
	now.ID, now.Slug = cmp.Or(run.ID, now.ID), cmp.Or(run.Slug, now.Slug)
	return now, err
}

// Refreshed describes an open run again. If the server does not respond, it returns the run
// unchanged.
func Refreshed(ctx context.Context, conn *cli.Connection, run Run) Run {
	if run.Running() {
		if now, err := Describe(ctx, conn, run); err == nil {
			return now
		}
	}
	return run
}

func joinNouns(kinds []*Kind) string {
	all := text.Each(kinds, func(kind *Kind) string { return kind.Noun })
	last := len(all) - 1
	if last < 1 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

func runOf(kind *Kind, info *workflowpb.WorkflowExecutionInfo) Run {
	workflow := info.GetExecution().GetWorkflowId()
	run := Run{
		Kind:      kind,
		Workflow:  workflow,
		ID:        Memo(info.GetMemo(), kind.MemoID, artifact.SessionIDOf(workflow)),
		Slug:      Memo(info.GetMemo(), kind.MemoSlug, ""),
		Query:     Memo(info.GetMemo(), workflows.MemoQuery, ""),
		Pipeline:  info.GetParentExecution().GetWorkflowId(),
		Offline:   Memo(info.GetMemo(), workflows.MemoOffline, false),
		Recorded:  Memo(info.GetMemo(), workflows.MemoRecorded, false),
		Status:    StatusOf(kind.Failed, info.GetStatus(), info.GetMemo()),
		Started:   info.GetStartTime().AsTime().Truncate(time.Millisecond),
		Continues: Memo(info.GetMemo(), workflows.MemoContinues, ""),
		Team:      Memo(info.GetMemo(), workflows.MemoTeam, ""),
		execution: info.GetExecution().GetRunId(),
		taskQueue: info.GetTaskQueue(),
		Memo:      info.GetMemo(),
		closed:    info.GetStatus(),
	}
	if info.GetCloseTime() != nil {
		run.Closed = info.GetCloseTime().AsTime()
	} else if status := Memo(info.GetMemo(), workflows.MemoStatus, ""); slices.Contains([]string{workflows.Paused, workflows.Parked, workflows.Waiting}, status) {
		run.waiting = status
	}
	return run
}

// StatusOf returns the status of a run. For a completed workflow it is in the memo.
// If Temporal ended the workflow, the run is failed or cancelled.
func StatusOf(failed string, status enumspb.WorkflowExecutionStatus, m *commonpb.Memo) string {
	switch status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return workflows.Cancelled
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return failed
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return Memo(m, workflows.MemoStatus, "completed")
	default:
		return workflows.Running
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
