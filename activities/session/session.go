package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/worker"
	"golang.org/x/sync/errgroup"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session"
)

// Activities has the activities of sessions. Those for bookkeeping need only Store and Now.
type Activities struct {
	attempt.Process

	memory memory
}

// RegisterSteps registers the activities that need teams, models and keys.
func (a *Activities) RegisterSteps(r worker.ActivityRegistry) {
	r.RegisterActivity(a.Prepare)
	r.RegisterActivity(a.Reopen)
	r.RegisterActivity(a.Draft)
	r.RegisterActivity(a.RunStep)
	r.RegisterActivity(a.RunChecks)
}

// RegisterBookkeeping registers the activities that need only the store.
func (a *Activities) RegisterBookkeeping(r worker.ActivityRegistry) {
	r.RegisterActivity(a.Record)
	r.RegisterActivity(a.Present)
	r.RegisterActivity(a.Reckon)
}

// PrepareInput is the input of a session.
type PrepareInput struct {
	Session string `json:"session"`
	artifact.Owner
	ParentRun string `json:"parent_run,omitempty"` // of the workflow that started the session as a child

	Query    string          `json:"query"`
	Team     string          `json:"team,omitempty"`
	Config   json.RawMessage `json:"config,omitempty"`
	Criteria json.RawMessage `json:"criteria,omitempty"`
	artifact.Material

	// History lists the earlier turns, oldest first. Alternatively, Continues is the ID of the
	// session from which the turns are taken, and also the team if neither Team nor Config is set.
	History   []artifact.Turn `json:"history,omitempty"`
	Continues string          `json:"continues,omitempty"`
	artifact.Caller

	Conversation string `json:"conversation,omitempty"` // hash of the texts in place of Query, History and those of the Caller

	Checks string `json:"checks,omitempty"` // reference of the user's directory of checks

	Limits artifact.Limits `json:"limits,omitzero"` // reduce the limits of the team
}

// Prepared is the part of a resolved team that the workflow needs.
type Prepared struct {
	// Team is the name of an operator's team; empty if the input defines the team.
	Team string `json:"team,omitempty"`

	// Attributes lists the search attributes that exist in the session's namespace.
	Attributes []string `json:"attributes,omitempty"`

	ConfigHash     string              `json:"config_hash"`
	Coordination   coordination.Config `json:"coordination,omitzero"`
	TimeoutSeconds int                 `json:"timeout_seconds"`

	// GraceSeconds is the time before the session's deadline at which steps are asked to finish.
	GraceSeconds int `json:"grace_seconds,omitempty"`

	// HeartbeatTimeoutSeconds is the heartbeat timeout of the steps; 0 means
	// attempt.HeartbeatTimeout.
	HeartbeatTimeoutSeconds int `json:"heartbeat_timeout_seconds,omitempty"`

	URL     string `json:"url"`               // URL of the session's directory, for people
	Offline bool   `json:"offline,omitempty"` // the built-in model plays agents of the team, or Recorded

	Recorded bool `json:"recorded,omitempty"` // agents answer with recorded answers

	// Preparations lists the preparations to make before the first step; Drafted has those already
	// made.
	Preparations []Preparation `json:"preparations,omitempty"`
	Drafted      []Drafted     `json:"drafted,omitempty"`

	// CreatedAt is the time in session.json. It is zero in histories of earlier versions.
	CreatedAt time.Time `json:"created_at,omitzero"`

	// NoShell is why agents with `tools.shell: auto` cannot run commands; empty if they can, or if no agent
	// has it.
	NoShell string `json:"no_shell,omitempty"`

	// Notify lists the receivers that are told of the session.
	Notify []activities.Receiver `json:"notify,omitempty"`

	// Seal is the number of the ledger file that sealed the ledger for this run of a reopened
	// session; 0 if the session was never reopened.
	Seal int `json:"seal,omitempty"`
}

// Saved is the saved state of a session, from which a later run of its workflow continues.
type Saved struct {
	Core     *coordination.State `json:"core"`
	Prepared Prepared            `json:"prepared"`

	Recorded    int  `json:"recorded"`         // number of the last event on record
	SecondsLeft int  `json:"seconds_left"`     // rest of the session's time
	Warned      bool `json:"warned,omitempty"` // the core has received TimeShort
}

// StepInput describes one launch. The activity reads large values, such as the query, from the
// session's directory, because inputs remain in the workflow's history.
type StepInput struct {
	Session    string              `json:"session"`
	ConfigHash string              `json:"config_hash"`
	Launch     coordination.Launch `json:"launch"`

	Checks bool `json:"checks,omitempty"` // checks submitted with an answer are run
}

// StepResult is the outcome of a step. It consists of references and short text.
type StepResult struct {
	// Token is the execution token. It is empty if an operator completed the activity.
	Token string `json:"token,omitempty"`

	Step int `json:"step"`

	// Ended is the reason why a step ended without an action, as in loop.EndedError; empty if it
	// has an action.
	Ended string `json:"ended,omitempty"`

	// Calls lists the calls to the caller's tools, and the questions to people, that the step waits for.
	Calls []coordination.Call `json:"calls,omitempty"`

	session.Outcome
	Files  int       `json:"files,omitempty"`
	Checks []string  `json:"checks,omitempty"` // IDs of checks submitted with the answer
	Usage  llm.Usage `json:"usage"`

	LongestCall float64 `json:"longest_call,omitempty"` // longest model call known to the step, in seconds
}

// RecordInput is the part of the history since the previous Record.
type RecordInput struct {
	Session string                  `json:"session"`
	Team    string                  `json:"team,omitempty"` // the same as in Prepared
	Entries []coordination.Accepted `json:"entries"`
	Events  []coordination.Entry    `json:"events"`

	// Status is the new content of status.json, without the query.
	Status State `json:"status"`

	// Results are the caller's results for calls to its tools.
	Results []coordination.ToolResult `json:"results,omitempty"`

	// Replies are the replies to questions to people.
	Replies []coordination.Reply `json:"replies,omitempty"`

	// Over is true if the session has ended and no step is running.
	Over bool `json:"over,omitempty"`

	// Saved is the state of the session, without the fields of Status and those made from its team.
	Saved *Saved `json:"saved,omitempty"`

	// Seal is the newest seal of the ledger known to this run of the workflow.
	Seal int `json:"seal,omitempty"`
}

// State is a summary of a session: the answer to the state query and the content of status.json.
type State struct {
	SessionID string `json:"session_id"`
	Query     string `json:"query"`

	// Continues is the ID of the session whose conversation this one continues.
	Continues string `json:"continues,omitempty"`

	coordination.View

	// Status is "running" or how the session ended.
	Status string `json:"status"`

	// Final is null until the final answer exists.
	Final *FinalAnswer `json:"final"`

	// DecidedBy is the basis of the decision, and Support the support for the winner. Tie lists the
	// agents with as many votes as the winner; Cut lists those whose steps were cancelled by a
	// quorum or while they were away.
	DecidedBy coordination.Basis    `json:"decided_by,omitempty"`
	Support   *coordination.Support `json:"support,omitempty"`
	Tie       []string              `json:"tie,omitempty"`
	Cut       []string              `json:"cut,omitempty"`

	// Preparations lists the preparations made by a model before the first step.
	Preparations []Drafted `json:"preparations,omitempty"`

	// Ignored describes the last signal if it could not be decoded. A later valid request clears
	// it.
	Ignored string `json:"ignored,omitempty"`

	NoShell string `json:"no_shell,omitempty"` // the same as in Prepared

	// Error is the reason for which the session failed, and null otherwise.
	Error *artifact.Error `json:"error"`
}

// CutOff says why a decided session has no action of an agent's last step, or returns "".
func (s State) CutOff(agent string) string {
	switch {
	case !slices.Contains(s.Cut, agent):
		return ""
	case s.DecidedBy == coordination.ByQuorum:
		return coordination.CutOff
	}
	return "cut off while it was away"
}

// FinalAnswer refers to the final answer.
type FinalAnswer struct {
	Agent string `json:"agent"` // author of the answer
	Label string `json:"label"`
	Path  string `json:"path"` // path of its answer.json
}

// PresentInput is the session's decision.
type PresentInput struct {
	Session  string                `json:"session"`
	Decision coordination.Decision `json:"decision"`
}

// Presented is the final answer.
type Presented struct {
	Answer    string `json:"answer"` // answer, truncated to maxAnswer
	Truncated bool   `json:"truncated,omitempty"`
	Path      string `json:"path"` // path of the whole answer

	Data json.RawMessage `json:"data,omitempty"` // whole
}

// Prepare resolves the team, validates the input and claims the session's directory
// for this workflow.
func (a *Activities) Prepare(ctx context.Context, in PrepareInput) (Prepared, error) {
	defer activities.Beat(ctx)()
	p, err := a.prepareSession(ctx, in)
	return p, a.Tellable(err)
}

func (a *Activities) prepareSession(ctx context.Context, in PrepareInput) (Prepared, error) {
	t, err := a.resolveConversation(ctx, &in)
	if err == nil && in.Conversation != "" {
		err = a.readConversation(ctx, &in)
	}
	if err != nil {
		return Prepared{}, err
	}
	if err := activities.CheckTeam(ctx, a, a, t.Within(in.Limits.Seconds, in.Limits.CostUSD), true); err != nil {
		return Prepared{}, err
	}
	if _, err := t.WithSchema(in.AnswerSchema); err != nil {
		return Prepared{}, activities.Invalid(err)
	}
	if len(in.Criteria) > 0 {
		if _, err := config.ParseCriteria("eval_criteria", in.Criteria); err != nil {
			return Prepared{}, activities.Invalid(err)
		}
	}
	layout := artifact.InBucket(in.Session)
	if err := activities.ReadSource(ctx, a, a.Store, layout.File("session.json"), &in.Material, a.ReadSource); err != nil {
		return Prepared{}, err
	}
	if err := activities.CheckMaterial(ctx, a.Bases(), in.Material); err != nil {
		return Prepared{}, err
	}
	if in.Checks != "" && !t.Orchestrator.RunsChecks() {
		return Prepared{}, activities.Invalid(errors.New("checks: the team does not run them; set orchestrator.ballot to checks_shown, checks_break_ties or checks_decide"))
	}
	created, err := a.claimSession(ctx, layout, in, t)
	if err != nil {
		return Prepared{}, err
	}
	if err := activities.UseMaterial(ctx, a.Store, in.Material, a.Now); err != nil {
		return Prepared{}, err
	}
	p := a.preparedSession(layout, t, in.Limits, in.Caller)
	p.CreatedAt, p.Team, p.Attributes = created, a.teamName(in), a.Attributes(ctx)
	p.Preparations = duePreparations(t, len(in.Criteria) > 0)
	if _, p.NoShell, err = activities.SettleShell(ctx, a.Confined, a.Store, layout, t.Agents...); err != nil {
		return Prepared{}, err
	}
	if in.Checks != "" {
		p.Coordination.Checks, err = a.userChecks(ctx, layout, in.Checks)
	}
	return p, err
}

// teamName returns the name of the operator's team that an input selects, or "" if the input
// defines a team or uses that of an earlier session.
func (a *Activities) teamName(in PrepareInput) string {
	if in.Team == "" && (activities.Given(in.Config) || in.Continues != "") {
		return ""
	}
	name := cmp.Or(in.Team, activities.DefaultTeam)
	if _, named := a.Teams.Named[name]; !named { // a local stack names teams by their hashes
		return ""
	}
	return name
}

// preparedSession returns the part of a team that the workflow needs, under the limits l and with the
// tools of the caller c. The hash is that of the team without the limits.
func (a *Activities) preparedSession(layout artifact.Layout, t config.Team, l artifact.Limits, c artifact.Caller) Prepared {
	within, _ := t.Within(l.Seconds, l.CostUSD).WithSchema(c.AnswerSchema) // Prepare has read it
	if len(c.ClientTools) > 0 && c.ClientToolsFor == artifact.ForPresenter && within.Orchestrator.FinalAnswerStrategy == "winner_reuse" {
		within.Orchestrator.FinalAnswerStrategy = "winner_present" // otherwise no step presents a final answer
	}
	p := Prepared{
		ConfigHash:     t.Hash(),
		Coordination:   within.Coordination(),
		TimeoutSeconds: within.Timeouts.OrchestratorTimeoutSeconds,
		GraceSeconds:   t.Timeouts.RoundTimeoutGraceSeconds,

		HeartbeatTimeoutSeconds: int(a.HeartbeatTimeout / time.Second),

		URL:     a.Store.URL(layout.File("session.json")),
		Offline: t.OfflineKind() != "", Recorded: t.OfflineKind() == config.Recorded, Notify: a.Receivers,
	}
	if len(c.ClientTools) > 0 {
		p.Coordination.CallerSeconds = t.Timeouts.ClientToolsTimeoutSeconds
	}
	return p
}

// claimSession creates the first files of the session and returns the time of its creation. A retry finds
// its own claim; a claim of another workflow is an error.
func (a *Activities) claimSession(ctx context.Context, layout artifact.Layout, in PrepareInput, t config.Team) (time.Time, error) {
	if err := activities.RefuseDeleted(ctx, a.Store, layout, "session "+in.Session); err != nil {
		return time.Time{}, err
	}
	given := len(in.Criteria) > 0
	made, _, err := activities.Claim(ctx, a.memory.rememberingStore(ctx, a.Store), layout.File("session.json"), artifact.Session{
		Query: in.Query, ConfigHash: t.Hash(), Owner: in.Owner, CreatedAt: artifact.Timestamp(a.Now()), Material: in.Material,
		ParentRun: in.ParentRun, Continues: in.Continues, Turns: len(in.History), Checks: in.Checks, Limits: in.Limits,
		Caller: in.Caller, Criteria: &given,
	}, "session "+in.Session, "choose another session ID, or go on with it: give resume instead of a query")
	if err != nil {
		return time.Time{}, err
	}
	canonical, err := t.Canonical()
	if err != nil {
		return time.Time{}, activities.Invalid(err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return activities.Claimed{WorkflowID: in.WorkflowID, ID: in.Session}.Keep(ctx, a.Store)
	})
	once := func(key string, document any) {
		group.Go(func() error { return activities.CreateOnce(ctx, a.Store, key, document) })
	}
	once(layout.File("config.json"), json.RawMessage(canonical))
	if len(in.History) > 0 {
		once(layout.File(session.HistoryFile), in.History)
	}
	if len(in.ClientTools) > 0 {
		once(artifact.CallPointer(artifact.SessionHash(in.Session)), artifact.CalledSession{SessionID: in.Session})
	}
	if len(in.Criteria) > 0 {
		once(layout.File(criteriaFile), in.Criteria)
	}
	return made.CreatedAt, group.Wait()
}
