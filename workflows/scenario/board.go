package scenario

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/scenario"
	"conclave/engine/scenario"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// show updates the details in the Web UI and the memo. The memo can be read without a worker.
func (s *run) show() {
	now := s.state()
	workflow.SetCurrentDetails(s.ctx, markdown(now, s.prepared))
	fields := map[string]any{
		MemoScenario: s.in.Plan.Slug, MemoRun: s.id, drive.MemoQuery: s.in.Plan.Title, drive.MemoStatus: string(now.Status),
		drive.MemoStep: now.Step, drive.MemoPaused: now.Paused,
	}
	if now.Status == scenario.Running && now.Paused {
		fields[drive.MemoStatus] = drive.Paused
	}
	if now.RunNumber > 0 {
		fields[memoRunNumber], fields[drive.MemoOffline] = now.RunNumber, s.prepared.Offline
	}
	s.memo.Set(s.ctx, fields)
}

func (s *run) state() acts.State {
	now := acts.State{Result: s.result(), Plan: s.in.Plan.All(), Ignored: s.inbox.Ignored()}
	if now.Plan == nil {
		now.Plan = []scenario.StepRef{}
	}
	if s.core == nil {
		return now
	}
	now.Plan = s.prepared.Plan.All()
	if s.step != nil {
		now.Step = s.step.launch.Step.ID
	}
	return now
}

// markdown formats the run for the Web UI.
func markdown(r acts.State, p acts.Prepared) string {
	var b drive.Board
	headline := string(r.Status)
	if r.Status == scenario.Running && r.Step != "" {
		headline = "at step " + r.Step
	}
	b.Headline(headline, fmt.Sprintf("%s · run %d", text.Markdown(r.Scenario), r.RunNumber), r.Cost)
	if r.Title != "" {
		b.Quote(r.Title)
	}
	if r.Status == scenario.Running && r.Paused {
		b.Print("**Paused:** nothing runs\n\n")
	}
	b.Ignored(r.Ignored)
	if p.Offline {
		b.WriteString("Offline: the built-in deterministic model plays the agents.\n\n")
	}
	printSteps(&b, r)
	b.Files(p.URL)
	return b.String()
}

func printSteps(b *drive.Board, r acts.State) {
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
		b.Print("| %s | %s | %s | %s | %d |\n", ref.ID, text.Markdown(text.Truncate(ref.Title, maxText)), status, spent, evidence)
	}
	b.WriteString("\n")
	for _, one := range r.Steps {
		if one.Error != nil {
			b.Print("- step %s: %s\n", one.ID, text.Markdown(text.Truncate(*one.Error, maxText)))
		}
	}
}
