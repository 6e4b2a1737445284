package session

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/patch"
	"conclave/engine/llm"
	"conclave/engine/session/quality"
	"conclave/engine/step"
	"conclave/engine/text"
)

//go:embed templates/*.tmpl
var templateFiles embed.FS

// templates parses the templates once.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"inc": func(i int) int { return i + 1 }}).ParseFS(templateFiles, "templates/*.tmpl"))
})

// prompt is the data of the opening's templates.
type prompt struct {
	Boundary string // the end of the shared part
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
	Differences          string // lines about fields, if the answers are data
	Form                 string // the schema of the answer; empty for a text
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
	if err := r.task.checkOffer(); err != nil {
		return nil, fmt.Errorf("open a step: %w", err)
	}
	data := r.buildPrompt()
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
	system, err := fillTemplate(name, data)
	if err != nil {
		return nil, err
	}
	user, err := fillTemplate("user.tmpl", data)
	if err != nil {
		return nil, err
	}
	shared, own, _ := strings.Cut(user, data.Boundary)
	own = strings.ReplaceAll(own, data.Boundary, "")
	opening := []llm.Message{{Role: llm.System, Content: system}, {Role: llm.User, Content: shared + own, Shared: len(shared)}}
	for _, p := range r.task.Pictures {
		opening[1].Images = append(opening[1].Images, p.Image)
	}
	return opening, nil
}

// maxTitle bounds the name of a picture in a prompt, in bytes.
const maxTitle = 80

// Title returns the name in one line.
func (p Picture) Title() string { return text.Truncate(text.OneLine(p.Name), maxTitle) }

// boundary stands in the user message where the part ends that all agents of a wave share, until it is taken out. Agents'
// texts have no NUL; a query that has one is shared up to it.
const boundary = "\x00"

func (r *rules) buildPrompt() prompt {
	t, open := r.task, r.openActions()
	p := prompt{
		task:      t,
		Boundary:  boundary,
		CanAnswer: slices.Contains(open, coordination.NewAnswer),
		CanVote:   slices.Contains(open, coordination.Vote),
		CanStop:   slices.Contains(open, coordination.Stop),
		Plain:     t.isPlain(),
		Divided:   t.isDivided(),
		Shell:     t.Files && slices.Contains(t.Tools, runCommand),
		Servers:   slices.ContainsFunc(t.Tools, func(tool string) bool { return strings.HasPrefix(tool, serverPrefix) }),
		Gated:     t.Checklist != nil,
		Owned:     t.ownedParts(),
	}
	if own := t.ownNumber(); own > 0 {
		p.Own = agentName(own)
	}
	for _, m := range t.Messages {
		p.Said = append(p.Said, message{Number: m.Number, Text: text.Within(m.Text, t.openingMarks()...)})
	}
	if t.Brief != nil {
		p.Outcome = *t.Brief
		p.Outcome.Reasons = nil
		p.Outcome.Reasons = append(p.Outcome.Reasons, text.Each(t.Brief.Reasons, t.cleanRemark)...)
	}
	if t.Previous != nil {
		p.Reason, p.Instructions = t.cleanRemark(t.Previous.Reason), t.cleanRemark(t.Previous.Instructions)
	}
	p.Recent, p.Forgotten = frameTurns(t.Turns, t.openingMarks(), mostShown(t.Window)/2)
	p.Checks = t.Checks.withoutMarks(t.Mark, t.People)
	p.frameShown(r.memory.answers)
	if p.CanVote {
		p.Electable = r.memory.electableAgents()
		p.Agreements = t.findAgreements(r.memory.answers)
		p.Differences = t.findDifferences(r.memory.answers, t.openingMarks()...)
	}
	if t.Schema != nil {
		p.Form = t.Schema.Sent("")
	}
	p.Memos = t.shownMemos(r.memory.answers)
	p.reviewed = t.sanitizeReview(t.Mark, t.People)
	p.Framed = len(p.Shown) > 0 || p.Judged != nil || p.Earlier != nil || len(p.Outcome.Stops) > 0
	switch {
	case t.isGated():
		p.Scoring = t.Checklist.Instructions()
	case t.Purpose == coordination.Evaluation:
		p.Scoring = "# The criteria\n\n" + strings.TrimSpace(quality.List(t.Criteria))
	}
	return p
}

// frameShown frames every answer of the opening, within mostShown bytes in total.
func (p *prompt) frameShown(answers []answer) {
	all := slices.Clone(answers)
	if p.Final != nil {
		all = append(all, *p.Final)
	}
	if p.Previous != nil {
		all = append(all, p.Previous.Answer)
	}
	framed := p.frameAnswers(all, p.openingMarks(), mostShown(p.Window))
	p.Shown = framed[:len(answers)]
	rest := framed[len(answers):]
	if p.Final != nil {
		p.Judged, rest = &rest[0], rest[1:]
	}
	if p.Previous != nil {
		p.Earlier = &rest[0]
	}
}

func (t task) cleanRemark(s string) string { return boundText(text.Within(s, t.openingMarks()...)) }

// ownedParts returns the parts. For a presenter it includes the status and the summary with which
// their owners stopped.
func (t task) ownedParts() []owned {
	list := make([]owned, 0, len(t.Parts))
	own := t.ownNumber()
	for _, part := range t.Parts {
		o := owned{Agent: agentName(part.Number), Subtask: strings.TrimSpace(part.Subtask), Mine: part.Number == own}
		if t.Brief != nil {
			for _, s := range t.Brief.Stops {
				if s.Number == part.Number {
					o.Stopped, o.Summary = s.Status, t.cleanRemark(s.Summary)
				}
			}
		}
		list = append(list, o)
	}
	return list
}

func fillTemplate(name string, data any) (string, error) {
	var b strings.Builder
	if err := templates().ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("fill the prompt template %s: %w", name, err)
	}
	return strings.TrimSpace(b.String()), nil
}

// describeEquipment describes the agent's workspace for the prompts, without its tools.
func (o *opening) describeEquipment() equipment {
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

// maxShown bounds the texts of all answers in a prompt, in bytes: about 30,000
// tokens. In a small context window they get only a share of it.
const maxShown = 120 << 10

// minShown is the size, in bytes, up to which an answer is always shown in full, unless the
// window is small. maxShown is large enough for this with any number of agents.
const minShown = 4 << 10

// mostShown returns maxShown for a context window of the given tokens: at most a quarter of
// it, at three bytes per token. A window of 0 is unknown.
func mostShown(window int) int {
	const part, bytesPerToken = 4, 3
	if window <= 0 || window >= maxShown*part/bytesPerToken {
		return maxShown
	}
	return window * bytesPerToken / part
}

// leastShown returns minShown for such a window.
func leastShown(window int) int { return mostShown(window) / (maxShown / minShown) }

// framed is an answer as the templates print it between delimiter lines.
type framed struct {
	Label string
	Agent string
	Text  string
	Files int // 0 when the step has no file tools and no base
	Kept  bool
	Cut   int // bytes shown of a truncated text, else 0
	Bytes int

	Based    bool     // Files are changes of a base
	Mark     string   // mark that delimits Changed
	Changed  []string // files that it changes, with their kinds
	Unlisted int      // number of further files
	Diff     string   // path of the change as a patch; empty without file tools
}

// frameAnswers sanitizes answers and truncates the longest ones so that all texts together
// have at most total bytes. The first mark delimits lists of changed files.
func (t task) frameAnswers(answers []answer, marks []string, total int) []framed {
	all := make([]framed, 0, len(answers))
	sizes := make([]int, 0, len(answers))
	for _, a := range answers {
		clean := text.Within(a.Text, marks...)
		f := framed{Label: a.Label, Agent: a.authorName(), Text: clean, Bytes: len(clean)}
		if t.Files {
			f.Files, f.Kept = a.Files, a.Kept
		}
		if t.Based {
			t.listChanges(&f, a, marks, total/8/len(answers))
		}
		all = append(all, f)
		sizes = append(sizes, len(clean))
	}
	limit := text.Share(sizes, total)
	for i := range all {
		if head, cut := text.Head(all[i].Text, limit); cut {
			all[i].Text, all[i].Cut = head, len(head)
		}
	}
	return all
}

// maxListed bounds, in bytes, the list of an answer's changed files.
const maxListed = 4 << 10

func (t task) listChanges(f *framed, a answer, marks []string, room int) {
	f.Based, f.Files, f.Mark = true, a.Files, marks[0]
	if t.Files && a.Files > 0 && !a.Replaced {
		f.Diff = "peers/" + f.Agent + ".diff"
	}
	room = min(room, maxListed)
	for i, c := range a.Changed {
		line := text.OneLine(text.Within(c.Kind+" "+patch.Quote(c.Path), marks...))
		if room -= len(line) + 1; room < 0 {
			f.Unlisted = len(a.Changed) - i
			return
		}
		f.Changed = append(f.Changed, line)
	}
}

// boundText truncates a reason, a summary or a piece of advice to maxReason.
func boundText(s string) string {
	head, _ := text.Head(s, maxReason)
	return head
}

// wholeLine is the length, in bytes, at which wholeText breaks lines: file tools show
// only the beginning of longer ones.
const wholeLine = 2 << 10

// wholeText returns an answer's text for peers/agent<N>.md, sanitized, with its longest lines
// broken, if possible after a space. It is empty for a text that a step with such a context
// window never truncates.
func wholeText(s string, window int) string {
	s = text.Within(s)
	if len(s) <= leastShown(window) {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(s + "\n") {
		for len(line) > wholeLine {
			part, _ := text.Head(line, wholeLine)
			if at := strings.LastIndexAny(part, " \t"); at >= 0 {
				part = part[:at+1]
			}
			line = line[len(part):]
			b.WriteString(part + "\n")
		}
		b.WriteString(line)
	}
	return b.String()
}
