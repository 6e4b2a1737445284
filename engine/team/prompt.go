package team

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"conclave/engine/llm"
	"conclave/engine/team/checklist"
)

//go:embed templates/*.tmpl
var templates embed.FS

// prompt is what the templates of the opening see.
type prompt struct {
	Task
	Shown                []shown
	Judged               *shown // the final answer of an evaluating step
	Earlier              *shown // the answer of an earlier attempt, and what its evaluation said
	Reason, Instructions string
	Said                 []Message
	Outcome              Verdict
	Owned                []owned
	Own                  string // the agent's own name where its part tells, as agent1
	Scoring              string // the section about the checklist
	CanAnswer            bool
	CanVote              bool
	CanStop              bool
	Divided              bool
	Hears                bool // people may say something
	Arrives              bool // answers may arrive
	Shell                bool // the agent can run commands in its workspace
	Servers              bool // it has tools of MCP servers
	Framed               bool // something of the agents' is shown, or may be
}

// owned is one part as a presenter and the other owners see it.
type owned struct {
	Agent   string
	Subtask string
	Mine    bool
	Stopped string // status, empty while it was not stopped
	Summary string
}

// Opening returns the system and the user message that the step starts with. It
// fails when the task cannot be worked on or would show what is not anonymous.
func (r *Rules) Opening() ([]llm.Message, error) {
	if err := r.task.check(); err != nil {
		return nil, fmt.Errorf("opening a step: %w", err)
	}
	data := r.prompt()
	name := "system.tmpl"
	switch {
	case data.Purpose == Present:
		name = "system_present.tmpl"
	case data.Purpose == Evaluate:
		name = "system_evaluate.tmpl"
	case data.Divided && data.Alone:
		name = "system_whole.tmpl"
	case data.Divided:
		name = "system_divided.tmpl"
	case data.Alone:
		name = "system_alone.tmpl"
	}
	system, err := fill(name, data)
	if err != nil {
		return nil, err
	}
	user, err := fill("user.tmpl", data)
	if err != nil {
		return nil, err
	}
	return []llm.Message{{Role: llm.System, Content: system}, {Role: llm.User, Content: user}}, nil
}

func (r *Rules) prompt() prompt {
	t, open := r.task, r.open()
	p := prompt{
		Task:      t,
		CanAnswer: slices.Contains(open, KindNewAnswer),
		CanVote:   slices.Contains(open, KindVote),
		CanStop:   slices.Contains(open, KindStop),
		Divided:   t.divided(),
		Shell:     t.Files && slices.Contains(t.Tools, runCommand),
		Servers:   t.asksServers(),
		Hears:     len(t.Messages) > 0 || t.Look != nil,
		Arrives:   t.Look != nil && t.Updates.Mode == Inject && t.offers(KindNewAnswer),
		Owned:     t.owned(),
	}
	if own := t.owner(); own > 0 {
		p.Own = agentName(own)
	}
	for _, m := range t.Messages {
		p.Said = append(p.Said, Message{Number: m.Number, Text: plain(m.Text, t.Frame)})
	}
	if t.Verdict != nil {
		p.Outcome = t.Verdict.plain(t.Frame)
	}
	if t.Previous != nil {
		p.Reason, p.Instructions = t.advice(t.Previous.Reason), t.advice(t.Previous.Instructions)
	}
	p.show(r.known.answers)
	p.Framed = len(p.Shown) > 0 || p.Arrives || p.Judged != nil || p.Earlier != nil
	if r.hasChecklist() {
		p.Scoring = checklist.Instructions(*r.task.Checklist)
	}
	return p
}

// show frames every answer of the opening; all of them share mostShown.
func (p *prompt) show(answers []Answer) {
	all := slices.Clone(answers)
	if p.Final != nil {
		all = append(all, *p.Final)
	}
	if p.Previous != nil {
		all = append(all, p.Previous.Answer)
	}
	framed := frameAnswers(all, p.Frame, p.Files, mostShown(p.Window))
	p.Shown = framed[:len(answers)]
	rest := framed[len(answers):]
	if p.Final != nil {
		p.Judged, rest = &rest[0], rest[1:]
	}
	if p.Previous != nil {
		p.Earlier = &rest[0]
	}
}

// advice is an agent's remark, ready to be put between delimiter lines.
func (t Task) advice(text string) string { return cut(plain(text, t.Frame), MaxReason) }

func (v Verdict) plain(frame string) Verdict {
	reasons := v.Reasons
	v.Reasons = nil
	for _, reason := range reasons {
		v.Reasons = append(v.Reasons, cut(plain(reason, frame), MaxReason))
	}
	return v
}

// owned lists the parts with how their owners ended, for the presenter.
func (t Task) owned() []owned {
	list := make([]owned, 0, len(t.Parts))
	own := t.owner()
	for _, part := range t.Parts {
		o := owned{Agent: agentName(part.Number), Subtask: strings.TrimSpace(part.Subtask), Mine: part.Number == own}
		if t.Verdict != nil {
			for _, s := range t.Verdict.Stops {
				if s.Number == part.Number {
					o.Stopped, o.Summary = s.Status, t.advice(s.Summary)
				}
			}
		}
		list = append(list, o)
	}
	return list
}

// fill makes the text of a template.
func fill(name string, data any) (string, error) {
	set, err := template.ParseFS(templates, "templates/*.tmpl")
	if err != nil {
		return "", fmt.Errorf("reading the prompt templates: %w", err)
	}
	var b strings.Builder
	if err := set.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("filling the prompt template %s: %w", name, err)
	}
	return strings.TrimSpace(b.String()), nil
}
