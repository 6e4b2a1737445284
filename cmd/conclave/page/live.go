package page

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"conclave/cmd/conclave/record"
	"conclave/engine/artifact"
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

// sections are the templates of the parts, in the order of the page.
var sections = []string{"head", "decision", "steer", "why", "told", "board", "story", "compare", "checks", "spent", "rise", "record"}

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

// draw renders a part, or returns the cached one if its data is unchanged.
func (c *Canvas) draw(id, template string, data any, of ...any) template.HTML {
	described := fmt.Sprint(of...)
	if old := c.drawn[id]; old.of == described {
		return old.html
	}
	html, err := execute(template, data)
	if err != nil {
		return "" // the part is drawn with the page, which reports the error
	}
	c.drawn[id] = remembered{described, trimmed(html)}
	return c.drawn[id].html
}

func trimmed(html []byte) template.HTML { return template.HTML(bytes.TrimSpace(html)) }

// Drawn is a live page rendered from one reading.
type Drawn struct {
	v     *view
	lanes []Part
}

// Draw renders a live page.
func Draw(ctx context.Context, s *record.Session, live Live, now time.Time, canvas *Canvas) Drawn {
	v := newView(s, &live, now)
	v.fill(ctx, &cutter{limit: maxLive, rendered: canvas.rendered}, nil)
	v.link(live)
	for i := range v.Answers {
		a := &v.Answers[i]
		a.Drawn = canvas.draw("answer-"+a.Label, "answer", *a, a.Final, len(a.Text.Text), len(a.Files), a.Checks, a.Judged != nil)
	}
	for i := range v.Steps {
		p := &v.Steps[i]
		p.Drawn = canvas.draw(p.ID, "step", *p, p.Class, p.Words, p.Took, p.Accepted, p.Usage.ModelCalls, len(p.Rejections), len(p.Received), p.Vote != nil && p.Vote.Stale != nil, p.Error != nil)
	}
	for i := range v.Facts {
		f := &v.Facts[i]
		f.Drawn = canvas.draw(f.ID(), "fact", *f, strings.Join(f.Lines, "\n"))
	}
	lanes := v.drawLanes(canvas)
	for i := range v.Story.Events {
		e := &v.Story.Events[i]
		e.Drawn = canvas.draw(e.ID, "event", *e, e.Clock)
	}
	for _, rows := range [][]costRow{v.Cost.Agents, v.Cost.Steps} {
		for i := range rows {
			row := &rows[i]
			row.Drawn = canvas.draw(row.ID(), "costcells", *row, row.Input, row.Output, row.OutputX, row.Usage.ModelCalls)
		}
	}
	return Drawn{v, lanes}
}

// drawLanes renders the lanes and returns their parts.
func (v *view) drawLanes(canvas *Canvas) []Part {
	var parts []Part
	for i := range v.Story.Lanes {
		l := &v.Story.Lanes[i]
		parts = append(parts, drawStrips(canvas, "ties", "ties", l.Ties)...)
		parts = append(parts, drawStrips(canvas, "bars", l.BarsID(), l.Bars)...)
		parts = append(parts, drawStrips(canvas, "marks", l.MarksID(), l.Marks)...)
		parts = append(parts, drawStrips(canvas, "marks", l.MarksID(), l.Updates)...)
		l.Gone = canvas.draw(l.GoingID(), "going", *l, l.Going)
		parts = append(parts, Part{ID: l.GoingID(), Parent: "going", HTML: string(l.Gone)})
	}
	return parts
}

// link sets the addresses of the files.
func (v *view) link(live Live) {
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

// Page returns the whole page. Since is the version from which the reader receives changes.
func (d Drawn) Page(since string, notice string, failed bool) ([]byte, error) {
	v := *d.v
	v.Live = v.Live.at(since, notice, failed)
	return execute("page", &v)
}

// at returns the state of a page for one reader.
func (l *Live) at(since, notice string, failed bool) *Live {
	one := *l
	one.Since, one.Notice, one.Failed = since, notice, failed
	return &one
}

// Parts returns the parts of the page.
func (d Drawn) Parts() ([]Part, error) {
	var parts []Part
	for _, name := range sections {
		html, err := execute(name, d.v)
		if err != nil {
			return nil, err
		}
		part := Part{ID: name, HTML: string(html)}
		if name == "why" || name == "story" || name == "compare" {
			if part.Frame, err = d.frame(name); err != nil {
				return nil, err
			}
		}
		parts = append(parts, part)
	}
	parts = append(parts, d.items()...)
	for i := range d.v.Steps {
		p := &d.v.Steps[i]
		parts = append(parts, Part{ID: p.ID, Parent: "step-list", HTML: string(p.Drawn)})
		if !p.Ended.IsZero() {
			continue
		}
		html, err := execute("said", p)
		if err != nil {
			return nil, err
		}
		parts = append(parts, Part{ID: "said-" + p.ID, Parent: p.ID, HTML: string(html)})
	}
	return parts, nil
}

// frame returns a section without its parts that are sent separately: its paragraph, the lines of
// its facts, and the symbols and events of the timeline. It also omits the compared pair, because
// the reader may have chosen another; the script offers new answers.
func (d Drawn) frame(section string) (string, error) {
	v := *d.v
	v.Why, v.Facts, v.Story.Lanes, v.Story.Events = nil, nil, nil, nil
	for _, f := range d.v.Facts {
		v.Facts = append(v.Facts, fact{Name: f.Name})
	}
	for _, l := range d.v.Story.Lanes {
		v.Story.Lanes = append(v.Story.Lanes, lane{Agent: l.Agent, Class: l.Class, Y: l.Y, Text: l.Text})
	}
	if v.Compare.Left != "" {
		v.Compare = compare{Left: "any", Right: "any"}
	}
	html, err := execute(section, &v)
	return string(html), err
}

// items returns the entries of growing lists as parts.
func (d Drawn) items() []Part {
	parts := slices.Clone(d.lanes)
	for _, f := range d.v.Facts {
		parts = append(parts, Part{ID: f.ID(), Parent: "facts", HTML: string(f.Drawn)})
	}
	for _, e := range d.v.Story.Events {
		parts = append(parts, Part{ID: e.ID, Parent: "event-list", HTML: string(e.Drawn)})
	}
	for _, a := range d.v.Answers {
		parts = append(parts, Part{ID: "answer-" + a.Label, Parent: "answer-list", HTML: string(a.Drawn)})
	}
	for _, row := range d.v.Cost.Agents {
		parts = append(parts, Part{ID: row.ID(), Parent: "cost-agents", HTML: string(row.Drawn)})
	}
	for _, row := range d.v.Cost.Steps {
		parts = append(parts, Part{ID: row.ID(), Parent: "cost-list", HTML: string(row.Drawn)})
	}
	return parts
}

// Transcript returns the part of a live page with the transcript of a step.
func Transcript(t step.Transcript, p *record.Step) ([]byte, error) {
	c := &cutter{limit: maxLive, images: 4 << 20}
	return execute("transcript", stepView{Step: p, Entries: entriesOf(t, c, p.Dir+"transcript.jsonl")})
}

// File returns the part of a live page with the content of a file. Data is the beginning of the
// file.
func File(label string, f artifact.File, data []byte) ([]byte, error) {
	c := &cutter{limit: maxLive, images: 4 << 20}
	one := file{Path: line(f.Path), ID: slug("file", label, f.Path)}
	switch uri, isImage := c.imageOf(data, f.Size); {
	case isImage:
		one.Image = uri
	case isText(data):
		one.Text = c.cut(string(data), f.Path)
		one.Text.More += int(max(0, f.Size-int64(len(data))))
		one.HTML, one.Shown = highlight(one.Text.Text, path.Ext(f.Path)), true
	}
	return execute("content", one)
}
