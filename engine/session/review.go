package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/loop"
	"conclave/engine/session/quality"
	"conclave/engine/step"
	"conclave/engine/text"
)

// The files of an evaluation.
const (
	packetFile  = "critique_packet.md"
	tasksFile   = "next_tasks.json"
	verdictFile = "verdict.json"
)

// ownLabel returns the label of the agent's newest answer that is shown, or "".
func (m Step) ownLabel() string {
	for _, shown := range m.Launch.Shown {
		if shown.Number == m.Launch.Number {
			return shown.Label
		}
	}
	return ""
}

// loadReview reads the evaluation of the agent's newest answer for its next step.
func (o *opening) loadReview(ctx context.Context) error {
	t := &o.task
	if o.Launch.Purpose == coordination.Evaluation {
		policy := o.checklistPolicy(*t)
		t.Criteria, t.Label = policy.Judged(), o.ownLabel()
		t.Pressure = o.Team.Orchestrator.Coordination.RoundEvaluatorTransformationPressure
		return nil
	}
	c := o.Launch.Critique
	if c == nil {
		return nil
	}
	packet, err := o.store.Get(ctx, o.evaluatorFile(c.Step, packetFile))
	if err != nil {
		return fmt.Errorf("read the evaluation of %s: %w", o.ownLabel(), err)
	}
	t.Packet, t.Label, t.PacketDir = string(packet), o.ownLabel(), step.EvaluatorDir(o.Layout.Base())
	o.papers = []step.Paper{{Dir: t.PacketDir, Name: packetFile, Text: t.Packet}}
	if !c.Tasks || !slices.Contains(o.Launch.Offered, coordination.NewAnswer) {
		if t.Checklist != nil {
			t.Checklist.Packet, t.Checklist.PacketText = t.PacketDir+"/"+packetFile, t.Packet
		}
		return nil
	}
	tasks, err := artifact.ReadJSON[quality.NextTasks](ctx, o.store, o.evaluatorFile(c.Step, tasksFile))
	if err != nil {
		return fmt.Errorf("read the tasks for the version after %s: %w", o.ownLabel(), err)
	}
	text, _ := artifact.EncodeJSON(tasks) // it was read from JSON
	o.papers = append(o.papers, step.Paper{Dir: t.PacketDir, Name: tasksFile, Text: string(text)})
	t.Objective, t.Shift, t.Plan = tasks.Objective, tasks.Shift(), tasks.Plan(o.Files)
	return nil
}

func (m Step) evaluationDocuments(c artifact.Commit) ([]step.Document, error) {
	s, err := decodePayload[quality.Submission](c.Kind, c.Payload)
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return m.evaluatorFile(m.Launch.After, name) }
	documents := []step.Document{
		{Key: file(packetFile), Text: s.Document(m.ownLabel())},
		{Key: file(verdictFile), Body: s.Rating},
	}
	if s.Tasks != nil {
		documents = append(documents, step.Document{Key: file(tasksFile), Body: s.Tasks})
	}
	return documents, nil
}

// loadPast reads the scores of the agent's last two accepted checklists of earlier steps, the
// older first. Only steps with an action have recorded any.
func (o *opening) loadPast(ctx context.Context) error {
	policy := o.task.Checklist
	if policy == nil || policy.Own == "" {
		return nil
	}
	for number := o.Launch.After; number > 0 && len(policy.Past) < quality.PastNeeded; number-- {
		c, err := artifact.ReadJSON[artifact.Commit](ctx, o.store, o.Layout.Step(o.Launch.Agent, number, "action.json"))
		if errors.Is(err, artifact.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the checklists of step %d: %w", number, err)
		}
		payload, err := decodePayload[checked](c.Kind, c.Payload)
		if err != nil {
			return fmt.Errorf("read the checklists of step %d: %w", number, err)
		}
		policy.Past = append(slices.Clone(payload.Checked), policy.Past...)
	}
	policy.Past = policy.Past[max(0, len(policy.Past)-quality.PastNeeded):]
	return nil
}

// checked is the part of a commit's payload that has the step's accepted checklists.
type checked struct {
	Checked []quality.Scores `json:"checked,omitempty"`
}

// withChecked adds the step's accepted checklists to a payload.
func (r *rules) withChecked(payload json.RawMessage) (json.RawMessage, error) {
	state := r.checklistState()
	if state == nil || len(state.Accepted()) == 0 {
		return payload, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(payload, &fields); err != nil {
		return nil, fmt.Errorf("add the checklists to the payload: %w", err)
	}
	fields["checked"] = marshal(state.Accepted())
	return marshal(fields), nil
}

// maxPacket bounds, in bytes, an evaluation in a prompt.
const maxPacket = 16 << 10

// maxMemo bounds, in bytes, a verification memo in a prompt.
const maxMemo = 4 << 10

// sanitizeReview returns the evaluation for a prompt, with a bounded packet and one line for each
// task of the plan.
func (r reviewed) sanitizeReview(marks ...string) reviewed {
	r.Packet, _ = text.Head(text.Within(r.Packet, marks...), maxPacket)
	r.Objective, r.Shift = text.OneLine(text.Within(r.Objective, marks...)), text.Within(r.Shift, marks...)
	r.Plan = slices.Clone(r.Plan)
	for i := range r.Plan {
		r.Plan[i].Description = text.OneLine(text.Within(r.Plan[i].Description, marks...))
	}
	return r
}

// memo is the verification memo of an answer as templates print it.
type memo struct{ Label, Text string }

// shownMemos returns the verification memos of the answers, prepared for a place between delimiter
// lines.
func (t task) shownMemos(answers []answer) []memo {
	var all []memo
	for _, a := range answers {
		if head, _ := text.Head(text.Within(a.Memo, t.Mark, t.People), maxMemo); strings.TrimSpace(head) != "" {
			all = append(all, memo{a.Label, head})
		}
	}
	return all
}

// mergeMemos merges the verification memos of all answers into one file for a presenter with
// files. The file is in the place where agents keep their own memos.
func (o *opening) mergeMemos(context.Context) error {
	if o.Launch.Purpose != coordination.Present || !o.Files {
		return nil
	}
	var merged strings.Builder
	for _, a := range o.task.Answers {
		if strings.TrimSpace(a.Memo) != "" {
			fmt.Fprintf(&merged, "# Notes of %s\n\n%s\n\n", a.Label, strings.TrimSpace(text.Within(a.Memo)))
		}
	}
	if merged.Len() == 0 {
		return nil
	}
	dir := step.MemoryDir(o.Layout.Base())
	name := path.Base(quality.PlanMemo)
	o.papers = append(o.papers, step.Paper{Dir: dir, Name: name, Text: merged.String()})
	o.task.MemoFile = dir + "/" + name
	return nil
}

// readMemo reads the verification memo among the files of an answer. The paths of its
// workspace are rewritten to those of its reader. number is the anonymous number of the
// author.
func (o *opening) readMemo(ctx context.Context, number int, m artifact.Manifest) (string, error) {
	i := slices.IndexFunc(m.Files, func(f artifact.File) bool { return f.Path == quality.PlanMemo && f.Link == "" })
	if i < 0 || m.Files[i].Size == 0 || !o.Files {
		return "", nil
	}
	content, err := artifact.ReadFile(ctx, o.store, o.Layout, m.Files[i])
	if err != nil {
		return "", fmt.Errorf("read %s of agent%d: %w", quality.PlanMemo, number, err)
	}
	content = content[:min(len(content), 2*maxMemo)]
	own := o.placeOf(number)
	rewritten := step.Paths{Own: own, Files: m, Scratch: o.Scratch}.Rewrite(string(content))
	if own == "" {
		return rewritten, nil
	}
	return relocatePaths(rewritten, own, m), nil
}

// relocatePaths puts dir before the relative paths of files in a text. It does not change paths
// that are part of a longer path.
func relocatePaths(s, dir string, m artifact.Manifest) string {
	var pairs []string
	for _, f := range m.Files {
		if !strings.Contains(f.Path, ".") && !strings.Contains(f.Path, "/") {
			continue // it may be a word
		}
		for _, before := range []string{" ", "`", "(", "\"", "'", "\n", "./"} {
			lead := strings.TrimSuffix(before, "./")
			pairs = append(pairs, before+f.Path, lead+dir+"/"+f.Path)
		}
	}
	return strings.TrimPrefix(strings.NewReplacer(pairs...).Replace("\n"+s), "\n")
}

// Answer is the committed payload of a new_answer.
type Answer struct {
	Answer string          `json:"answer"`
	Label  string          `json:"label"`
	Data   json.RawMessage `json:"data,omitempty"`
	Equal  string          `json:"equal,omitempty"` // hash of the canonical data, as in coordination.Digest
}

// stop is the committed payload of a stop.
type stop struct {
	Status  coordination.StopStatus `json:"status"`
	Summary string                  `json:"summary"`
}

// restart is the committed payload of a restart_orchestration.
type restart struct {
	Reason       string `json:"reason"`
	Instructions string `json:"instructions"`
}

// sealAction builds the commit payload of an accepted action. It replaces anonymous numbers with
// agent IDs; stops, submissions and restarts name no agent.
func (o *opening) sealAction(a loop.Action) (step.Sealed, error) {
	sealed, err := o.sealPayload(a)
	if err == nil && o.rules != nil {
		sealed.Payload, err = o.rules.withChecked(sealed.Payload)
	}
	return sealed, err
}

// sealPayload is sealAction without the step's checklists.
func (o *opening) sealPayload(a loop.Action) (step.Sealed, error) {
	switch coordination.Action(a.Kind) {
	case coordination.NewAnswer:
		accepted, err := decodePayload[proposal](a.Kind, a.Payload)
		payload := marshal(Answer{Answer: accepted.Content, Label: o.nextLabel(), Data: accepted.Data, Equal: accepted.Equal})
		return step.Sealed{Payload: payload, Workspace: true, Otherwise: o.inheritedManifest()}, err
	case coordination.Vote:
		accepted, err := decodePayload[ballot](a.Kind, a.Payload)
		if err != nil {
			return step.Sealed{}, err
		}
		target, ok := o.agentID(accepted.Number)
		if seen, _ := o.witnessedSteps(); !ok || seen[target] == 0 {
			return step.Sealed{}, fmt.Errorf("a vote for agent%d, whose answer was not shown", accepted.Number)
		}
		return step.Sealed{Payload: marshal(coordination.Choice{Target: target, TargetLabel: accepted.Label, Reason: accepted.Reason, Confidence: accepted.Confidence})}, nil
	case coordination.Stop, coordination.Submit, coordination.RestartTeam, coordination.SubmitEvaluation:
		return step.Sealed{Payload: a.Payload}, nil
	default:
		return step.Sealed{}, fmt.Errorf("a step of a session cannot end with %q", a.Kind)
	}
}

// inheritedManifest returns the manifest for a presented answer without files of its own: the
// manifest of the winning answer. It is empty for divided work and if there is no winner.
func (o *opening) inheritedManifest() string {
	l := o.Launch
	if l.Purpose != coordination.Present || l.Brief == nil || o.isDivided() {
		return ""
	}
	for _, shown := range l.Shown {
		if i := o.peerIndex(shown.Number); i >= 0 && shown.Label == l.Brief.Label {
			return o.peers[i].Manifest
		}
	}
	return ""
}

// nextLabel returns the label of a new answer: agent<N>.final for a presenter, and otherwise
// one revision above the agent's last answer, which may be from an earlier attempt and not
// shown.
func (m Step) nextLabel() string {
	if m.Launch.Purpose == coordination.Present {
		return coordination.FinalLabel(m.Launch.Number)
	}
	last := m.Launch.Answers
	for _, shown := range m.Launch.Shown {
		if shown.Number == m.Launch.Number {
			last = max(last, parseRevision(shown.Number, shown.Label))
		}
	}
	return coordination.Label(m.Launch.Number, last+1)
}

// MaxReason bounds, in bytes, a reason or a summary outside the step's files.
const MaxReason = 280

// Outcome describes how a step ended, in terms of coordination. It is read from the step's commit. Its Choice is
// that of a vote, or has the reason of a restart, truncated to MaxReason.
type Outcome struct {
	Action coordination.Action `json:"action,omitempty"`
	coordination.Choice
	Status  coordination.StopStatus `json:"status,omitempty"`
	Summary string                  `json:"summary,omitempty"` // summary of a stop, truncated to MaxReason
	Seen    []coordination.Seen     `json:"seen,omitempty"`
	Heard   int                     `json:"heard,omitempty"` // number of the last human message shown
	Digest  coordination.Digest     `json:"digest,omitzero"` // digest of an answer

	// Critique is the evaluation of an answer, without its step; it is nil for other actions.
	Critique *coordination.Critique `json:"critique,omitempty"`
}

// ReadOutcome converts a commit to an Outcome.
func ReadOutcome(c artifact.Commit) (Outcome, error) {
	o := Outcome{Action: coordination.Action(c.Kind), Heard: c.Heard, Seen: coordination.SeenOf(c.SeenSteps)}
	var err error
	switch o.Action {
	case coordination.NewAnswer:
		var a Answer
		a, err = decodePayload[Answer](c.Kind, c.Payload)
		o.Digest = digestOf(a.Answer, c.Manifest)
		o.Digest.Data = a.Equal
	case coordination.Submit:
	case coordination.SubmitEvaluation:
		var s quality.Submission
		s, err = decodePayload[quality.Submission](c.Kind, c.Payload)
		o.Critique = &coordination.Critique{
			Verdict: s.Rating.Verdict, Scores: s.Rating.RoundScores(), Ceiling: s.Ceiling, Tasks: s.Tasks != nil,
		}
	case coordination.Vote:
		o.Choice, err = decodePayload[coordination.Choice](c.Kind, c.Payload)
		o.Reason = text.Truncate(o.Reason, MaxReason)
	case coordination.Stop:
		var s stop
		s, err = decodePayload[stop](c.Kind, c.Payload)
		o.Status, o.Summary = s.Status, text.Truncate(s.Summary, MaxReason)
	case coordination.RestartTeam:
		var r restart
		r, err = decodePayload[restart](c.Kind, c.Payload)
		o.Reason = text.Truncate(r.Reason, MaxReason)
	default:
		err = fmt.Errorf("a committed action of the unknown kind %q", c.Kind)
	}
	return o, err
}

// decodePayload reads the payload of an action.
func decodePayload[T any](kind string, payload json.RawMessage) (T, error) {
	var p T
	if err := json.Unmarshal(payload, &p); err != nil {
		return p, fmt.Errorf("read the payload of a %s: %w", kind, err)
	}
	return p, nil
}
