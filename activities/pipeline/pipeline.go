package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"conclave/activities/attempt"
	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
)

// Activities are the activities of pipelines. Bookkeeping needs only Store and Now.
type Activities struct{ attempt.Process }

// StepActivity is the registered name of RunPipelineStep, which recorded histories contain.
const StepActivity = "RunSegment"

// RegisterSteps registers the activities that need teams, models and keys.
func (a *Activities) RegisterSteps(r worker.ActivityRegistry) {
	r.RegisterActivity(a.PreparePipeline)
	r.RegisterActivity(a.ReopenPipeline)
	r.RegisterActivityWithOptions(a.RunPipelineStep, activity.RegisterOptions{Name: StepActivity})
	r.RegisterActivity(a.AskTeam)
}

// RegisterBookkeeping registers the activities that need only the store.
func (a *Activities) RegisterBookkeeping(r worker.ActivityRegistry) {
	r.RegisterActivity(a.RecordPipeline)
	r.RegisterActivity(a.ConcludePipeline)
	r.RegisterActivity(a.ReckonPipelineStep)
}

// PrepareInput is the input with which a run was started.
type PrepareInput struct {
	// Index is set by workflows that set search attributes.
	Index bool `json:"index,omitempty"`

	Protocol int    `json:"protocol"`
	ID       string `json:"id"`
	artifact.Owner
	Request  string          `json:"request"`
	Pipeline string          `json:"pipeline,omitempty"` // a registered name
	Config   json.RawMessage `json:"config,omitempty"`
	artifact.Material
}

// file is pipeline.json, claimed once by the workflow that owns the run.
type file struct {
	Request    string `json:"request"`
	ConfigHash string `json:"config_hash"`
	artifact.Owner
	CreatedAt time.Time `json:"created_at"`
	artifact.Material
}

// Prepared is the part of a resolved pipeline that the workflow needs.
type Prepared struct {
	Protocol   int            `json:"protocol"`
	ConfigHash string         `json:"config_hash"`
	Graph      pipeline.Graph `json:"graph"`

	// Attributes are the search attributes that the run's namespace has.
	Attributes []string `json:"attributes,omitempty"`

	// HeartbeatTimeoutSeconds is the heartbeat timeout of the steps; 0 stands for
	// attempt.HeartbeatTimeout.
	HeartbeatTimeoutSeconds int `json:"heartbeat_timeout_seconds,omitempty"`

	URL     string `json:"url"`               // of the run's directory, for people
	Offline bool   `json:"offline,omitempty"` // the built-in model plays agents

	// Seal is the number of the newest reopening that the run knows; 0 if it was never
	// reopened.
	Seal int `json:"seal,omitempty"`
}

// StepInput is one launch. The activity reads large values from the run's directory.
type StepInput struct {
	Run        string          `json:"run"`
	ConfigHash string          `json:"config_hash"`
	Launch     pipeline.Launch `json:"launch"`

	// Decision is the decision of a session step's team; nil for other steps.
	Decision *TeamDecision `json:"decision,omitempty"`
}

// TeamSession returns the preferred ID of the session of a session step.
func (in StepInput) TeamSession() string {
	return fmt.Sprintf("%s-%s-%s", in.Run, in.Launch.Step, cmp.Or(in.Launch.TeamOf, in.Launch.ID))
}

// TeamDecision is how the session of a session step ended.
type TeamDecision struct {
	Session string    `json:"session"`
	Status  string    `json:"status"`
	Path    string    `json:"path"` // of the final answer's answer.json
	Cost    llm.Usage `json:"cost"`
}

// StepResult is the outcome of a step in references and short text.
type StepResult struct {
	Token string `json:"token"`
	pipeline.Ended
	Heard int `json:"heard,omitempty"` // messages that were shown
}

// TeamQuestion is the input of the session of a session step.
type TeamQuestion struct {
	Query  string          `json:"query"`
	Team   string          `json:"team,omitempty"`
	Config json.RawMessage `json:"config,omitempty"`

	// Material has the run's files as the session's base, and the run's context.
	artifact.Material

	Limits artifact.Limits `json:"limits,omitzero"`

	// Session is an unused session ID. In a reset workflow the previous run's session
	// has the preferred ID.
	Session string `json:"session,omitempty"`

	// If Resume is set, Session is continued, Messages are the human messages that it was
	// not sent, and the query and the team are empty.
	Resume   bool     `json:"resume,omitempty"`
	Messages []string `json:"messages,omitempty"`
}

// RecordInput is the part of the history since the last record.
type RecordInput struct {
	Run      string           `json:"run"`
	Messages []pipeline.Keep  `json:"messages,omitempty"`
	Events   []pipeline.Entry `json:"events,omitempty"`
	Status   State            `json:"status"` // without the request and the trace

	// Trace is the continuation of the trace after its first Traced entries.
	Traced int                   `json:"traced,omitempty"`
	Trace  []pipeline.TraceEntry `json:"trace,omitempty"`

	// Over reports that the run has ended and no step is running. Began is then the start of
	// its workflow.
	Over  bool      `json:"over,omitempty"`
	Began time.Time `json:"began,omitzero"`

	// Saved is the outline of the run.
	Saved *Saved `json:"saved,omitempty"`
}

// State is a run at a glance: the answer to the state query and the content of
// status.json.
type State struct {
	ID      string `json:"id"`
	Request string `json:"request"`
	Status  string `json:"status"`           // "running" or how the run ended
	Reason  string `json:"reason,omitempty"` // of an irregular end
	pipeline.View

	// Ignored is the last signal that could not be read, and why; empty once a later request
	// has been read.
	Ignored string `json:"ignored,omitempty"`
}

// ConcludeInput is a run that is over.
type ConcludeInput struct {
	Run     string         `json:"run"`
	Final   *pipeline.Ref  `json:"final,omitempty"`
	History []pipeline.Ref `json:"history"`
	Result  Result         `json:"result"` // without the texts
}

// Result is how a run ended: the result of the workflow and the content of
// result.json.
type Result struct {
	ID     string          `json:"id"`
	Status pipeline.Status `json:"status"`
	Error  *artifact.Error `json:"error,omitempty"` // the reason of an irregular end

	Trace       []pipeline.TraceEntry `json:"trace"`
	History     []HistoryEntry        `json:"history"`
	Transitions int                   `json:"transitions"` // from one step to another
	Usage       llm.Usage             `json:"usage"`

	// Final is the text of the run, truncated to maxAnswer; FinalPath has the whole.
	Final          string  `json:"final"`
	FinalTruncated bool    `json:"final_truncated,omitempty"`
	FinalPath      *string `json:"final_path"` // null without a text
}

// HistoryEntry is the text of one step, truncated to maxEntry; Path has the whole.
type HistoryEntry struct {
	Step string `json:"step"`
	Text string `json:"text"`
	Path string `json:"path"`
}
