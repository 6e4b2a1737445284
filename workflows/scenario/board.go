package scenario

import (
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/scenario"
	"conclave/engine/scenario"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// scenarioMemo is what the memo was last set to.
type scenarioMemo struct {
	status, step string
	paused       bool
	number       int
}

// show makes the Web UI, the CLI and describe readable without reading JSON.
func (s *scenarioRun) show() {
	now := s.state()
	workflow.SetCurrentDetails(s.ctx, scenarioBoard(now, s.prepared))
	next := scenarioMemo{status: string(now.Status), step: now.Step, paused: now.Paused, number: now.RunNumber}
	if now.Status == scenario.Running && now.Paused {
		next.status = drive.Paused
	}
	if next == s.told {
		return
	}
	values := map[string]any{drive.MemoStatus: next.status, drive.MemoStep: next.step, drive.MemoPaused: next.paused}
	if s.told == (scenarioMemo{}) {
		values[MemoScenario], values[MemoRun] = s.in.Plan.Slug, s.id
		values[drive.MemoQuery] = text.Truncate(s.in.Plan.Title, drive.MaxMemoText)
	}
	if next.number != s.told.number {
		values[MemoRunNumber], values[drive.MemoOffline] = next.number, s.prepared.Offline
	}
	s.told = next
	if err := workflow.UpsertMemo(s.ctx, values); err != nil {
		workflow.GetLogger(s.ctx).Error("the memo could not be set", "error", err)
	}
}

// refused has the memo say how a run ended that could not begin.
func (s *scenarioRun) refused(status string) {
	if err := workflow.UpsertMemo(s.ctx, map[string]any{drive.MemoStatus: status}); err != nil {
		workflow.GetLogger(s.ctx).Error("the memo could not be set", "error", err)
	}
}

func (s *scenarioRun) state() State {
	now := State{Result: s.result(), Plan: s.in.Plan.Steps}
	if now.Plan == nil {
		now.Plan = []scenario.StepRef{}
	}
	if s.core == nil {
		return now
	}
	now.Plan, now.Paused = s.prepared.Plan.Steps, s.core.Paused
	if s.trial != nil {
		now.Step = s.trial.launch.Step.ID
	}
	return now
}

// board is the Markdown in the making.
type board struct{ drive.Board }

// scenarioBoard is the run as Markdown.
func scenarioBoard(r State, p acts.Prepared) string {
	var b board
	headline := string(r.Status)
	if r.Status == scenario.Running && r.Step != "" {
		headline = "at step " + r.Step
	}
	b.Print("**%s** · %s · run %d · %s\n\n", headline, text.Markdown(r.Scenario), r.RunNumber, drive.Cost(r.Cost))
	if r.Title != "" {
		b.Print("> %s\n\n", text.Markdown(text.Truncate(r.Title, drive.MaxBoardText)))
	}
	if r.Status == scenario.Running && r.Paused {
		b.Print("**Paused:** nothing runs\n\n")
	}
	if p.Offline {
		b.WriteString("Offline: the built-in deterministic model plays the agents.\n\n")
	}
	b.steps(r)
	if p.URL != "" {
		b.Print("\nFiles: `%s`\n", strings.TrimSuffix(p.URL, "result.json"))
	}
	return b.String()
}

// steps is the table of the steps, those that have not begun included.
func (b *board) steps(r State) {
	b.WriteString("| step | | status | time | evidence |\n|---|---|---|---|---|\n")
	for i, ref := range r.Plan {
		status, spent, evidence := "–", "", 0
		switch {
		case i < len(r.Steps):
			one := r.Steps[i]
			status, evidence = string(one.Status), len(one.EvidencePaths)
			if one.Status != scenario.Skipped {
				spent = (time.Duration(one.DurationMS) * time.Millisecond).Round(100 * time.Millisecond).String()
			}
		case ref.ID == r.Step:
			status = string(scenario.Running)
		}
		b.Print("| %s | %s | %s | %s | %d |\n", ref.ID, text.Markdown(text.Truncate(ref.Title, drive.MaxBoardText)), status, spent, evidence)
	}
	b.WriteString("\n")
	for _, one := range r.Steps {
		if one.Error != nil {
			b.Print("- step %s: %s\n", one.ID, text.Markdown(text.Truncate(*one.Error, drive.MaxBoardText)))
		}
	}
}
