package team

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
	"conclave/engine/team/checklist"
	"conclave/engine/team/evaluator"
	"conclave/engine/team/plan"
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
		policy := o.checklist(*t)
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
		return fmt.Errorf("reading the evaluation of %s: %w", o.ownLabel(), err)
	}
	t.Packet, t.Label, t.PacketDir = string(packet), o.ownLabel(), step.EvaluatorDir(o.Layout.Base())
	o.papers = []step.Paper{{Dir: t.PacketDir, Name: packetFile, Text: t.Packet}}
	if !c.Tasks || !slices.Contains(o.Launch.Offered, coordination.NewAnswer) {
		if t.Checklist != nil {
			t.Checklist.Packet, t.Checklist.PacketText = t.PacketDir+"/"+packetFile, t.Packet
		}
		return nil
	}
	tasks, err := artifact.ReadJSON[evaluator.NextTasks](ctx, o.store, o.evaluatorFile(c.Step, tasksFile))
	if err != nil {
		return fmt.Errorf("reading the tasks for the version after %s: %w", o.ownLabel(), err)
	}
	text, err := artifact.EncodeJSON(tasks)
	if err != nil {
		return fmt.Errorf("writing the tasks for the version after %s: %w", o.ownLabel(), err)
	}
	o.papers = append(o.papers, step.Paper{Dir: t.PacketDir, Name: tasksFile, Text: string(text)})
	t.Objective, t.Shift, t.Plan = tasks.Objective, tasks.Shift(), tasks.Plan(o.Files)
	return nil
}

// evaluation lists the documents of an evaluation.
func (m Step) evaluation(c artifact.Commit) ([]step.Document, error) {
	s, err := decode[evaluator.Submission](c.Kind, c.Payload)
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
	for number := o.Launch.After; number > 0 && len(policy.Past) < checklist.PastNeeded; number-- {
		c, err := artifact.ReadJSON[artifact.Commit](ctx, o.store, o.Layout.Step(o.Launch.Agent, number, "action.json"))
		if errors.Is(err, artifact.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the checklists of step %d: %w", number, err)
		}
		payload, err := decode[checked](c.Kind, c.Payload)
		if err != nil {
			return fmt.Errorf("reading the checklists of step %d: %w", number, err)
		}
		policy.Past = append(slices.Clone(payload.Checked), policy.Past...)
	}
	policy.Past = policy.Past[max(0, len(policy.Past)-checklist.PastNeeded):]
	return nil
}

// checked is the part of a commit's payload that has the step's accepted checklists.
type checked struct {
	Checked []checklist.Scores `json:"checked,omitempty"`
}

// withChecked adds the step's accepted checklists to a payload.
func (r *rules) withChecked(payload json.RawMessage) (json.RawMessage, error) {
	state := r.checklist()
	if state == nil || len(state.Accepted()) == 0 {
		return payload, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(payload, &fields); err != nil {
		return nil, fmt.Errorf("adding the checklists to the payload: %w", err)
	}
	fields["checked"] = marshal(state.Accepted())
	return marshal(fields), nil
}

// maxPacket bounds, in bytes, an evaluation in a prompt.
const maxPacket = 16 << 10

// maxMemo bounds, in bytes, a verification memo in a prompt.
const maxMemo = 4 << 10

// sanitized returns the evaluation for a prompt, with a bounded packet and one line for each
// task of the plan.
func (r reviewed) sanitized(marks ...string) reviewed {
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

// memos returns the verification memos of the answers, prepared for a place between delimiter
// lines.
func (t task) memos(answers []answer) []memo {
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
	name := path.Base(plan.Memo)
	o.papers = append(o.papers, step.Paper{Dir: dir, Name: name, Text: merged.String()})
	o.task.MemoFile = dir + "/" + name
	return nil
}

// readMemo reads the verification memo among the files of an answer. The paths of its
// workspace are rewritten to those of its reader. number is the anonymous number of the
// author.
func (o *opening) readMemo(ctx context.Context, number int, m artifact.Manifest) (string, error) {
	i := slices.IndexFunc(m.Files, func(f artifact.File) bool { return f.Path == plan.Memo && f.Link == "" })
	if i < 0 || m.Files[i].Size == 0 || !o.Files {
		return "", nil
	}
	content, err := artifact.ReadFile(ctx, o.store, o.Layout, m.Files[i])
	if err != nil {
		return "", fmt.Errorf("reading %s of agent%d: %w", plan.Memo, number, err)
	}
	content = content[:min(len(content), 2*maxMemo)]
	own := o.placeOf(number)
	rewritten := step.Paths{Own: own, Files: m, Scratch: o.Scratch}.Rewrite(string(content))
	if own == "" {
		return rewritten, nil
	}
	return relocate(rewritten, own, m), nil
}

// relocate puts dir before the relative paths of files in a text. It does not change paths
// that are part of a longer path.
func relocate(s, dir string, m artifact.Manifest) string {
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
