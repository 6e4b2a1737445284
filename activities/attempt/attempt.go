package attempt

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/base"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// maxFruitless is how many attempts without progress end a step.
const maxFruitless = 3

// Process has the dependencies of all steps of this process, which call its functions
// concurrently.
type Process struct {
	activities.Equipment

	Store   artifact.Store
	Trees   *base.Trees // of the bases that runs start from; nil to read them from Store
	Now     func() time.Time
	Scratch string // directory of the workspaces

	// Heartbeat reports that the attempt with a task token lives and returns the
	// server's answer. It is the client's RecordActivityHeartbeat: the SDK's own
	// heartbeat hides whether the server acknowledged it.
	Heartbeat func(ctx context.Context, taskToken []byte, details ...any) error

	// Pending reports whether an activity of a running workflow has not ended. If nil, a
	// step that the server has given up waits for its next attempt in any case.
	Pending func(ctx context.Context, workflowID, runID, activityID string) (bool, error)

	// HeartbeatTimeout applies to the steps of the runs that this process prepares.
	HeartbeatTimeout time.Duration

	// Host returns the task queue that only this process polls, for steps that need the
	// tools of an earlier step. It returns "" if the process cannot poll it. A nil Host
	// returns "".
	Host func() string

	// Steps are the steps that run in this process; nil if attempts do not share any.
	Steps *Steps

	// Bell reads the doorbell of a run from the memo of its workflow; the zero Bell
	// if it was never rung. If nil, running steps receive nothing.
	Bell func(ctx context.Context, workflowID, runID string) (coordination.Ring, error)

	// Marks are shared by the steps of this process; nil for none.
	Marks *Marks

	// Redact removes the secrets of this process from tool results and from all that
	// is stored of a step; nil for none.
	Redact func([]byte) []byte
}

// Bases returns Trees, or trees without a cache if it is nil.
func (p Process) Bases() *base.Trees {
	if p.Trees == nil {
		return base.NewTrees(p.Store, "", 0)
	}
	return p.Trees
}

// Failure is the part of a step that outlives its failure: the details of the
// error that the workflow receives.
type Failure struct {
	Step  int       `json:"step"`
	Token string    `json:"token,omitempty"` // the step's execution token
	Usage llm.Usage `json:"usage"`

	// Seconds is the time that the step took, if its time is limited.
	Seconds float64 `json:"seconds,omitempty"`

	// Outage is set if the model's server was away, AwaySince if it is.
	Outage    coordination.Outage `json:"outage,omitempty"`
	AwaySince time.Time           `json:"away_since,omitzero"`

	// Seen are the answers that the step was shown, if any came after its launch.
	Seen []coordination.Seen `json:"seen,omitempty"`
}

// Attempt is one attempt of a step. It is used by one goroutine at a time.
type Attempt struct {
	Token  string // execution token: the same in every attempt of a launch, new after a reset
	Number int    // of the attempt, from 1

	// Look reads the doorbell. It never fails: without an answer of the server it
	// returns the last one. nil if nothing reaches the step.
	Look func(context.Context) (coordination.Ring, error)

	// Ports and Spec are completed by the function that assembles the step.
	Ports step.Ports
	Spec  step.Spec

	// ShareServers makes the steps of the run share all their MCP servers.
	ShareServers bool

	// Depth is the depth of the session, as in artifact.Caller.
	Depth int

	// Result is the state of the step, earlier attempts included.
	Result step.Result

	process Process
	details details // of the attempts before this one
	heart   *heart
	counted bool          // as an attempt without progress
	limit   time.Duration // since the first attempt began; 0 for none

	lastTool string // description of the last tool call

	server      string        // of the model, among those of the run; empty for none
	replied     bool          // the server has replied in this run
	outageLimit time.Duration // 0 for none
	assemble    func(context.Context) error
}

// newAttempt returns the running activity's attempt of the step with an execution token.
func newAttempt(ctx context.Context, p Process, token string) *Attempt {
	info := activity.GetInfo(ctx)
	d := previous(ctx)
	a := &Attempt{
		Token: token, Number: int(info.Attempt),
		Ports:   step.Ports{Store: storage{p.Store}, Now: p.Now, Scratch: p.Scratch, Trees: p.Bases(), Repeatable: p.Repeatable, Redact: p.Redact},
		Result:  step.Result{Step: d.Step, Usage: d.Usage},
		process: p, details: d,
	}
	a.heart = newHeart(p.Steps, cmp.Or(info.HeartbeatTimeout, HeartbeatTimeout), d)
	a.heart.beat = func(ctx context.Context, taskToken []byte, d details) error { return p.Heartbeat(ctx, taskToken, d) }
	if p.Pending != nil {
		a.heart.pending = func(ctx context.Context) (bool, error) {
			return p.Pending(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID)
		}
	}
	if p.Bell != nil {
		a.Look = (&doorbell{read: p.Bell, workflow: info.WorkflowExecution}).look
	}
	return a
}

// Limit bounds the time of the step from the beginning of its first attempt.
func (a *Attempt) Limit(d time.Duration) {
	a.limit = d
	if a.details.Began.IsZero() {
		a.details.Began = a.process.Now()
	}
}

// Seconds returns the time since the first attempt of a step with a limit began; 0 without
// a limit.
func (a *Attempt) Seconds() float64 {
	if a.limit == 0 {
		return 0
	}
	return a.process.Now().Sub(a.details.Began).Seconds()
}

// Began returns the beginning of the step's first attempt; zero without a Limit.
func (a *Attempt) Began() time.Time { return a.details.Began }

// Perform assembles the step and runs it, or finds its commit, and sets Result. A step that
// ended itself without an action is a *loop.EndedError. Any other error is the activity's,
// with a Failure in its details if it is final.
func (a *Attempt) Perform(ctx context.Context, assemble func(context.Context) error) (*loop.EndedError, error) {
	a.assemble = assemble
	exhausted := a.details.Fruitless >= maxFruitless
	if !exhausted {
		a.details.Fruitless++
	}
	stepCtx, stop := a.startHeart(ctx)
	defer stop()
	a.counted = !exhausted
	var err error
	switch {
	case exhausted:
		err = a.concludeDead(stepCtx)
	case a.limit > 0:
		err = a.runInTime(stepCtx)
	default:
		err = a.run(stepCtx)
	}
	if err == nil {
		for _, warning := range a.Result.Warnings {
			activity.GetLogger(ctx).Warn("a file is no part of the answer", "step", a.Result.Step, "file", warning)
		}
		return nil, nil
	}
	if ended, ok := errors.AsType[*loop.EndedError](err); ok {
		return ended, nil
	}
	if endedByServer(stepCtx, err) {
		return nil, a.interrupt(ctx, err)
	}
	return nil, a.fail(ctx, err)
}

// run assembles the step and runs it.
func (a *Attempt) run(ctx context.Context) error {
	if err := a.assemble(ctx); err != nil {
		return err
	}
	ctx = context.WithValue(ctx, attemptKey{}, a)
	a.watchTools()
	a.Ports.Progress = a.progress
	a.Ports.Alive = func() error { return a.heart.alive(ctx) }
	a.Ports.Fence = a.heart.fence
	var err error
	a.Result, err = step.Run(ctx, a.Ports, a.Spec)
	return err
}

// Equip gives the step the model and the tools of an agent.
func (a *Attempt) Equip(ctx context.Context, agent config.Agent) error {
	model, err := a.process.Model(agent)
	if err != nil {
		return err
	}
	a.server = server(agent.Backend)
	a.Ports.Model = watched{model, a}
	if a.process.Window != nil {
		a.Ports.Window = a.process.Window(agent)
	}
	if a.process.NoCalls != nil {
		a.Ports.NoCalls, a.Ports.UnreadCalls = a.process.NoCalls(agent)
	}
	return a.EquipTools(ctx, agent)
}

// EquipTools gives the step the tools of an agent.
func (a *Attempt) EquipTools(ctx context.Context, agent config.Agent) error {
	if err := a.process.Missing(ctx, agent); err != nil {
		return err
	}
	a.Ports.Tools = func(ctx context.Context, workspace string) (step.Tools, error) {
		return a.process.Tools(ctx, agent, workspace, activities.Sharing{Run: a.Spec.Layout.Root(), All: a.ShareServers})
	}
	return nil
}

// progress updates the heartbeat details. Journal entries are not repeated by the
// next attempt, so the attempt was of use, unless they are wasted replies or
// refusals.
func (a *Attempt) progress(p step.Progress) {
	fruitful := p.Kept > 0 && p.Last != loop.Wasted && p.Last != loop.Refused
	if p.Last == loop.Updated {
		a.lastTool = "an update"
	}
	if fruitful {
		a.counted = false
	}
	var seen []coordination.Seen
	if a.Spec.Witnessed != nil {
		steps, _ := a.Spec.Witnessed()
		seen = a.news(steps)
	}
	a.heart.update(func(d *details) {
		d.Failure = Failure{Step: p.Step, Token: a.Token, Usage: p.Usage, Seen: seen}
		d.Last = string(p.Last)
		if fruitful {
			d.Fruitless = 0
		}
	})
}

// Failure returns the details of an error that ends the attempt.
func (a *Attempt) Failure() Failure {
	f := Failure{Step: a.Result.Step, Token: a.Token, Usage: a.Result.Usage, Seconds: a.Seconds(), Seen: a.Seen()}
	if away := a.heart.current().Outage; away != nil {
		f.AwaySince = away.Since
	}
	return f
}

// Seen returns the answers that a step without a commit was shown, if any came after its
// launch.
func (a *Attempt) Seen() []coordination.Seen { return a.news(a.Result.Seen) }

// news returns the answer steps that were shown, by agent; nil if nothing was added to those
// of the launch.
func (a *Attempt) news(shown map[string]int) []coordination.Seen {
	if len(shown) == 0 || maps.Equal(shown, a.Spec.Shown.Seen) {
		return nil
	}
	return coordination.SeenOf(shown)
}
