package team

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/step"
	"conclave/engine/team/checklist"
	"conclave/engine/text"
)

//go:embed templates/*.tmpl
var templateFiles embed.FS

// templates parses the templates once.
var templates = sync.OnceValues(func() (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{"inc": func(i int) int { return i + 1 }}).ParseFS(templateFiles, "templates/*.tmpl")
})

// prompt is the data of the opening's templates.
type prompt struct {
	task
	Recent               []pastTurn
	Forgotten            int // earlier turns that are not shown
	Shown                []framed
	Judged               *framed // the final answer of an evaluating step
	Earlier              *framed // the answer of the previous attempt
	Reason, Instructions string  // both from its evaluation
	Said                 []message
	Outcome              coordination.Brief
	Owned                []owned
	Agreements           []agreement
	Memos                []memo
	Own                  string // the agent's own name, such as agent1, if its part reveals it; else empty
	Scoring              string // the section about the checklist of this step
	CanAnswer            bool
	CanVote              bool
	CanStop              bool
	Plain                bool     // the reply is plain text
	Electable            []string // the agents that a plain reply can vote for
	Divided              bool
	Shell                bool // the agent can run commands in its workspace
	Servers              bool // it has tools of MCP servers
	Framed               bool // agents' texts are shown
	Gated                bool // the team votes or stops by a checklist
}

// owned is one part as presenters and owners of other parts are shown it.
type owned struct {
	Agent   string
	Subtask string
	Mine    bool
	Stopped coordination.StopStatus // status of the stop; empty before it
	Summary string
}

// Opening returns the first system and user message. It fails for a task that is invalid or
// that would break anonymity.
func (r *rules) Opening() ([]llm.Message, error) {
	if err := r.task.check(); err != nil {
		return nil, fmt.Errorf("opening a step: %w", err)
	}
	data := r.prompt()
	name := "system.tmpl"
	switch {
	case data.Purpose == coordination.Present:
		name = "system_present.tmpl"
	case data.Purpose == coordination.Evaluate:
		name = "system_evaluate.tmpl"
	case data.Purpose == coordination.Evaluation:
		name = "system_critique.tmpl"
	case data.Divided && data.Alone:
		name = "system_whole.tmpl"
	case data.Divided:
		name = "system_divided.tmpl"
	case data.Plain:
		name = "system_plain.tmpl"
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

func (r *rules) prompt() prompt {
	t, open := r.task, r.open()
	p := prompt{
		task:      t,
		CanAnswer: slices.Contains(open, coordination.NewAnswer),
		CanVote:   slices.Contains(open, coordination.Vote),
		CanStop:   slices.Contains(open, coordination.Stop),
		Plain:     t.plain(),
		Divided:   t.divided(),
		Shell:     t.Files && slices.Contains(t.Tools, runCommand),
		Servers:   t.usesServers(),
		Gated:     t.Checklist != nil,
		Owned:     t.owned(),
	}
	if own := t.owner(); own > 0 {
		p.Own = agentName(own)
	}
	for _, m := range t.Messages {
		p.Said = append(p.Said, message{Number: m.Number, Text: text.Within(m.Text, t.all()...)})
	}
	if t.Brief != nil {
		p.Outcome = *t.Brief
		p.Outcome.Reasons = nil
		for _, reason := range t.Brief.Reasons {
			p.Outcome.Reasons = append(p.Outcome.Reasons, t.remark(reason))
		}
	}
	if t.Previous != nil {
		p.Reason, p.Instructions = t.remark(t.Previous.Reason), t.remark(t.Previous.Instructions)
	}
	p.Recent, p.Forgotten = frameTurns(t.Turns, t.all(), mostShown(t.Window)/2)
	p.Checks = t.Checks.within(t.Mark, t.People)
	p.frame(r.memory.answers)
	if p.CanVote {
		p.Electable = r.electable()
		p.Agreements = t.agreements(r.memory.answers)
	}
	p.Memos = t.memos(r.memory.answers)
	p.reviewed = t.sanitized(t.Mark, t.People)
	p.Framed = len(p.Shown) > 0 || p.Judged != nil || p.Earlier != nil || len(p.Outcome.Stops) > 0
	switch {
	case t.gated():
		p.Scoring = t.Checklist.Instructions()
	case t.Purpose == coordination.Evaluation:
		p.Scoring = "# The criteria\n\n" + strings.TrimSpace(checklist.List(t.Criteria))
	}
	return p
}

// frame frames every answer of the opening, within mostShown bytes in total.
func (p *prompt) frame(answers []answer) {
	all := slices.Clone(answers)
	if p.Final != nil {
		all = append(all, *p.Final)
	}
	if p.Previous != nil {
		all = append(all, p.Previous.Answer)
	}
	framed := p.frameAnswers(all, p.all(), mostShown(p.Window))
	p.Shown = framed[:len(answers)]
	rest := framed[len(answers):]
	if p.Final != nil {
		p.Judged, rest = &rest[0], rest[1:]
	}
	if p.Previous != nil {
		p.Earlier = &rest[0]
	}
}

// remark returns an agent's remark, prepared for a place between delimiter lines.
func (t task) remark(s string) string { return bounded(text.Within(s, t.all()...)) }

// owned returns the parts. For a presenter it includes the status and the summary with which
// their owners stopped.
func (t task) owned() []owned {
	list := make([]owned, 0, len(t.Parts))
	own := t.owner()
	for _, part := range t.Parts {
		o := owned{Agent: agentName(part.Number), Subtask: strings.TrimSpace(part.Subtask), Mine: part.Number == own}
		if t.Brief != nil {
			for _, s := range t.Brief.Stops {
				if s.Number == part.Number {
					o.Stopped, o.Summary = s.Status, t.remark(s.Summary)
				}
			}
		}
		list = append(list, o)
	}
	return list
}

// fill executes a template.
func fill(name string, data any) (string, error) {
	set, err := templates()
	if err != nil {
		return "", fmt.Errorf("reading the prompt templates: %w", err)
	}
	var b strings.Builder
	if err := set.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("filling the prompt template %s: %w", name, err)
	}
	return strings.TrimSpace(b.String()), nil
}

// equipment describes the agent's workspace for the prompts, without its tools.
func (o *opening) equipment() equipment {
	base := o.Layout.Base()
	e := equipment{Files: o.Files, Window: o.Window, Based: base != nil}
	if base != nil {
		e.BaseDir = step.BaseDir(base)
	}
	for _, c := range o.Contexts {
		e.ContextDir = step.ContextDir(base)
		e.Contexts = append(e.Contexts, c.Name)
	}
	return e
}

// placeOf returns the directory with the files of an agent's answer, to which texts refer.
// With a base it is empty, because paths are those of the base and peers/agent<N>/ does not
// have unchanged files.
func (o *opening) placeOf(number int) string {
	if o.Layout.Base() != nil {
		return ""
	}
	return "peers/" + agentName(number)
}

// changedFiles lists the files of a base that an answer changes, sorted by path. It returns
// nil without a base.
func changedFiles(c artifact.Change, base *artifact.Base) []changedFile {
	if base == nil {
		return nil
	}
	var changed []changedFile
	for _, f := range c.Files {
		kind := "A"
		if base.Has(f.Path) {
			kind = "M"
		}
		if f.Dir {
			f.Path += "/"
		}
		changed = append(changed, changedFile{Kind: kind, Path: f.Path})
	}
	for _, name := range c.Removed {
		if f, _ := base.File(name); f.Dir {
			name += "/"
		}
		changed = append(changed, changedFile{Kind: "D", Path: name})
	}
	slices.SortFunc(changed, func(a, b changedFile) int { return cmp.Compare(a.Path, b.Path) })
	return changed
}
