package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"conclave/activities"
	"conclave/activities/attempt"
	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/text"
)

const (
	// describeTimeout is the timeout of a request for activities.
	describeTimeout = 3 * time.Second
	// queueTime is how long a step waits for a worker before the wait is reported.
	queueTime = 2 * time.Second
	// maxFailure is the length to which a failure's message is truncated, in bytes.
	maxFailure = 160
)

// pending is a pending activity of a workflow.
type pending struct {
	*workflowpb.PendingActivityInfo
	unpause string // the command line that releases a paused activity
}

// Activities returns the current activities of a workflow. If the server does not
// respond, it returns none, because the next request may succeed.
func Activities(ctx context.Context, conn *cli.Connection, workflow string) []cli.Activity {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	reply, err := conn.Client.DescribeWorkflowExecution(ctx, workflow, "")
	if err != nil {
		return nil
	}
	return activitiesIn(ctx, conn, workflow, reply)
}

// activitiesIn returns the activities of a described workflow and of its team's session.
func activitiesIn(ctx context.Context, conn *cli.Connection, workflow string, reply *workflowservice.DescribeWorkflowExecutionResponse) []cli.Activity {
	all := activitiesOf(conn, workflow, reply.GetPendingActivities(), time.Now())
	for _, child := range reply.GetPendingChildren() {
		id := child.GetWorkflowId()
		all = append(all, teamActivity(conn, id))
		for _, a := range Activities(ctx, conn, id) {
			all = append(all, cli.Activity{Work: cmp.Or(a.Agent, a.Work) + " of the team", First: a.First, Doing: a.Doing})
		}
	}
	return all
}

func teamActivity(conn *cli.Connection, session string) cli.Activity {
	return cli.Activity{Work: "team", Session: session, Doing: coordination.Doing{
		What: "session " + session + "; `" + conn.CommandLine("watch", session) + "` follows it",
	}}
}

// activitiesOf returns, sorted by name, the activities that are steps, and those of other
// work that make no progress.
func activitiesOf(conn *cli.Connection, workflow string, infos []*workflowpb.PendingActivityInfo, now time.Time) []cli.Activity {
	var all []cli.Activity
	for _, info := range infos {
		p := pending{info, fmt.Sprintf("temporal activity unpause --address %s --namespace %s --workflow-id %s --activity-id %s",
			conn.Options.HostPort, conn.Options.Namespace, workflow, info.GetActivityId())}
		doing, ok := p.describeActivity(now)
		if !ok {
			continue
		}
		a := cli.Activity{Work: info.GetActivityType().GetName(), Doing: doing}
		if id, ok := p.stepName(); ok {
			report := attempt.Reported(info.GetHeartbeatDetails())
			a.Agent, a.Work, a.Said = id, "", report.Said
			a.First = doing.Kind == coordination.CallsModel && report.Usage.ModelCalls == 0
		}
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(a, b cli.Activity) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Work, b.Work))
	})
	return all
}

// Doing returns the current activity of an agent's or a pipeline's step, or nil if it is unknown.
func (r Run) Doing(name string) *coordination.Doing {
	for _, a := range r.Activities {
		if a.Agent == name && a.Kind != "" {
			return &a.Doing
		}
	}
	return nil
}

func spentBy(infos []*workflowpb.PendingActivityInfo) map[string]llm.Usage {
	spent := map[string]llm.Usage{}
	for _, info := range infos {
		if id, ok := (pending{PendingActivityInfo: info}).stepName(); ok {
			spent[id] = spent[id].Add(attempt.Reported(info.GetHeartbeatDetails()).Usage)
		}
	}
	return spent
}

// Counting returns the state of a session including the usage reported by its running steps.
func (r Run) Counting(state acts.State) acts.State {
	state.Agents = slices.Clone(state.Agents)
	for i, a := range state.Agents {
		if spent, ok := r.Spent[a.ID]; ok && a.Running {
			state.Agents[i].Cost, state.Cost = a.Cost.Add(spent), state.Cost.Add(spent)
		}
	}
	return state
}

// stepName returns the agent or the step of an activity. The activity's ID is that name, a
// hyphen, and the ID of the launch.
func (p pending) stepName() (id string, ok bool) {
	i := strings.LastIndexByte(p.GetActivityId(), '-')
	if !p.isStep() || i <= 0 {
		return "", false
	}
	return p.GetActivityId()[:i], true
}

func (p pending) isStep() bool {
	switch p.GetActivityType().GetName() {
	case "RunStep", "RunSegment", "RunScenarioStep":
		return true
	}
	return false
}

// describeActivity describes the activity if it is a step with a known state, or if it makes no progress.
func (p pending) describeActivity(now time.Time) (coordination.Doing, bool) {
	switch state := p.GetState(); {
	case p.GetPaused():
		return p.describePaused(), true
	case state == enumspb.PENDING_ACTIVITY_STATE_STARTED, state == enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED:
		return p.describeStarted(now)
	case state == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED:
		return p.describeScheduled(now)
	}
	return coordination.Doing{}, false
}

func (p pending) describePaused() coordination.Doing {
	info := p.GetPauseInfo()
	who := "an operator"
	if manual := info.GetManual(); manual.GetIdentity() != "" {
		who = manual.GetIdentity()
	}
	if why := info.GetManual().GetReason(); why != "" {
		who += " (" + text.Truncate(cli.Line(why), maxFailure) + ")"
	}
	return coordination.Doing{Kind: coordination.OnHold, Since: info.GetPauseTime().AsTime(), What: "paused by " + who + "; `" + p.unpause + "` releases it"}
}

// describeStarted describes an activity that a worker executes. It includes an earlier failure
// until the attempt makes progress, unless the attempt already waits for the same reason.
func (p pending) describeStarted(now time.Time) (coordination.Doing, bool) {
	began := p.GetLastStartedTime().AsTime()
	alive, report := began, attempt.Report{}
	if beat := p.GetLastHeartbeatTime(); beat != nil && !beat.AsTime().Before(began) {
		alive, report = beat.AsTime(), attempt.Reported(p.GetHeartbeatDetails())
	}
	if timeout := p.heartbeatTimeout(); p.isStep() && now.Sub(alive) > timeout*6/10 { // two heartbeats are missing
		return coordination.Doing{
			Kind: coordination.Queued, Since: alive, Until: alive.Add(max(timeout, now.Sub(alive)+time.Second)),
			What: "its worker is gone; another one will take the step",
		}, true
	}
	d := coordination.Doing{Since: began}
	if report.Doing != nil {
		d = *report.Doing
	}
	again := d.Kind != coordination.Queued && d.Kind == waitKind(p.GetLastFailure())
	if failed := p.previousFailure(); failed != "" && !report.Progress && !again {
		d.What = strings.TrimPrefix(d.What+"; "+failed, "; ")
	}
	return d, d.What != ""
}

func (p pending) describeScheduled(now time.Time) (coordination.Doing, bool) {
	due := p.GetScheduledTime().AsTime()
	if next := p.GetNextAttemptScheduleTime(); next != nil {
		due = next.AsTime()
	}
	if failed := p.previousFailure(); failed != "" && now.Before(due.Add(queueTime)) {
		d := coordination.Doing{Kind: waitKind(p.GetLastFailure()), Since: p.GetLastAttemptCompleteTime().AsTime(), Until: due, What: failed}
		if d.Kind != coordination.Queued { // the display names the wait
			d.What = messageOf(p.GetLastFailure())
		}
		if away := attempt.Reported(p.GetHeartbeatDetails()).Away; d.Kind == coordination.ModelAway && !away.IsZero() {
			d.Since = away
		}
		return d, true
	}
	return coordination.Doing{Kind: coordination.Queued, Since: due, What: "no worker has taken it yet: all are busy, or none is running"},
		now.Sub(due) > queueTime
}

func waitKind(f *failurepb.Failure) coordination.DoingKind {
	switch f.GetApplicationFailureInfo().GetType() {
	case string(llm.RateLimited):
		return coordination.RateLimited
	case string(llm.Overloaded), string(llm.Network), activities.Outage:
		return coordination.ModelAway
	}
	return coordination.Queued
}

func (p pending) heartbeatTimeout() time.Duration {
	return cmp.Or(p.GetActivityOptions().GetHeartbeatTimeout().AsDuration(), attempt.HeartbeatTimeout)
}

// previousFailure describes the failure of the previous attempt, or returns "" for the first attempt.
func (p pending) previousFailure() string {
	if p.GetAttempt() < 2 || p.GetLastFailure() == nil {
		return ""
	}
	if waitKind(p.GetLastFailure()) != coordination.Queued { // waiting in a queue counts as no attempt
		return "trying again after: " + messageOf(p.GetLastFailure())
	}
	return fmt.Sprintf("attempt %d after %s", p.GetAttempt(), describeFailure(p.GetLastFailure()))
}

const workerLost = "the loss of its worker"

func messageOf(f *failurepb.Failure) string {
	return text.Truncate(cli.Line(f.GetMessage()), maxFailure)
}

func describeFailure(f *failurepb.Failure) string {
	message := messageOf(f)
	switch info := f.GetApplicationFailureInfo(); {
	case f.GetTimeoutFailureInfo().GetTimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT, info.GetType() == activities.WorkerLost:
		return workerLost
	case f.GetTimeoutFailureInfo() != nil:
		return "one that ran out of time"
	case info.GetType() != "":
		return info.GetType() + ": " + message
	}
	return message
}
