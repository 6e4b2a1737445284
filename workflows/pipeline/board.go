package pipeline

import (
	"strconv"
	"strings"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/pipeline"
	"conclave/engine/pipeline"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// show makes the run readable without JSON: in the Web UI, and in the memo, which needs
// no worker.
func (p *run) show() {
	now := p.state()
	workflow.SetCurrentDetails(p.ctx, markdown(now, p.prepared))
	status, parked := now.Status, ""
	if status == drive.Running && now.Paused {
		status = drive.Paused
	}
	if now.Status == drive.Running && now.Parked != nil {
		status, parked = drive.Parked, text.Truncate(*now.Parked, drive.MaxMemoParked)
	}
	fields := []drive.MemoField{
		{Key: drive.MemoQuery, Value: text.Truncate(p.in.Request, drive.MaxMemoText)},
		{Key: drive.MemoStatus, Value: status},
		{Key: drive.MemoStep, Value: now.Step},
		{Key: drive.MemoPaused, Value: now.Paused},
		{Key: drive.MemoParked, Value: parked},
	}
	if p.begun {
		fields = append(fields, drive.MemoField{Key: MemoPipeline, Value: p.id}, drive.MemoField{Key: drive.MemoOffline, Value: p.prepared.Offline})
	}
	p.memo.Set(p.ctx, fields...)
}

func (p *run) state() acts.State {
	now := acts.State{ID: p.id, Request: p.in.Request, Status: drive.Running, View: pipeline.View{Stack: []string{}, Trace: []pipeline.Segment{}}}
	if p.core == nil {
		return now
	}
	now.View = p.core.View()
	switch {
	case p.core.Outcome != nil:
		now.Status, now.Reason = string(p.core.Outcome.Status), p.core.Outcome.Reason
	case p.ctx.Err() != nil:
		now.Status = drive.Cancelled
	}
	return now
}

// glance returns the state without its large fields: the result of an update and the
// input of an activity stay in the history.
func (p *run) glance() acts.State {
	now := p.state()
	now.Request, now.Trace = "", []pipeline.Segment{}
	return now
}

func (p *run) timeline() ([]pipeline.Entry, error) {
	if p.core == nil {
		return []pipeline.Entry{}, nil
	}
	return p.core.Timeline(), nil
}

// shownSegments is the number of segments on the board, the newest.
const shownSegments = 30

// markdown formats the run for the Web UI.
func markdown(s acts.State, p acts.Prepared) string {
	var b drive.Board
	headline := s.Status
	if s.Status == drive.Running && s.Step != "" {
		headline = "at " + s.Step
	}
	b.Print("**%s** · %d transitions · %s\n\n", headline, s.Transitions, drive.Cost(s.Usage))
	if s.Reason != "" {
		b.Print("%s\n\n", text.Markdown(s.Reason))
	}
	if len(s.Stack) > 0 {
		b.Print("Waiting for a step they called: %s\n\n", strings.Join(s.Stack, " → "))
	}
	if s.Status == drive.Running && s.Parked != nil {
		b.Print("**Parked:** %s\n\n`conclave retry %s` · `conclave cancel %s`\n\n", text.Markdown(*s.Parked), s.ID, s.ID)
	}
	if s.Status == drive.Running && s.Paused {
		b.Print("**Paused:** nothing runs\n\n`conclave resume %s` · `conclave cancel %s`\n\n", s.ID, s.ID)
	}
	if p.Offline {
		b.WriteString("Offline: the built-in deterministic model plays the agents.\n\n")
	}
	b.Print("> %s\n\n", text.Markdown(text.Truncate(s.Request, drive.MaxBoardText)))
	printTrace(&b, s.Trace)
	if p.URL != "" {
		b.Print("\nFiles: `%s`\n", strings.TrimSuffix(p.URL, "pipeline.json"))
	}
	return b.String()
}

// printTrace prints a table of ended segments.
func printTrace(b *drive.Board, trace []pipeline.Segment) {
	if len(trace) == 0 {
		return
	}
	b.WriteString("| # | step | ended | then | tokens |\n|---|---|---|---|---|\n")
	if more := len(trace) - shownSegments; more > 0 {
		b.Print("| … | %d earlier | | | |\n", more)
		trace = trace[more:]
	}
	for _, g := range trace {
		then := "–"
		if g.Action != pipeline.NoAction {
			then = string(g.Action) + " " + g.To
		}
		number := "–" // the segment has no directory
		if g.Number > 0 {
			number = strconv.Itoa(g.Number)
		}
		b.Print("| %s | %s | %s | %s | %d |\n", number, g.Step, strings.ReplaceAll(string(g.Status), "_", " "), text.Markdown(then), drive.Tokens(g.Usage))
	}
	b.WriteString("\n")
	for _, g := range trace {
		if g.Error != nil {
			b.Print("- %s failed: %s: %s\n", g.Step, g.Error.Type, text.Markdown(g.Error.Message))
		}
	}
}
