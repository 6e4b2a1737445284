package workflows

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/engine/files/artifact"
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

// Teller has the receivers of a run told of its waits and its end, each once.
type Teller struct {
	Subject
	waits string   // reason for which the run waits for a person; empty if it does not
	asked []string // IDs of the questions to people that are told
	ended bool
}

// Subject is the run of which notices tell.
type Subject struct {
	ID       string
	Question string
	Page     string // path of its page
	URL      string // URL of a file in its directory

	Receivers []activities.Receiver // known once it is prepared
}

// maxSummary bounds the question and the summary of a notice, in bytes.
const maxSummary = 2000

// Waited records the reason for which the run waits for a person, nil for none. It reports whether the
// reason is new, so that the receivers have to be told.
func (t *Teller) Waited(reason *string) (isNew bool) {
	before := t.waits
	if t.waits = ""; reason != nil {
		t.waits = *reason
	}
	return t.waits != "" && t.waits != before
}

// TellWait tells a new reason for which the run waits for a person, by a notice of the type. Nil ends the wait.
func (t *Teller) TellWait(ctx workflow.Context, notice string, reason *string) {
	if t.Waited(reason) {
		t.sendNotices(ctx, activities.Notice{Status: notice, Summary: *reason}, notice)
	}
}

// TellAsked tells a question of an agent to a person, once. Without a context it only counts as told.
func (t *Teller) TellAsked(ctx workflow.Context, status, id, question string) {
	if slices.Contains(t.asked, id) {
		return
	}
	if t.asked = append(t.asked, id); ctx == nil {
		return
	}
	told := t.Subject
	told.Question = question
	told.sendNotices(ctx, activities.Notice{Status: status, Summary: question}, activities.NoticeAsked)
}

// TellEnd tells how the run ended: an error, or else the summary. A receiver is told by the first of the types
// that it lists. The ends of the steps of pipelines and evaluations are not told.
func (t *Teller) TellEnd(ctx workflow.Context, status, summary string, why *artifact.Error, types ...string) {
	if t.ended || workflow.GetInfo(ctx).ParentWorkflowExecution != nil || strings.HasPrefix(t.ID, "eval-") {
		return
	}
	if t.ended = true; why != nil {
		summary = why.Type + ": " + why.Message
	}
	t.sendNotices(ctx, activities.Notice{Status: status, Summary: summary}, types...)
}

// TellRefused tells that the run could not begin, if its error has receivers.
func (t *Teller) TellRefused(ctx workflow.Context, err error) {
	if final, ok := errors.AsType[*temporal.ApplicationError](err); ok && final.HasDetails() && final.Details(&t.Receivers) == nil {
		why := &artifact.Error{Type: final.Type(), Message: final.Message()}
		t.TellEnd(ctx, activities.NoticeFailed, "", why, activities.NoticeFailed)
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

// sendNotices starts a workflow for each receiver, and waits until they have started: a child that is abandoned
// by the task that ends its parent would never start. A delivery that cannot start does not concern the run.
func (s Subject) sendNotices(ctx workflow.Context, n activities.Notice, types ...string) {
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
