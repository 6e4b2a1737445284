package page

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"time"

	"conclave/cmd/conclave/record"
	"conclave/engine/coordination"
)

// The symbols, drawn around the origin.
const (
	square   = "M-5 -5h10v10h-10z"
	triangle = "M0 -6l6 11h-12z"
	cross    = "M-5 -5l10 10M5 -5l-10 10"
	diamond  = "M0 -4l4 4l-4 4l-4 -4z"
	octagon  = "M-2.5 -6h5l3.5 3.5v5l-3.5 3.5h-5l-3.5 -3.5v-5z"
	tickmark = "M-4 0l3 3l5 -6"
	plus     = "M-4 0h8M0 -4v8"
)

// eventSymbols are the symbols of the events that are drawn below their agent's lane.
var eventSymbols = map[string]string{coordination.EntryInjected: diamond, coordination.EntryChecked: tickmark, coordination.EntryJoined: plus}

func colorClass(i int) string { return fmt.Sprintf("c%d", i%13) }

func (d *drawing) lane(i int, a *record.Agent) {
	top := storyTop + i*laneHeight
	l := lane{Agent: a.ID, Class: colorClass(i), Text: top + 12, Y: top + 22}
	var bars []bar
	var marks, updates []mark
	for _, p := range a.Steps {
		from, to := d.axis.at(p.Started), d.axis.at(stepEnd(p, d.now))
		b := bar{
			Href: "#" + stepID(p), Title: barTitle(p, d.now), X: percent(from), W: percent(to - from), Y: l.Y, H: barHeight,
			Class: barClass(p),
		}
		if p.Ended.IsZero() {
			l.Going = append(l.Going, b)
		} else {
			bars = append(bars, b)
		}
		if m := d.mark(p, to, l.Y+barHeight/2); m.Path != "" {
			marks = append(marks, m)
		}
		if e := p.Evaluation; e != nil && !e.Started.IsZero() {
			bars = append(bars, d.evaluated(p, l.Y))
		}
	}
	for _, e := range d.s.Events {
		if symbol := eventSymbols[e.Kind]; symbol != "" && e.Agent == a.ID {
			updates = append(updates, mark{
				Href: eventHref(e), Title: line(e.Text), Class: e.Kind, X: d.x(e.Time), Y: l.Y + barHeight + 5, Path: symbol,
			})
		}
	}
	l.Bars, l.Marks, l.Updates = stripsOf("bars", a.ID, bars), stripsOf("marks", a.ID, marks), stripsOf("updates", a.ID, updates)
	d.story.Lanes = append(d.story.Lanes, l)
}

// evaluated returns the bar for the evaluation of an answer, thinner than the bar of a step.
func (d *drawing) evaluated(p *record.Step, y int) bar {
	e := p.Evaluation
	from, to := d.axis.at(e.Started), d.axis.at(e.Ended)
	return bar{
		Href: "#answer-" + p.Answer.Label, Class: "bar evaluated", X: percent(from), W: percent(to - from), Y: y + barHeight/3, H: barHeight / 3,
		Title: "evaluation of " + p.Answer.Label + ": " + line(string(e.Verdict)) + ", " + seconds(e.Ended.Sub(e.Started)),
	}
}

func barClass(p *record.Step) string {
	switch {
	case p.Ended.IsZero():
		return "bar going"
	case p.Action == "":
		return "bar unacted"
	case !p.Accepted:
		return "bar uncounted"
	}
	return "bar"
}

// mark returns the symbol of a step's action.
func (d *drawing) mark(p *record.Step, at float64, y int) mark {
	m := mark{Href: "#" + stepID(p), X: percent(at), Y: y, Anchor: anchorAt(at)}
	switch {
	case p.Answer != nil:
		m.Path, m.Class, m.Label = square, "answer", shortLabel(p.Answer.Label)
		d.ends[p.Answer.Label] = point{m.X, y}
	case p.Vote != nil:
		m.Path, m.Class, m.Label = triangle, "vote", "→"+shortLabel(p.Vote.TargetLabel)
		if p.Vote.Stale != nil {
			m.Class += " stale"
		}
	case p.Stop != nil:
		m.Path, m.Class, m.Title = octagon, "stop", p.Agent+" stopped: "+p.Stop.Status
	case p.Error != nil:
		m.Path, m.Class, m.Title = cross, "failure", p.Agent+" failed: "+brief(p.Error.Message, 120)
	}
	return m
}

// anchorAt returns the text anchor that keeps a short text at a position inside the drawing.
func anchorAt(at float64) string {
	switch {
	case at < 0.02:
		return "start"
	case at > 0.97:
		return "end"
	}
	return "middle"
}

// shortLabel returns a label without the prefix "agent".
func shortLabel(label string) string {
	if len(label) > 5 && label[:5] == "agent" {
		return label[5:]
	}
	return label
}

func barTitle(p *record.Step, now time.Time) string {
	title := fmt.Sprintf("%s, step %03d: %s, %s", p.Agent, p.Number, actionWords(p), seconds(stepEnd(p, now).Sub(p.Started)))
	if p.Usage.ModelCalls > 0 {
		title += ", " + tokens(p.Usage) + " tokens, " + money(p.Usage)
	}
	return title
}

// actionWords describes the end of a step.
func actionWords(p *record.Step) string {
	switch {
	case p.Answer != nil:
		return "answer " + p.Answer.Label
	case p.Vote != nil:
		return "vote for " + p.Vote.TargetLabel
	case p.Stop != nil:
		return "stop, " + p.Stop.Status
	case p.Error != nil:
		return "failed, " + p.Error.Type
	case p.Action != "":
		return line(p.Action)
	case !p.Over && p.Ended.IsZero():
		return "at work"
	}
	return "ended without an action"
}

// strip is a section of a lane with symbols of one kind. A live page receives only changed
// strips, however long the lane is.
type strip[T comparable] struct {
	ID    string
	Items []T
	Drawn template.HTML // HTML of an earlier drawing
}

// stripsOf splits an agent's symbols of one kind into strips.
func stripsOf[T comparable](kind, agent string, all []T) []strip[T] {
	const length = 16
	var strips []strip[T]
	for items := range slices.Chunk(all, length) {
		strips = append(strips, strip[T]{ID: slug(kind+"."+strconv.Itoa(len(strips)), agent), Items: items})
	}
	return strips
}

// drawStrips renders strips as parts. A strip that the canvas has rendered before is not rendered
// again.
func drawStrips[T comparable](c *Canvas, template, parent string, strips []strip[T]) []Part {
	var parts []Part
	for i := range strips {
		s := &strips[i]
		if old, _ := c.strips[s.ID].(strip[T]); slices.Equal(old.Items, s.Items) {
			s.Drawn = old.Drawn
		} else if html, err := execute(template, s); err == nil { // else it is drawn with the page, which reports the error
			s.Drawn = trimmed(html)
			c.strips[s.ID] = *s
		}
		parts = append(parts, Part{ID: s.ID, Parent: parent, HTML: string(s.Drawn)})
	}
	return parts
}
