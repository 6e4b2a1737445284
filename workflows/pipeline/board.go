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

// pipelineMemo is what the memo was last set to.
type pipelineMemo struct {
	status, step string
	paused       bool
	parked       string
	epoch        int
	known        bool
}

// show makes the Web UI, the CLI and describe readable without reading JSON.
func (p *pipelineRun) show() {
	now := p.state()
	workflow.SetCurrentDetails(p.ctx, pipelineBoard(now, p.prepared))
	next := pipelineMemo{status: now.Status, step: now.Step, paused: now.Paused, epoch: p.bell.Epoch, known: p.begun}
	if now.Status == drive.Running {
		if now.Paused {
			next.status = drive.Paused
		}
		if now.Parked != nil {
			next.status, next.parked = drive.Parked, text.Truncate(*now.Parked, drive.MaxMemoParked)
		}
	}
	if next == p.told {
		return
	}
	values := map[string]any{drive.MemoStatus: next.status, drive.MemoStep: next.step, drive.MemoPaused: next.paused, drive.MemoParked: next.parked}
	if p.told == (pipelineMemo{}) {
		values[drive.MemoQuery] = text.Truncate(p.in.Request, drive.MaxMemoText)
	}
	if next.known && !p.told.known {
		values[MemoPipeline], values[drive.MemoOffline] = p.id, p.prepared.Offline
	}
	if next.epoch != p.told.epoch {
		values[drive.MemoDoorbell] = p.bell
	}
	p.told = next
	if err := workflow.UpsertMemo(p.ctx, values); err != nil {
		workflow.GetLogger(p.ctx).Error("the memo could not be set", "error", err)
	}
}

func (p *pipelineRun) state() State {
	now := State{ID: p.id, Request: p.in.Request, Status: drive.Running, View: pipeline.View{Stack: []string{}, Trace: []pipeline.Segment{}}}
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

// glance is the state without what may be large: an update's result, and the
// input of an activity, are in the history for ever.
func (p *pipelineRun) glance() State {
	now := p.state()
	now.Request, now.Trace = "", []pipeline.Segment{}
	return now
}

func (p *pipelineRun) timeline() ([]pipeline.Entry, error) {
	if p.core == nil {
		return []pipeline.Entry{}, nil
	}
	return p.core.Timeline(), nil
}

// shownSegments is how many segments the board shows: the newest.
const shownSegments = 30

// board is the Markdown in the making.
type board struct{ drive.Board }

// pipelineBoard is the run as Markdown.
func pipelineBoard(s acts.State, p acts.Prepared) string {
	var b board
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
	b.trace(s.Trace)
	if p.URL != "" {
		b.Print("\nFiles: `%s`\n", strings.TrimSuffix(p.URL, "pipeline.json"))
	}
	return b.String()
}

// trace is the table of what has ended.
func (b *board) trace(trace []pipeline.Segment) {
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
		number := "–" // of one that came to an end without a directory
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
