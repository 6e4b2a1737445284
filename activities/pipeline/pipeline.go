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

// Activities has the activities of pipelines. Those for bookkeeping need only Store and Now.
type Activities struct{ attempt.Process }

// StepActivity is the registered name of RunPipelineStep, which workflow histories contain.
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

// PrepareInput is the input of a run.
type PrepareInput struct {
	ID string `json:"id"`
	artifact.Owner
	Request  string          `json:"request"`
	Pipeline string          `json:"pipeline,omitempty"` // name of a registered pipeline
	Config   json.RawMessage `json:"config,omitempty"`
	artifact.Material
}

// file is pipeline.json, which the workflow that owns the run creates once, as its claim.
type file struct {
	Request    string `json:"request"`
	ConfigHash string `json:"config_hash"`
	artifact.Owner
	CreatedAt time.Time `json:"created_at"`
	artifact.Material
}

// Prepared is the part of a resolved pipeline that the workflow needs.
type Prepared struct {
	ConfigHash string         `json:"config_hash"`
	Graph      pipeline.Graph `json:"graph"`

	// Attributes lists the search attributes that exist in the run's namespace.
	Attributes []string `json:"attributes,omitempty"`

	// HeartbeatTimeoutSeconds is the heartbeat timeout of the steps; 0 means
	// attempt.HeartbeatTimeout.
	HeartbeatTimeoutSeconds int `json:"heartbeat_timeout_seconds,omitempty"`

	URL     string `json:"url"`               // URL of the run's directory, for people
	Offline bool   `json:"offline,omitempty"` // the built-in model plays agents

	// Seal is the number of the newest reopening that this run of the workflow knows; 0 if the run
	// was never reopened.
	Seal int `json:"seal,omitempty"`
}

// StepInput describes one launch. The activity reads large values from the run's directory.
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

// TeamDecision is the end of a session step's session.
type TeamDecision struct {
	Session string    `json:"session"`
	Status  string    `json:"status"`
	Path    string    `json:"path"` // path of the final answer's answer.json
	Cost    llm.Usage `json:"cost"`
}

// StepResult is the outcome of a step. It consists of references and short text.
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

	// Material has the run's files as the base of the session, and the run's context.
	artifact.Material

	Limits artifact.Limits `json:"limits,omitzero"`

	// Session is an unused session ID. It may differ from the preferred ID, which the session of an
	// earlier workflow run has after a reset.
	Session string `json:"session,omitempty"`

	// Resume is true if Session is to be continued. Then Messages has the human messages that the
	// session did not receive, and the query and the team are empty.
	Resume   bool     `json:"resume,omitempty"`
	Messages []string `json:"messages,omitempty"`
}

// RecordInput is the part of the history since the previous record.
type RecordInput struct {
	Run      string           `json:"run"`
	Messages []pipeline.Keep  `json:"messages,omitempty"`
	Events   []pipeline.Entry `json:"events,omitempty"`
	Status   State            `json:"status"` // state without the request and the trace

	// Trace has the trace entries that follow the first Traced ones.
	Traced int                   `json:"traced,omitempty"`
	Trace  []pipeline.TraceEntry `json:"trace,omitempty"`

	// Over is true if the run has ended and no step is running. Began is then when its workflow
	// started.
	Over  bool      `json:"over,omitempty"`
	Began time.Time `json:"began,omitzero"`

	// Saved is the outline of the run's state.
	Saved *Saved `json:"saved,omitempty"`
}

// State is a summary of a run: the answer to the state query and the content of status.json.
type State struct {
	ID      string `json:"id"`
	Request string `json:"request"`
	Status  string `json:"status"`           // "running" or how the run ended
	Reason  string `json:"reason,omitempty"` // why the run ended irregularly
	pipeline.View

	// Ignored describes the last signal if it could not be decoded. A later valid request clears
	// it.
	Ignored string `json:"ignored,omitempty"`
}

// ConcludeInput is the end of a run.
type ConcludeInput struct {
	Run     string         `json:"run"`
	Final   *pipeline.Ref  `json:"final,omitempty"`
	History []pipeline.Ref `json:"history"`
	Result  Result         `json:"result"` // result without the texts
}

// Result is the result of a run's workflow and the content of result.json.
type Result struct {
	ID     string          `json:"id"`
	Status pipeline.Status `json:"status"`
	Error  *artifact.Error `json:"error,omitempty"` // why the run ended irregularly

	Trace       []pipeline.TraceEntry `json:"trace"`
	History     []HistoryEntry        `json:"history"`
	Transitions int                   `json:"transitions"` // number of transitions from one step to another
	Usage       llm.Usage             `json:"usage"`

	// Final is the text of the run, truncated to maxAnswer. FinalPath has the complete text.
	Final          string  `json:"final"`
	FinalTruncated bool    `json:"final_truncated,omitempty"`
	FinalPath      *string `json:"final_path"` // null without a text
}

// HistoryEntry is the text of one step, truncated to maxEntry. Path has the complete text.
type HistoryEntry struct {
	Step string `json:"step"`
	Text string `json:"text"`
	Path string `json:"path"`
}
