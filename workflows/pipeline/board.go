package pipeline

import (
	"fmt"
	"strconv"
	"strings"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/pipeline"
	"conclave/engine/pipeline"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// show updates the details in the Web UI and the memo. The memo can be read without a worker.
func (p *run) show() {
	now := p.state()
	workflow.SetCurrentDetails(p.ctx, markdown(now, p.prepared))
	fields := map[string]any{
		drive.MemoQuery: p.in.Request, drive.MemoStatus: now.Status, drive.MemoStep: now.Step, drive.MemoParked: "",
	}
	if p.in.Resume { // the request of a reopened run is not loaded, and the starter may have set the memo
		delete(fields, drive.MemoQuery)
	}
	if now.Status == drive.Running && now.Paused {
		fields[drive.MemoStatus] = drive.Paused
	}
	if now.Status == drive.Running && now.Parked != nil {
		fields[drive.MemoStatus], fields[drive.MemoParked] = drive.Parked, *now.Parked
	}
	if p.begun {
		fields[MemoPipeline], fields[drive.MemoOffline], fields[drive.MemoPaused] = p.id, p.prepared.Offline, now.Paused
	}
	p.memo.Set(p.ctx, fields)
}

func (p *run) state() acts.State {
	now := acts.State{ID: p.id, Request: p.in.Request, Status: drive.Running, Ignored: p.inbox.Ignored(), View: pipeline.View{Stack: []string{}, Trace: []pipeline.TraceEntry{}}}
	if p.core == nil {
		if p.ctx.Err() != nil {
			now.Status = drive.Cancelled
		}
		return now
	}
	now.View = p.core.View()
	switch {
	case p.core.Result != nil:
		now.Status, now.Reason = string(p.core.Result.Status), p.core.Result.Reason
	case p.ctx.Err() != nil:
		now.Status = drive.Cancelled
	}
	return now
}

// glance returns the state without large fields, for results of updates and inputs of activities,
// because both remain in the history.
func (p *run) glance() acts.State {
	now := p.state()
	now.Request, now.Trace = "", []pipeline.TraceEntry{}
	return now
}

func (p *run) timeline() ([]pipeline.Entry, error) {
	if p.core == nil {
		return []pipeline.Entry{}, nil
	}
	return p.core.Timeline(), nil
}

// shownSteps is the maximum number of ended steps on the board; it shows the newest.
const shownSteps = 30

// markdown formats the run for the Web UI.
func markdown(s acts.State, p acts.Prepared) string {
	var b drive.Board
	headline := s.Status
	if s.Status == drive.Running && s.Step != "" {
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
	if s.Status == drive.Running && s.Parked != nil {
		b.Print("**Parked:** %s\n\n`conclave retry %s` · `conclave cancel %s`\n\n", text.Markdown(*s.Parked), id, id)
	}
	if s.Status == drive.Running && s.Paused {
		b.Print("**Paused:** nothing runs\n\n`conclave resume %s` · `conclave cancel %s`\n\n", id, id)
	}
	if p.Offline {
		b.WriteString("Offline: the built-in deterministic model plays the agents.\n\n")
	}
	b.Quote(s.Request)
	printTrace(&b, s.Trace)
	b.Files(p.URL)
	return b.String()
}

// printTrace prints a table of the ended steps.
func printTrace(b *drive.Board, trace []pipeline.TraceEntry) {
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
