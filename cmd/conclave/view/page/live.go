package page

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/url"
	"path"
	"strings"
	"time"

	"conclave/cmd/conclave/run/record"
	"conclave/engine/files/artifact"
	"conclave/engine/step"
)

// Part is a part of a live page. It is replaced when it changes.
type Part struct {
	ID     string `json:"id"`
	Parent string `json:"parent"` // ID of the part to which a new part is appended
	HTML   string `json:"html"`

	// Frame is the HTML without nested parts, which are sent separately. It is empty if there
	// are no nested parts.
	Frame string `json:"-"`
}

// Same reports whether a reader who has p needs nothing from a later rendering except nested
// parts.
func (p Part) Same(later Part) bool {
	if p.Frame != "" {
		return p.Frame == later.Frame
	}
	return p.HTML == later.HTML
}

// maxLive is the maximum length of a text in a live page, in bytes. It is large because the
// page loads each step separately from this machine.
const maxLive = 256 << 10

// sections are the parts of a session's page that have templates of the same names, in the order of
// the page.
var sections = []string{"head", "asked", "decision", "steer", "story", "why", "told", "board", "compare", "spent", "rise", "record"}

// Canvas caches the rendering of those parts of a session that rarely change.
type Canvas struct {
	drawn    map[string]remembered // drawn parts by their ID
	strips   map[string]any        // data of strips by their ID
	rendered map[string]template.HTML
}

// remembered is the rendering of a part with the data that it shows.
type remembered struct {
	of   string
	html template.HTML
}

// NewCanvas returns an empty canvas.
func NewCanvas() *Canvas {
	return &Canvas{drawn: map[string]remembered{}, strips: map[string]any{}, rendered: map[string]template.HTML{}}
}

// painter draws the parts of one reading on a canvas.
type painter struct {
	*Canvas
	parts []Part
}

// drawPart adds a part and returns its HTML. It renders the part only if of, the value that it shows, has changed.
// Data may be a function that returns the data.
func (p *painter) drawPart(id, parent, template string, data any, of ...any) template.HTML {
	described := fmt.Sprint(of...)
	old := p.drawn[id]
	if old.of != described {
		if prepare, ok := data.(func() any); ok {
			data = prepare()
		}
		html, err := executeTemplate(template, data)
		if err != nil {
			return "" // the part is drawn with the page, which reports the error
		}
		old = remembered{described, trimHTML(html)}
		p.drawn[id] = old
	}
	p.parts = append(p.parts, Part{ID: id, Parent: parent, HTML: string(old.html)})
	return old.html
}

func trimHTML(html []byte) template.HTML { return template.HTML(bytes.TrimSpace(html)) }

// Drawn is a live page of a run, rendered from one reading.
type Drawn struct {
	template string
	live     Live
	data     func(*Live) any // returns the data of the page for one reader
	parts    func() ([]Part, error)
}

// Page returns the whole page. Since is the version from which the reader receives changes.
func (d Drawn) Page(since, notice string, failed bool) ([]byte, error) {
	d.live.Since, d.live.Notice, d.live.Failed = since, notice, failed
	return executeTemplate(d.template, d.data(&d.live))
}

// Parts returns the parts of the page.
func (d Drawn) Parts() ([]Part, error) { return d.parts() }

// sectionsOf renders parts with the same data. Each is given by its ID, with the name of its
// template after a colon if the template has another name.
func sectionsOf(data any, sections ...string) ([]Part, error) {
	var parts []Part
	for _, section := range sections {
		id, name, _ := strings.Cut(section, ":")
		html, err := executeTemplate(cmp.Or(name, id), data)
		if err != nil {
			return nil, err
		}
		parts = append(parts, Part{ID: id, HTML: string(html)})
	}
	return parts, nil
}

// Draw renders a live page of a session.
func Draw(ctx context.Context, s *record.Session, live Live, now time.Time, canvas *Canvas) Drawn {
	v := newView(s, &live, now)
	v.Change = changeOf(s.Change, maxLive)
	v.addAnswers(ctx, &cutter{limit: maxLive, rendered: canvas.rendered}, nil)
	v.linkFiles(live)
	p := painter{Canvas: canvas}
	for i := range v.Answers {
		a := &v.Answers[i]
		a.Drawn = p.drawPart("answer-"+a.Label, "answer-list", "answer", *a, a.Final, len(a.Text.Text), len(a.Files), a.Checks, a.Judged != nil)
	}
	for i := range v.Steps {
		s := &v.Steps[i]
		s.Drawn = p.drawPart(s.ID, "step-list", "step", *s, s.Class, s.Words, s.Took, s.Accepted, s.Usage.ModelCalls, len(s.Rejections), len(s.Received), s.Vote != nil && s.Vote.Stale != nil, s.Error != nil)
	}
	for i := range v.Facts {
		f := &v.Facts[i]
		f.Drawn = p.drawPart(f.ID(), "facts", "fact", *f, strings.Join(f.Lines, "\n"))
	}
	for i := range v.Story.Lanes {
		p.drawLane(&v.Story.Lanes[i])
	}
	for i := range v.Story.Events {
		e := &v.Story.Events[i]
		e.Drawn = p.drawPart(e.ID, "event-list", "event", *e, e.Clock)
	}
	for i := range v.Cost.Steps {
		p.drawCostRow(&v.Cost.Steps[i])
	}
	return Drawn{
		template: "page", live: live,
		data:  func(l *Live) any { one := *v; one.Live = l; return &one },
		parts: func() ([]Part, error) { return v.drawParts(p.parts) },
	}
}

func (p *painter) drawLane(l *lane) {
	drawStrips(p, "ties", "ties", l.Ties)
	drawStrips(p, "bars", l.BarsID(), l.Bars)
	drawStrips(p, "marks", l.MarksID(), l.Marks)
	drawStrips(p, "marks", l.MarksID(), l.Updates)
	l.Gone = p.drawPart(l.GoingID(), "going", "going", *l, l.Going)
}

func (p *painter) drawCostRow(row *costRow) {
	row.Drawn = p.drawPart(row.ID(), "cost-list", "costcells", *row, row.Input, row.Output, row.OutputX, row.Usage.ModelCalls)
}

func (v *view) linkFiles(live Live) {
	for i := range v.Answers {
		a := &v.Answers[i]
		for j := range a.Files {
			a.Files[j].Source = live.Base + "/files/" + a.Label + "/" + escapePath(a.Files[j].Path)
		}
		if a.Judged != nil {
			a.Judged.Source = live.Base + "/evaluations/" + a.Label
		}
	}
}

func escapePath(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

func (v *view) drawParts(drawn []Part) ([]Part, error) {
	parts, err := sectionsOf(v, sections...)
	if err != nil {
		return nil, err
	}
	for i := range parts {
		if name := parts[i].ID; name == "why" || name == "story" || name == "compare" {
			if parts[i].Frame, err = v.frameSection(name); err != nil {
				return nil, err
			}
		}
	}
	parts = append(parts, drawn...)
	for i := range v.Steps {
		p := &v.Steps[i]
		if !p.Ended.IsZero() {
			continue
		}
		html, err := executeTemplate("said", p)
		if err != nil {
			return nil, err
		}
		parts = append(parts, Part{ID: "said-" + p.ID, Parent: p.ID, HTML: string(html)})
	}
	return parts, nil
}

// frameSection returns a section without its parts that are sent separately: its paragraph, the lines of
// its facts, and the symbols and events of the timeline. It also omits the compared pair, because
// the reader may have chosen another; the script offers new answers.
func (v *view) frameSection(section string) (string, error) {
	empty := *v
	empty.Why, empty.Facts, empty.Story.Lanes, empty.Story.Events = nil, nil, nil, nil
	for _, f := range v.Facts {
		empty.Facts = append(empty.Facts, fact{Name: f.Name})
	}
	for _, l := range v.Story.Lanes {
		empty.Story.Lanes = append(empty.Story.Lanes, lane{Agent: l.Agent, Class: l.Class, Y: l.Y, Text: l.Text, Rail: l.Rail})
	}
	if v.Compare.Left != "" {
		empty.Compare = compare{Left: "any", Right: "any"}
	}
	html, err := executeTemplate(section, &empty)
	return string(html), err
}

// Transcript returns the part of a live page with the transcript of a step.
func Transcript(t step.Transcript, p *record.Step) ([]byte, error) {
	c := &cutter{limit: maxLive, images: 4 << 20}
	return executeTemplate("transcript", stepView{Step: p, Entries: entriesOf(t, c, p.Dir+"transcript.jsonl")})
}

// File returns the part of a live page with the content of a file. Data is the beginning of the
// file.
func File(label string, f artifact.File, data []byte) ([]byte, error) {
	c := &cutter{limit: maxLive, images: 4 << 20}
	one := file{Path: cleanLine(f.Path), ID: attributeID("file", label, f.Path)}
	switch uri, isImage := c.imageOf(data, f.Size); {
	case isImage:
		one.Image = uri
	case isText(data):
		one.Text = c.cutText(string(data), f.Path)
		one.Text.More += int(max(0, f.Size-int64(len(data))))
		one.HTML, one.Shown = highlightSource(one.Text.Text, path.Ext(f.Path)), true
	}
	return executeTemplate("content", one)
}
