package workflows

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/engine/text"
)

// NotifyType is the workflow type of the delivery of a notice.
const NotifyType = "Notify"

// notifier is used to refer to its activity.
var notifier *activities.Notifier

// Notify delivers a notice. It tries for three days.
func Notify(ctx workflow.Context, d activities.Delivery) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              stepsQueue(ctx),
		StartToCloseTimeout:    time.Minute,
		ScheduleToCloseTimeout: 72 * time.Hour,
		Summary:                d.Notice.Type + " " + d.Notice.ID,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 5 * time.Second, BackoffCoefficient: 3, MaximumInterval: time.Hour},
	})
	return workflow.ExecuteActivity(ctx, notifier.Deliver, d).Get(ctx, nil)
}

// Teller has the receivers of a run told what happens to it. What it was told is not told again.
type Teller struct {
	Waits string // for what the run waits of a person; empty for nothing
	ended bool
}

// Subject is the run of which notices tell.
type Subject struct {
	Receivers []activities.Receiver
	Question  string
	Page      string // path of its page
	ID, URL   string
}

// maxSummary bounds the question and the summary of a notice, in bytes.
const maxSummary = 2000

// TellWait tells for what the run waits of a person: a notice of a type with its text. An empty text
// ends the wait.
func (t *Teller) TellWait(ctx workflow.Context, s Subject, notice, waits string) {
	if waits == t.Waits {
		return
	}
	if t.Waits = waits; waits != "" {
		s.tell(ctx, activities.Notice{Status: notice, Summary: waits}, notice)
	}
}

// TellEnd tells how the run ended, by the first of the types that a receiver is told. The steps of
// pipelines and evaluations do not tell it.
func (t *Teller) TellEnd(ctx workflow.Context, s Subject, status, summary string, types ...string) {
	if t.ended || workflow.GetInfo(ctx).ParentWorkflowExecution != nil || strings.HasPrefix(s.ID, "eval-") {
		return
	}
	t.ended = true
	s.tell(ctx, activities.Notice{Status: status, Summary: summary}, types...)
}

// TellRefused tells that a run could not begin, if its error has receivers.
func (t *Teller) TellRefused(ctx workflow.Context, s Subject, err error) {
	if final, ok := errors.AsType[*temporal.ApplicationError](err); ok && final.HasDetails() && final.Details(&s.Receivers) == nil {
		t.TellEnd(ctx, s, activities.NoticeFailed, final.Type()+": "+final.Message(), activities.NoticeFailed)
	}
}

// EndTypes returns the types of the notice of an end, the most specific first.
func EndTypes(answered, overspent bool) []string {
	types := []string{activities.NoticeFailed}
	if answered {
		types[0] = activities.NoticeDecided
	}
	if overspent {
		types = append([]string{activities.NoticeBudget}, types...)
	}
	return types
}

// tell starts a workflow for each receiver, and waits until they have started: a child that is abandoned
// by the task that ends its parent would never start. A delivery that cannot start does not concern the run.
func (s Subject) tell(ctx workflow.Context, n activities.Notice, types ...string) {
	ctx, _ = workflow.NewDisconnectedContext(ctx) // its cancellation would cancel the deliveries
	n.ID, n.Question, n.Summary = s.ID, text.Truncate(s.Question, maxSummary), text.Truncate(n.Summary, maxSummary)
	if at := strings.LastIndex(s.URL, "/"); at >= 0 {
		n.Link = s.URL[:at+1]
	}
	var begun []workflow.ChildWorkflowFuture
	for _, r := range s.Receivers {
		if n.Type = r.Choose(types); n.Type == "" {
			continue
		}
		// A reset that repeats the notice repeats the ID, so that it is sent once.
		id := fmt.Sprintf("notify/%s/%s/%s-%d-%x", s.ID, r.URLEnv, n.Type, workflow.Now(ctx).UnixMilli(), crc32.ChecksumIEEE([]byte(n.Summary)))
		child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID: id, ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON, StaticSummary: "tell the receiver of " + r.URLEnv,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		})
		begun = append(begun, workflow.ExecuteChildWorkflow(child, NotifyType, activities.Delivery{ID: id, Receiver: r.URLEnv, Notice: n, Page: s.Page}))
	}
	for _, delivery := range begun {
		if err := delivery.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Error("a notice could not be sent", "error", err)
		}
	}
}
