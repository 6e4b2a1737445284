package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/step"
	"conclave/engine/text"
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
	r.RegisterActivity(a.AskPerson)
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
	Inputs   json.RawMessage `json:"inputs,omitempty"`
	artifact.Material
}

// file is pipeline.json, which the workflow that owns the run creates once, as its claim.
type file struct {
	Request    string `json:"request"`
	ConfigHash string `json:"config_hash"`

	Inputs json.RawMessage `json:"inputs,omitempty"` // fit the schema of the pipeline
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

	// Notify lists the receivers that are told of the run.
	Notify []activities.Receiver `json:"notify,omitempty"`

	// Seal is the number of the newest reopening that this run of the workflow knows; 0 if the run
	// was never reopened.
	Seal int `json:"seal,omitempty"`
}

// StepInput describes one launch. The activity reads large values from the run's directory.
type StepInput struct {
	Run        string          `json:"run"`
	Before     string          `json:"before,omitempty"` // run of the workflow that this one goes on with
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

	// AnswerSchema is the schema of the step's output; nil for a text alone.
	AnswerSchema json.RawMessage `json:"answer_schema,omitempty"`

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
	Replies  []pipeline.Reply `json:"replies,omitempty"` // of people
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

	// Questions are the open questions to people. Phase is waiting_for_person while nothing else runs.
	Questions []coordination.Question `json:"questions,omitempty"`
	Phase     coordination.Phase      `json:"phase,omitempty"`

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

	Trace       []pipeline.TraceEntry      `json:"trace"`
	History     []HistoryEntry             `json:"history"`
	Outputs     map[string]json.RawMessage `json:"outputs,omitempty"`  // the newest output of each step that has one
	EndedAs     string                     `json:"ended_as,omitempty"` // the end of the last step in words of its own
	Transitions int                        `json:"transitions"`        // number of transitions from one step to another
	Usage       llm.Usage                  `json:"usage"`

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

// Maximum lengths of the texts in a result, in bytes.
const (
	maxAnswer = 8 << 10 // most bytes of the final text
	maxEntry  = 280     // longest text of a step
)

// RecordPipeline writes human messages for running steps, then the documents derived from the
// history. It deletes the journals when a run has ended and cannot be reopened.
func (a *Activities) RecordPipeline(ctx context.Context, in RecordInput) error {
	defer activities.Beat(ctx)()
	layout, store := artifact.InPipeline(in.Run), activities.FenceStore(ctx, a.Store, a)
	if err := a.refuseLate(ctx, layout, in); err != nil {
		return err
	}
	for _, m := range in.Messages {
		if err := activities.WriteMessage(ctx, a.Store, layout, step.Message{Number: m.Number, Text: m.Text, Branch: m.Branch}, a.Now()); err != nil {
			return err
		}
	}
	for _, r := range in.Replies {
		if err := activities.CreateOnce(ctx, a.Store, layout.QuestionAnswer(r.Question), r); err != nil {
			return err
		}
	}
	if _, err := activities.AppendEvents(ctx, store, layout, nil, in.Events, func(e pipeline.Entry) int { return e.Seq }); err != nil {
		return err
	}
	run, err := artifact.ReadJSON[file](ctx, a.Store, layout.File("pipeline.json"))
	if err != nil {
		return err
	}
	in.Status.Request = run.Request
	if in.Status.Trace, err = a.extendTrace(ctx, layout, in); err != nil {
		return err
	}
	if err := artifact.PutJSON(ctx, store, layout.File("status.json"), in.Status); err != nil {
		return err
	}
	if err := activities.SaveState(ctx, store, layout, in.Saved); err != nil || !in.Over {
		return err
	}
	a.EndShared(layout.Root())
	if in.Saved.Core.Refuse(pipeline.Reopened{}) != nil {
		step.Forget(ctx, a.Store, layout.File("journal/"))
	}
	return nil
}

// refuseLate returns an error if a later run of the workflow has reopened the run.
func (a *Activities) refuseLate(ctx context.Context, layout artifact.Layout, in RecordInput) error {
	late, err := a.Store.Exists(ctx, reopeningKey(layout, in.Saved.Prepared.Seal+1))
	if err == nil && late {
		err = activities.Superseded("record run %s: a later run of the workflow goes on with it", in.Run)
	}
	return err
}

func (a *Activities) extendTrace(ctx context.Context, layout artifact.Layout, in RecordInput) ([]pipeline.TraceEntry, error) {
	trace := []pipeline.TraceEntry{}
	if in.Traced > 0 {
		old, err := artifact.ReadJSON[State](ctx, a.Store, layout.File("status.json"))
		if err != nil {
			return nil, err
		}
		trace = old.Trace[:min(in.Traced, len(old.Trace))]
	}
	return append(trace, in.Trace...), nil
}

// ConcludePipeline reads the texts for a run's result and writes result.json.
func (a *Activities) ConcludePipeline(ctx context.Context, in ConcludeInput) (Result, error) {
	defer activities.Beat(ctx)()
	layout, store := artifact.InPipeline(in.Run), activities.FenceStore(ctx, a.Store, a)
	result := in.Result
	result.History = []HistoryEntry{}
	for _, ref := range in.History {
		if ref.Textless {
			continue
		}
		c, err := pipelineagent.ReadCommit(ctx, a.Store, layout, ref)
		if err != nil {
			return Result{}, fmt.Errorf("read the text of step %s: %w", ref.Step, err)
		}
		if c.Output != nil {
			result.addOutput(ref.Step, c.Output)
		}
		path := a.Store.URL(layout.InBranch(ref.Branch).PipelineStep(ref.Number, ref.Step, "answer.json"))
		result.History = append(result.History, HistoryEntry{Step: ref.Step, Text: text.Truncate(c.Text, maxEntry), Path: path})
		if in.Final != nil && ref.Number == in.Final.Number && ref.Branch == in.Final.Branch {
			result.Final, result.FinalTruncated = text.Head(c.Text, maxAnswer)
			result.FinalPath = &path
		}
	}
	return result, artifact.PutJSON(ctx, store, layout.File("result.json"), result)
}

// maxOutputs bounds the outputs in a result, in bytes. Larger ones are only in output.json of their steps.
const maxOutputs = 256 << 10

func (r *Result) addOutput(step string, output json.RawMessage) {
	size := len(output)
	for name, other := range r.Outputs {
		if name != step {
			size += len(other)
		}
	}
	if r.Outputs == nil {
		r.Outputs = map[string]json.RawMessage{}
	}
	if delete(r.Outputs, step); size <= maxOutputs {
		r.Outputs[step] = output
	}
}

// PreparePipeline resolves the pipeline, validates the input and claims the run's
// directory for this workflow.
func (a *Activities) PreparePipeline(ctx context.Context, in PrepareInput) (Prepared, error) {
	defer activities.Beat(ctx)()
	p, err := a.preparePipeline(ctx, in)
	return p, a.Tellable(err)
}

func (a *Activities) preparePipeline(ctx context.Context, in PrepareInput) (Prepared, error) {
	p, err := a.resolvePipeline(in)
	if err != nil {
		return Prepared{}, activities.Invalid(err)
	}
	if in.Inputs, err = p.ReadInputs(in.Inputs); err != nil {
		return Prepared{}, activities.Invalid(err)
	}
	if err := a.checkTeams(ctx, p); err != nil {
		return Prepared{}, err
	}
	if err := checkID(in.ID, p); err != nil {
		return Prepared{}, activities.Invalid(err)
	}
	layout := artifact.InPipeline(in.ID)
	if err := activities.ReadSource(ctx, a, a.Store, layout.File("pipeline.json"), &in.Material, a.ReadSource); err != nil {
		return Prepared{}, err
	}
	if err := activities.CheckMaterial(ctx, a.Bases(), in.Material); err != nil {
		return Prepared{}, err
	}
	if err := a.claimRun(ctx, layout, in, p); err != nil {
		return Prepared{}, err
	}
	if err := activities.UseMaterial(ctx, a.Store, in.Material, a.Now); err != nil {
		return Prepared{}, err
	}
	prepared := a.preparedRun(layout, p)
	prepared.Attributes = a.Attributes(ctx)
	return prepared, nil
}

func (a *Activities) preparedRun(layout artifact.Layout, p config.Pipeline) Prepared {
	return Prepared{
		ConfigHash: p.Hash(), Graph: graphOf(p),
		HeartbeatTimeoutSeconds: int(a.HeartbeatTimeout / time.Second),

		URL:     a.Store.URL(layout.File("pipeline.json")),
		Offline: p.PlaysOffline(), Notify: a.Receivers,
	}
}

func (a *Activities) resolvePipeline(in PrepareInput) (config.Pipeline, error) {
	given := activities.Given(in.Config)
	switch {
	case given && in.Pipeline != "":
		return config.Pipeline{}, errors.New("the input has both a pipeline and a config: give one")
	case given:
		p, _, err := config.ParsePipeline("input config", in.Config, config.Cluster)
		return p, err
	case in.Pipeline != "":
		return a.Teams.Pipeline(in.Pipeline)
	}
	return config.Pipeline{}, errors.New(`the input has no pipeline: give one as config, as in {"request":"…","config":{"start":…,"steps":[…]}}`)
}

func (a *Activities) checkTeams(ctx context.Context, p config.Pipeline) error {
	teams := p.Teams()
	for _, s := range p.Steps {
		if s.Kind != pipeline.Session || s.Config != nil {
			continue
		}
		team, err := a.Teams.ByName(s.Team)
		if err != nil {
			return activities.UnknownName(ctx, a, fmt.Errorf("step %s: %w", s.Name, err))
		}
		teams = append(teams, team.Within(0, p.CostLimit(s)))
	}
	for _, team := range teams {
		if err := activities.CheckTeam(ctx, a, a, team, false); err != nil {
			return err
		}
	}
	return nil
}

// checkID returns an error if a run's ID is too long to derive the session IDs of its steps from
// it.
func checkID(id string, p config.Pipeline) error {
	const suffix = "-l9999-99" // the launch, and a number if the ID is taken
	for _, s := range p.Steps {
		most := artifact.MaxSessionID - len("-"+s.Name+suffix)
		if s.Kind == pipeline.Session && len(id) > most {
			return fmt.Errorf("the run's id has %d bytes, and the session of step %s needs a longer one: give an id of at most %d", len(id), s.Name, most)
		}
	}
	return nil
}

func (a *Activities) claimRun(ctx context.Context, layout artifact.Layout, in PrepareInput, p config.Pipeline) error {
	canonical, err := p.Canonical()
	if err != nil {
		return activities.Invalid(err)
	}
	if err := activities.RefuseDeleted(ctx, a.Store, layout, "run "+in.ID); err != nil {
		return err
	}
	_, _, err = activities.Claim(ctx, a.Store, layout.File("pipeline.json"), file{
		Request: in.Request, Inputs: in.Inputs, ConfigHash: p.Hash(), Owner: in.Owner, CreatedAt: artifact.Timestamp(a.Now()), Material: in.Material,
	}, "run "+in.ID, "choose another ID")
	if err != nil {
		return err
	}
	if err := (activities.Claimed{WorkflowID: in.Owner.WorkflowID, ID: in.ID}).Keep(ctx, a.Store); err != nil {
		return err
	}
	return activities.CreateOnce(ctx, a.Store, layout.File("config.json"), json.RawMessage(canonical))
}
