package member

import (
	"crypto/sha256"
	"encoding/hex"

	"conclave/engine/coordination"
	"conclave/engine/team"
	"conclave/engine/team/checklist"
)

// begin fills in the task as far as the launch and the configuration have it.
func (o *opened) begin() {
	l, c := o.Launch, o.Settings
	o.task = team.Task{
		Query:         o.Query,
		SystemMessage: o.SystemMessage,
		Criteria:      o.criteria(),
		Revote:        l.Revote,
		Files:         o.Files,
		Window:        o.Window,
		Frame:         frame(o.Token),
		Sensitivity:   c.Sensitivity,
		Purpose:       string(l.Purpose),
		Alone:         len(o.numbers) == 1,
		Parts:         o.parts(),
		Subtask:       c.Subtasks[l.Agent],
		Verdict:       verdict(l.Brief),
		Novelty:       c.Novelty,
		Allowance:     team.Allowance(l.Allowance),
		Updates:       team.Updates{Mode: string(l.Updates.Mode), Most: l.Updates.Most, UntilChecklist: l.Updates.UntilChecklist},
	}
	if o.task.Soft = c.LaterRound; l.Round <= 1 {
		o.task.Soft = c.FirstRound
	}
	if o.task.Soft > 0 {
		o.task.Grace = c.Grace
	}
	if c.Sensitivity == team.ChecklistGated && l.Purpose == coordination.Coordinate {
		o.task.Checklist = o.checklist()
	}
	for _, action := range l.Offered {
		o.task.Offered = append(o.task.Offered, string(action))
	}
}

// criteria are the session's, else the team's own.
func (o *opened) criteria() []team.Criterion {
	if len(o.Criteria) > 0 {
		return o.Criteria
	}
	return o.Settings.Criteria
}

// checklist is the policy of a step that is gated by one. Answers of earlier
// attempts of the team do not count.
func (o *opened) checklist() *checklist.Policy {
	p := &checklist.Policy{
		AnswerLimit:   o.Settings.AnswersPerAgent,
		CallsPerRound: o.Settings.ChecklistCalls,
		FirstAnswer:   o.Settings.ChecklistFirst,
		Decomposition: o.Settings.Subtasks != nil && !o.task.Alone,
		Subtask:       o.Settings.Subtasks[o.Launch.Agent],
	}
	if o.Settings.Subtasks != nil {
		p.Terminal = checklist.Stop
	}
	for _, c := range o.criteria() {
		p.Criteria = append(p.Criteria, checklist.Criterion(c))
	}
	for _, shown := range o.Launch.Shown {
		p.Labels = append(p.Labels, shown.Label)
		if shown.Number == o.Launch.Number {
			p.Own, p.Answers = shown.Label, o.Launch.Given
		}
	}
	return p
}

// parts are the subtasks of the whole team, by number.
func (o *opened) parts() []team.Part {
	if o.Settings.Subtasks == nil {
		return nil
	}
	parts := make([]team.Part, len(o.numbers))
	for i, id := range o.numbers {
		parts[i] = team.Part{Number: i + 1, Subtask: o.Settings.Subtasks[id]}
	}
	return parts
}

// verdict is the decision as a presenter is told it.
func verdict(v *coordination.Brief) *team.Verdict {
	if v == nil {
		return nil
	}
	told := &team.Verdict{
		Strategy: string(v.Strategy), Label: v.Label, Votes: v.Votes, Voters: v.Voters, Tied: v.Tied, Reasons: v.Reasons,
	}
	for _, note := range v.Stops {
		told.Stops = append(told.Stops, team.StopNote{Number: note.Number, Status: string(note.Status), Summary: note.Summary})
	}
	return told
}

// frame derives the delimiter of the peers' text from the execution token,
// which no agent ever sees: a peer cannot close a frame it cannot guess, and a
// retry builds the same prompt.
func frame(token string) string {
	sum := sha256.Sum256([]byte("frame\x00" + token))
	return hex.EncodeToString(sum[:8])
}
