package pipeline

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	acts "conclave/activities/pipeline"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
	"conclave/engine/text"
	"conclave/workflows"
)

// showProgress updates the details in the Web UI and the memo. The memo can be read without a worker.
func (p *run) showProgress() {
	now := p.currentState()
	workflow.SetCurrentDetails(p.ctx, boardMarkdown(now, p.prepared))
	fields := map[string]any{
		workflows.MemoQuery: p.in.Request, workflows.MemoStatus: now.Status, workflows.MemoStep: now.Step, workflows.MemoParked: "",
	}
	if p.in.Resume { // the request of a reopened run is not loaded, and the starter may have set the memo
		delete(fields, workflows.MemoQuery)
	}
	if now.Status == workflows.Running && now.Paused {
		fields[workflows.MemoStatus] = workflows.Paused
	}
	if now.Status == workflows.Running && now.Parked != nil {
		fields[workflows.MemoStatus], fields[workflows.MemoParked] = workflows.Parked, *now.Parked
	}
	if open := now.Questions; len(open) > 0 || p.asked {
		p.asked = true
		fields[workflows.MemoQuestions] = workflows.ShortQuestions(open)
		if len(open) > 0 && fields[workflows.MemoStatus] == workflows.Running {
			fields[workflows.MemoStatus] = workflows.Waiting
		}
	}
	if asks := len(now.Questions) > 0; asks != p.asks && p.begun && p.result == nil {
		p.asks = asks
		p.searchIndex().Change(p.ctx, map[bool]string{true: workflows.Waiting, false: workflows.Running}[asks])
	}
	if p.begun {
		fields[MemoPipeline], fields[workflows.MemoOffline], fields[workflows.MemoPaused] = p.id, p.prepared.Offline, now.Paused
	}
	p.memo.Set(p.ctx, fields)
}

func (p *run) currentState() acts.State {
	now := acts.State{ID: p.id, Request: p.in.Request, Status: workflows.Running, Ignored: p.inbox.Ignored(), View: pipeline.View{Stack: []string{}, Trace: []pipeline.TraceEntry{}}}
	if p.core == nil {
		if p.ctx.Err() != nil {
			now.Status = workflows.Cancelled
		}
		return now
	}
	now.View = p.core.View()
	for _, q := range p.core.OpenQuestions() {
		now.Questions = append(now.Questions, coordination.Question{
			ID: p.id, Kind: workflows.KindPipeline, QuestionID: q.ID, QuestionKind: coordination.AskApproval, Agent: q.Place(),
			Text: q.Text, Options: append([]string{}, q.Options...), Path: q.Path, Since: q.Since,
		})
	}
	if p.core.AwaitsPerson() {
		now.Phase = coordination.PhaseWaitingForPerson
	}
	switch {
	case p.core.Result != nil:
		now.Status, now.Reason = string(p.core.Result.Status), p.core.Result.Reason
	case p.ctx.Err() != nil:
		now.Status = workflows.Cancelled
	}
	return now
}

// smallState returns the state without large fields, for results of updates and inputs of activities,
// because both remain in the history.
func (p *run) smallState() acts.State {
	now := p.currentState()
	now.Request, now.Trace = "", []pipeline.TraceEntry{}
	return now
}

func (p *run) readTimeline() ([]pipeline.Entry, error) {
	if p.core == nil {
		return []pipeline.Entry{}, nil
	}
	return p.core.Timeline(), nil
}

// shownSteps is the maximum number of ended steps on the board; it shows the newest.
const shownSteps = 30

func boardMarkdown(s acts.State, p acts.Prepared) string {
	var b workflows.Board
	headline := s.Status
	if s.Status == workflows.Running && s.Step != "" {
		headline = "at " + s.Step
	}
	b.Headline(headline, fmt.Sprintf("%d transitions", s.Transitions), s.Usage)
	if s.Reason != "" {
		b.Print("%s\n\n", text.Markdown(s.Reason))
	}
	b.Ignored(s.Ignored)
	if len(s.Stack) > 0 {
		b.Print("Waiting callers: %s\n\n", strings.Join(s.Stack, " → "))
	}
	id := text.ShellQuote(s.ID)
	if s.Status == workflows.Running && s.Parked != nil {
		b.Print("**Parked:** %s\n\n`conclave retry %s` · `conclave cancel %s`\n\n", text.Markdown(*s.Parked), id, id)
	}
	if s.Status == workflows.Running && s.Paused {
		b.Print("**Paused:** nothing runs\n\n`conclave resume %s` · `conclave cancel %s`\n\n", id, id)
	}
	for _, q := range s.Questions {
		b.Question(id, q)
	}
	if p.Offline {
		b.WriteString("Offline: the built-in deterministic model plays the agents.\n\n")
	}
	b.Quote(s.Request)
	printTrace(&b, s.Trace)
	b.Files(p.URL)
	return b.String()
}

func printTrace(b *workflows.Board, trace []pipeline.TraceEntry) {
	if len(trace) == 0 {
		return
	}
	b.WriteString("| # | step | ended | then | tokens |\n|---|---|---|---|---|\n")
	if more := len(trace) - shownSteps; more > 0 {
		b.Print("| … | %d earlier | | | |\n", more)
		trace = trace[more:]
	}
	for _, g := range trace {
		then := "–"
		if g.Action != pipeline.NoAction {
			then = string(g.Action) + " " + g.To
		}
		number := "–" // the step has no directory
		if g.Number > 0 {
			number = strconv.Itoa(g.Number)
		}
		b.Print("| %s | %s | %s | %s | %d |\n", number, g.Step, strings.ReplaceAll(g.End(), "_", " "), text.Markdown(then), g.Usage.InputTokens+g.Usage.OutputTokens)
	}
	b.WriteString("\n")
	for _, g := range trace {
		if g.Error != nil {
			b.Print("- %s failed: %s: %s\n", g.Step, g.Error.Type, text.Markdown(g.Error.Message))
		}
	}
}

// Type is the workflow type of a pipeline run. Its queries, signals and updates have the same names
// as those of a session: state, timeline, say, pause, resume, retry, reply and approve.
const Type = "Pipeline"

// MemoPipeline is a memo key in addition to those of package workflows.
const MemoPipeline = "pipeline_id"

// Input starts a run of a pipeline. With Resume alone it continues an ended run.
type Input struct {
	Request string `json:"request"`
	ID      string `json:"id,omitempty"` // default: the workflow ID

	// Pipeline is the name of a pipeline registered on the local stack; Config is a definition in
	// JSON, which can name the worker's providers but not define any.
	Pipeline string          `json:"pipeline,omitempty"`
	Config   json.RawMessage `json:"config,omitempty"`

	Inputs json.RawMessage `json:"inputs,omitempty"` // an object that fits the pipeline's schema

	artifact.Material

	// Resume continues the failed or cancelled run with this workflow ID.
	Resume bool `json:"resume,omitempty"`

	// Continued passes a run on to the next execution; validate refuses it from clients.
	Continued *acts.Saved `json:"continued,omitempty"`

	faults workflows.Faults
}

// UnmarshalJSON never fails. validate reports faults.
func (in *Input) UnmarshalJSON(data []byte) error {
	type plain Input
	in.faults = workflows.Decode(data, (*plain)(in))
	return nil
}

func (in Input) validate(id string, continued bool) error {
	switch {
	case in.Continued != nil && !continued:
		return workflows.Invalid("continued is reserved for the workflow: leave it out")
	case in.Resume && !continued:
		if in.Request != "" || in.Pipeline != "" || activities.Given(in.Config) || activities.Given(in.Inputs) || in.Given() {
			return workflows.Invalid("resume goes on with the run as it was started: leave request, pipeline, config, inputs, base and context out")
		}
		if in.ID == "" { // the workflow's ID need not be that of a run
			return nil
		}
	case strings.TrimSpace(in.Request) == "":
		return workflows.Invalid(`the input has no request: give {"request":"…","config":{…}}`)
	case len(in.Inputs) > workflows.MaxInput:
		return workflows.Invalid("the inputs have %d bytes, at most %d are accepted: give large material as a base or a context: `conclave upload DIR` stores one", len(in.Inputs), workflows.MaxInput)
	case len(in.Request) > workflows.MaxInput:
		return workflows.Invalid("the request has %d bytes, at most %d are accepted: give large material as a base or a context: `conclave upload DIR` stores one", len(in.Request), workflows.MaxInput)
	case len(in.Images) > 0:
		return workflows.Invalid("images are shown with the question of a session, and this is a pipeline: give them as files of a base or a context")
	case len(in.Config) > workflows.MaxInput:
		return workflows.Invalid("the config has %d bytes, at most %d are accepted", len(in.Config), workflows.MaxInput)
	}
	if err := artifact.CheckSessionID(id); err != nil {
		return workflows.Invalid("%s", err.Error())
	}
	return nil
}
