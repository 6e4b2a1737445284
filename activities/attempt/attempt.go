package attempt

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/engine/approval"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// maxFruitless is the number of consecutive attempts without progress that end a step.
const maxFruitless = 3

// Process holds the dependencies that all steps of this process share. Its functions are called
// concurrently.
type Process struct {
	activities.Equipment
	activities.Server

	Teams   activities.Teams
	Store   artifact.Store
	Trees   *snapshot.Trees // keeps the bases that runs start from; nil to read them from Store
	Now     func() time.Time
	Scratch string // directory of the workspaces

	// HeartbeatTimeout applies to the steps of runs that this process prepares.
	HeartbeatTimeout time.Duration

	// Grace returns how long the present call of a workflow's step may go on after this process was
	// asked to stop. If nil, calls are cut at once.
	Grace func(workflowID string) time.Duration

	// Host returns the task queue that only this process polls, or "" if it has none. A step that
	// needs the tools of an earlier step is sent there. A nil Host returns "".
	Host func() string

	// Steps holds the steps that run in this process; if nil, each attempt runs its step alone.
	Steps *Steps

	// Marks is shared by the steps of this process; it may be nil.
	Marks *Marks

	// Yield delays work for which nobody waits, so that steps that start at the same time come
	// first. If nil, nothing is delayed.
	Yield func(context.Context)

	// Spread returns a random duration below the given one, by which delays vary. If nil, it is rand.N.
	Spread func(time.Duration) time.Duration

	// ReadSource stores the present files of a source and returns their reference; nil without sources.
	ReadSource func(ctx context.Context, name string) (reference string, err error)

	// Receivers are told of the runs that this process prepares.
	Receivers []activities.Receiver

	// Redact removes the secrets of this process from tool results and from everything that is
	// stored for a step. If nil, nothing is removed.
	Redact func([]byte) []byte
}

// Tellable adds the receivers to the final error of a run that could not be prepared, so that its
// workflow can have them told.
func (p Process) Tellable(err error) error {
	final, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok || !final.NonRetryable() || len(p.Receivers) == 0 {
		return err
	}
	return temporal.NewNonRetryableApplicationError(final.Message(), final.Type(), final.Unwrap(), p.Receivers)
}

// Bases returns Trees, or trees without a cache if Trees is nil.
func (p Process) Bases() *snapshot.Trees {
	if p.Trees == nil {
		return snapshot.NewTrees(p.Store, "", 0)
	}
	return p.Trees
}

// Failure is the part of a failed step that its workflow needs, sent in the details of the
// activity's error.
type Failure struct {
	Step  int       `json:"step"`
	Token string    `json:"token,omitempty"` // the step's execution token
	Usage llm.Usage `json:"usage"`

	// Seconds is the time that the step took; 0 unless its time is limited.
	Seconds float64 `json:"seconds,omitempty"`

	// LongestCall is the longest model call known to the step, in seconds.
	LongestCall float64 `json:"longest_call,omitempty"`

	// Outage tells how an outage of the model's server ended the step. AwaySince is the beginning
	// of an outage that continues.
	Outage    coordination.Outage `json:"outage,omitempty"`
	AwaySince time.Time           `json:"away_since,omitzero"`

	// Seen lists the answers that the step was shown, if any of them was submitted after its
	// launch.
	Seen []coordination.Seen `json:"seen,omitempty"`
}

// Attempt is one attempt of a step. It is used by one goroutine at a time.
type Attempt struct {
	Token  string // execution token: the same in every attempt of a launch, new after a reset
	Number int    // number of the attempt, from 1

	// Look reads the doorbell. It never fails: if the server does not answer, it returns the
	// previous ring.
	Look func(context.Context) (coordination.Ring, error)

	// Ports and Spec are completed by the function passed to Perform.
	Ports step.Ports
	Spec  step.Spec

	// ShareServers makes the steps of a run share all their MCP servers.
	ShareServers bool

	// Agent names the steps of the run that share the caches of build tools, as in activities.Sharing.
	Agent string

	// Parks is set for the steps of runs that park if no worker is equipped for a step. Those of
	// others wait for such a worker.
	Parks bool

	// Depth is the depth of the session, as in artifact.Caller.
	Depth int

	// Result is the step's state, including earlier attempts.
	Result step.Result

	process  Process
	workflow workflow.Execution
	details  details // details of the attempts before this one
	heart    *heart
	counted  bool          // this attempt counts as one without progress
	limit    time.Duration // time since the first attempt began; 0 for no limit

	lastTool string // description of the last tool call

	server      string        // the model's server; empty for none
	replied     bool          // the server has replied in this run
	outageLimit time.Duration // 0 for none
	launch      coordination.LaunchID
	assemble    func(context.Context) error
}

func newAttempt(ctx context.Context, p Process, token string) *Attempt {
	info := activity.GetInfo(ctx)
	d := previousDetails(ctx)
	a := &Attempt{
		Token: token, Number: int(info.Attempt),
		Ports:   step.Ports{Store: p.Store, Now: p.Now, Scratch: p.Scratch, Trees: p.Bases(), Redact: p.Redact},
		Result:  step.Result{Step: d.Step, Usage: d.Usage},
		process: p, workflow: info.WorkflowExecution, details: d,
	}
	a.heart = newHeart(p.Steps, cmp.Or(info.HeartbeatTimeout, HeartbeatTimeout), d)
	if p.Spread != nil {
		a.heart.spread = p.Spread
	}
	if p.Grace != nil {
		a.heart.grace = p.Grace(info.WorkflowExecution.ID)
	}
	a.heart.beat = func(ctx context.Context, taskToken []byte, d details) error { return p.Heartbeat(ctx, taskToken, d) }
	a.heart.pending = func(ctx context.Context) (bool, error) {
		return p.Pending(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID)
	}
	a.Look = (&doorbell{read: p.Bell, workflow: info.WorkflowExecution, cancel: func() { a.heart.endStep(context.Canceled) }}).readRing
	return a
}

// Limit bounds the step's time, counted from the start of its first attempt.
func (a *Attempt) Limit(d time.Duration) {
	a.limit = d
	if a.details.Began.IsZero() {
		a.details.Began = a.process.Now()
	}
}

// Seconds returns the time since the step's first attempt started, or 0 if its time is not limited.
func (a *Attempt) Seconds() float64 {
	if a.limit == 0 {
		return 0
	}
	return a.process.Now().Sub(a.details.Began).Seconds()
}

// Began returns when the step's first attempt started, or the zero time without a Limit.
func (a *Attempt) Began() time.Time { return a.details.Began }

// Perform assembles and runs the step, or finds the action that an earlier attempt committed, and
// sets Result. It returns a *loop.EndedError for a step that ended without an action. Any other
// error is that of the activity; a final one has a Failure in its details.
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
		err = a.runStep(stepCtx)
	}
	if err == nil {
		for _, warning := range a.Result.Warnings {
			activity.GetLogger(ctx).Warn("a file is not part of the answer", "step", a.Result.Step, "file", warning)
		}
		return nil, nil
	}
	if ended, ok := errors.AsType[*loop.EndedError](err); ok {
		return ended, nil
	}
	if endedByServer(stepCtx, err) {
		return nil, a.endInterrupted(ctx, err)
	}
	return nil, a.endFailed(ctx, err)
}

func (a *Attempt) runStep(ctx context.Context) error {
	if err := a.assemble(ctx); err != nil {
		return err
	}
	ctx = context.WithValue(ctx, attemptKey{}, a)
	a.Ports.Tools = watchedToolbox{a.Ports.Tools, a}
	a.Ports.Progress, a.Ports.Lease = a.noteProgress, a
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
	a.server = serverOf(agent.Backend)
	a.Ports.Model = watched{model, a}
	a.Ports.Window = a.process.Window(agent)
	a.Ports.NoCalls, a.Ports.UnreadCalls = a.process.NoCalls(agent)
	return a.EquipTools(ctx, agent)
}

// EquipTools gives the step the tools of an agent.
func (a *Attempt) EquipTools(ctx context.Context, agent config.Agent) error {
	if err := a.process.Lacks(ctx, agent); err != nil {
		return err
	}
	a.heart.updateDetails(func(d *details) { d.Lacking = time.Time{} })
	a.Ports.Tools = agentTools{a, agent}
	a.SetRules(nil)
	return nil
}

// SetRules gives the step the rules of a team for tool calls, behind those of the operator.
func (a *Attempt) SetRules(team []approval.Rule) { a.Ports.Gate = a.process.Gate(team) }

// noteProgress updates the heartbeat details. A new journal entry is progress, because the next attempt
// does not repeat it; a wasted reply or a refusal is not.
func (a *Attempt) noteProgress(p step.Progress) {
	fruitful := p.Kept > 0 && p.Last != "" && p.Last != loop.Wasted && p.Last != loop.Refused
	if p.Last == loop.Updated {
		a.lastTool = "an update"
	}
	if fruitful {
		a.counted = false
	}
	var seen []coordination.Seen
	if a.Spec.Witnessed != nil {
		steps, _ := a.Spec.Witnessed()
		seen = a.seenSince(steps)
	}
	a.heart.updateDetails(func(d *details) {
		if d.Called && p.Usage.ModelCalls > d.Usage.ModelCalls && p.Last == "" { // the reply is in the journal
			d.Cut--
		}
		d.Called = false
		d.Failure = Failure{Step: p.Step, Token: a.Token, Usage: p.Usage, Seen: seen, LongestCall: d.LongestCall}
		d.Last = string(p.Last)
		if fruitful {
			d.Fruitless = 0
		}
	})
}

// Failure returns the details for an error that ends the attempt.
func (a *Attempt) Failure() Failure {
	now := a.heart.currentDetails()
	f := Failure{Step: a.Result.Step, Token: a.Token, Usage: a.Result.Usage, Seconds: a.Seconds(), Seen: a.Seen(), LongestCall: now.LongestCall}
	f.Usage.Repeated += now.Cut
	if now.Outage != nil {
		f.AwaySince = now.Outage.Since
	}
	return f
}

// Seen returns the answers shown to a step without a commit, or nil if all of them were submitted
// before its launch.
func (a *Attempt) Seen() []coordination.Seen { return a.seenSince(a.Result.Seen) }

// seenSince converts the shown answer steps by agent, or returns nil if they are those of the launch.
func (a *Attempt) seenSince(shown map[string]int) []coordination.Seen {
	if len(shown) == 0 || maps.Equal(shown, a.Spec.Shown.Seen) {
		return nil
	}
	return coordination.SeenOf(shown)
}

func serverOf(b config.Backend) string {
	if b.IsOffline() {
		return ""
	}
	if b.Provider != "" {
		return b.Provider
	}
	if base, err := url.Parse(b.BaseURL); err == nil && base.Host != "" {
		return base.Host
	}
	if t := b.Known(); t.Name != config.OpenAI {
		return t.Name
	}
	return "default"
}

func (a *Attempt) reachedKey() (string, error) {
	name, err := artifact.EscapePath(a.server)
	return a.Spec.Layout.File("reached/" + name), err
}

// hasReplied reports whether the model's server has replied in this run. If the store fails, it
// assumes so.
func (a *Attempt) hasReplied(ctx context.Context) bool {
	if a.replied || a.server == "" || a.Spec.Dir == nil {
		return true
	}
	key, err := a.reachedKey()
	if err != nil {
		return true
	}
	there, err := a.process.Store.Exists(ctx, key)
	a.replied = there || err != nil
	return a.replied
}

// markReached marks the model's server as reached. If it fails, the next step writes the mark.
func (a *Attempt) markReached(ctx context.Context) {
	if a.replied || a.server == "" {
		return
	}
	a.replied = true
	key, err := a.reachedKey()
	if err == nil && a.process.Marks.addKey(key) {
		err = a.process.Store.Create(ctx, key, []byte("{}\n"))
		if err != nil && !errors.Is(err, artifact.ErrExists) {
			a.process.Marks.removeKey(key)
		}
	}
}

// Marks remembers the keys of marks that this process has written. A nil Marks remembers nothing.
type Marks struct {
	mu   sync.Mutex
	keys map[string]bool
}

// maxMarks bounds the number of keys; a forgotten mark is written again.
const maxMarks = 10_000

func (m *Marks) addKey(key string) bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys[key] {
		return false
	}
	if m.keys == nil || len(m.keys) == maxMarks {
		m.keys = map[string]bool{}
	}
	m.keys[key] = true
	return true
}

func (m *Marks) removeKey(key string) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.keys, key)
	}
}
