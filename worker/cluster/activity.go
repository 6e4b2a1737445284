package cluster

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"conclave/activities/attempt"
	"conclave/activities/pipeline"
	"conclave/activities/scenario"
	"conclave/activities/session"
	"conclave/engine/coordination"
)

// Kinds of runs.
const (
	kindSession  = "session"
	kindPipeline = "pipeline"
	kindScenario = "scenario"
)

// ownTeam is the team label of sessions whose input defines the team.
const ownTeam = "(own)"

// Interceptor returns an interceptor that counts sessions and steps.
func (m *Metrics) Interceptor() interceptor.WorkerInterceptor { return &activities{metrics: m} }

type activities struct {
	interceptor.WorkerInterceptorBase
	metrics *Metrics
}

func (a *activities) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &countedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, a.metrics}
}

type countedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	metrics *Metrics
}

func (c *countedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	var input any
	if len(in.Args) == 1 {
		input = in.Args[0]
	}
	kind := stepKind(input)
	if kind != "" && activity.GetInfo(ctx).Attempt > 1 {
		repays := attempt.MayRepeatPaidCall(ctx)
		ctx = attempt.Beginning(ctx, func() {
			c.metrics.continued.WithLabelValues(kind).Inc()
			if repays {
				c.metrics.repaid.WithLabelValues(kind).Inc()
			}
		})
	}
	began := time.Now()
	result, err := c.Next.ExecuteActivity(ctx, in)
	if kind != "" {
		c.metrics.steps.WithLabelValues(kind, stepOutcome(ctx, err)).Observe(time.Since(began).Seconds())
	}
	if err == nil {
		c.metrics.countActivity(input, result)
	}
	return result, err
}

// stepKind returns the kind of run to which a step belongs according to its input, or "" for other
// activities.
func stepKind(input any) string {
	switch input.(type) {
	case session.StepInput:
		return kindSession
	case pipeline.StepInput:
		return kindPipeline
	case scenario.StepInput:
		return kindScenario
	}
	return ""
}

func stepOutcome(ctx context.Context, err error) string {
	application, ok := errors.AsType[*temporal.ApplicationError](err)
	switch {
	case err == nil:
		return "done"
	case ctx.Err() != nil:
		return "cancelled"
	case ok && application.NonRetryable():
		return "failed"
	}
	return "retried"
}

// countActivity counts a completed activity. If its result is lost on the way to the server, the
// activity runs again and is counted twice.
func (m *Metrics) countActivity(input, result any) {
	switch in := input.(type) {
	case session.PrepareInput:
		if p, ok := result.(session.Prepared); ok {
			m.started.WithLabelValues(teamLabel(p.Team)).Inc()
		}
	case session.ReopenInput:
		m.resumed.WithLabelValues(kindSession).Inc()
	case pipeline.ReopenInput:
		m.resumed.WithLabelValues(kindPipeline).Inc()
	case session.RecordInput:
		m.countEvents(in)
	case pipeline.RecordInput:
		if in.Over {
			m.runs.WithLabelValues(kindPipeline, in.Status.Status).Inc()
		}
	case scenario.RecordInput:
		if in.Result.CompletedAt != nil {
			m.runs.WithLabelValues(kindScenario, string(in.Result.Status)).Inc()
		}
	}
}

func (m *Metrics) countEvents(in session.RecordInput) {
	team := teamLabel(in.Team)
	for _, e := range in.Events {
		if e.Kind == coordination.EntryInjected {
			m.injected.WithLabelValues(team).Inc()
		}
	}
	for _, e := range in.Entries {
		if e.Action == coordination.Vote {
			m.votes.WithLabelValues(team).Inc()
		}
	}
	if !in.Over {
		return
	}
	m.ended.WithLabelValues(team, in.Status.Status).Inc()
	stale := in.Status.Superseded
	for _, a := range in.Status.Agents {
		if a.Vote != nil && a.Vote.Stale {
			stale++
		}
	}
	m.stale.WithLabelValues(team).Add(float64(stale))
	if in.Saved != nil && !in.Saved.Prepared.CreatedAt.IsZero() {
		m.decision.WithLabelValues(in.Status.Status).Observe(max(0, time.Since(in.Saved.Prepared.CreatedAt).Seconds()))
	}
}

// teamLabel returns the label for a team. Only operators' teams have names.
func teamLabel(name string) string {
	if name == "" {
		return ownTeam
	}
	return name
}
