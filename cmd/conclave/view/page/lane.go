package page

import (
	"fmt"
	"html/template"
	"slices"
	"sort"
	"strconv"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
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
	dash     = "M0 -6v12"
)

// eventSymbols are the symbols of the events that are drawn below their agent's lane.
var eventSymbols = map[string]string{coordination.EntryInjected: diamond, coordination.EntryChecked: tickmark, coordination.EntryJoined: plus}

func colorClass(i int) string { return fmt.Sprintf("c%d", i%13) }

// drawLane keeps the bars of running steps apart from the others, because they change with every drawing.
func (d *drawing) drawLane(i int, a *record.Agent) {
	top := storyTop + i*d.lane + d.above
	l := lane{Agent: a.ID, Class: colorClass(i), Text: top + d.bar/2 + 4, Rail: top + d.bar/2, Y: top}
	var bars []bar
	var marks, updates []mark
	for _, p := range a.Steps {
		from, to := d.axis.positionOf(p.Started), d.axis.positionOf(stepEnd(p, d.now))
		b := bar{
			Href: "#" + stepID(p), Title: barTitle(d.s, p, d.now), X: cssPercent(from), W: cssPercent(to - from), Y: l.Y, H: d.bar,
			Class: d.barClass(p),
		}
		if p.Ended.IsZero() && d.s.Running() {
			l.Going = append(l.Going, b)
		} else {
			bars = append(bars, b)
		}
		if m := d.stepMark(p, to, l.Rail); m.Path != "" {
			marks = append(marks, m)
		}
		if e := p.Evaluation; e != nil && !e.Started.IsZero() {
			bars = append(bars, d.evaluationBar(p, l.Y))
		}
	}
	for _, e := range d.s.Events {
		if symbol := eventSymbols[e.Kind]; symbol != "" && e.Agent == a.ID {
			updates = append(updates, mark{
				Href: fmt.Sprintf("#event-%d", e.Seq), Title: cleanLine(e.Text), Class: e.Kind, X: d.percentAt(e.Time), Y: l.Y + d.bar + 4, Path: symbol,
			})
		}
	}
	l.Bars, l.Marks, l.Updates = stripsOf("bars", a.ID, bars), stripsOf("marks", a.ID, marks), stripsOf("updates", a.ID, updates)
	d.story.Lanes = append(d.story.Lanes, l)
}

func (d *drawing) evaluationBar(p *record.Step, y int) bar {
	e := p.Evaluation
	from, to := d.axis.positionOf(e.Started), d.axis.positionOf(e.Ended)
	return bar{
		Href: "#answer-" + p.Answer.Label, Class: "bar evaluated", X: cssPercent(from), W: cssPercent(to - from), Y: y + d.bar/3, H: d.bar / 3,
		Title: "evaluation of " + p.Answer.Label + ": " + cleanLine(string(e.Verdict)) + ", " + formatDuration(e.Ended.Sub(e.Started)),
	}
}

func (d *drawing) barClass(p *record.Step) string {
	switch {
	case p.Ended.IsZero() && d.s.Running():
		return "bar going"
	case p.Action == "":
		return "bar unacted"
	case !p.Accepted:
		return "bar uncounted"
	}
	return "bar"
}

func (d *drawing) stepMark(p *record.Step, at float64, y int) mark {
	m := mark{Href: "#" + stepID(p), X: cssPercent(at), Y: y, LabelY: -9, Anchor: anchorAt(at)}
	if d.sizes == compact {
		m.LabelX, m.LabelY, m.Anchor = 8, 4, "start"
		if at > 0.95 {
			m.LabelX, m.Anchor = -8, "end"
		}
	}
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
	case isCut(d.s, p):
		m.Path, m.Class, m.Title, m.Label = dash, "cut", p.Agent+" was "+d.s.State.CutOff(p.Agent), ""
	case p.Error != nil:
		m.Path, m.Class, m.Title = cross, "failure", p.Agent+" failed: "+briefLine(p.Error.Message, 120)
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

func shortLabel(label string) string {
	if len(label) > 5 && label[:5] == "agent" {
		return label[5:]
	}
	return label
}

func barTitle(s *record.Session, p *record.Step, now time.Time) string {
	title := fmt.Sprintf("%s, step %03d: %s, %s", p.Agent, p.Number, actionWords(s, p), formatDuration(stepEnd(p, now).Sub(p.Started)))
	if p.Usage.ModelCalls > 0 {
		title += ", " + formatTokens(p.Usage) + " tokens, " + formatPrice(p.Usage)
	}
	return title
}

func actionWords(s *record.Session, p *record.Step) string {
	switch {
	case isCut(s, p):
		return s.State.CutOff(p.Agent)
	case p.Answer != nil:
		return "answer " + p.Answer.Label
	case p.Vote != nil:
		return "vote for " + p.Vote.TargetLabel
	case p.Stop != nil:
		return "stop, " + p.Stop.Status
	case p.Error != nil:
		return "failed, " + p.Error.Type
	case p.Action != "":
		return cleanLine(p.Action)
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

func stripsOf[T comparable](kind, agent string, all []T) []strip[T] {
	const length = 16
	var strips []strip[T]
	for items := range slices.Chunk(all, length) {
		strips = append(strips, strip[T]{ID: attributeID(kind+"."+strconv.Itoa(len(strips)), agent), Items: items})
	}
	return strips
}

// drawStrips adds strips as parts. A strip that was rendered before is not rendered again.
func drawStrips[T comparable](p *painter, template, parent string, strips []strip[T]) {
	for i := range strips {
		s := &strips[i]
		if old, _ := p.strips[s.ID].(strip[T]); slices.Equal(old.Items, s.Items) {
			s.Drawn = old.Drawn
		} else if html, err := executeTemplate(template, s); err == nil { // else it is drawn with the page, which reports the error
			s.Drawn = trimHTML(html)
			p.strips[s.ID] = *s
		}
		p.parts = append(p.parts, Part{ID: s.ID, Parent: parent, HTML: string(s.Drawn)})
	}
}

// eventsOf returns the events as a list of sentences. For a directory without events it
// returns the ends of its steps.
func eventsOf(s *record.Session) []event {
	var list []event
	began := s.Began()
	clock := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return cli.Clock(t.Sub(began))
	}
	for _, e := range s.Events {
		list = append(list, event{
			ID: fmt.Sprintf("event-%d", e.Seq), Time: e.Time, Clock: clock(e.Time), Text: cleanText(e.Text), Note: briefLine(e.Reason, maxQuote),
		})
	}
	if len(s.Events) > 0 {
		return list
	}
	for _, p := range s.Steps {
		list = append(list, event{
			ID: "event-" + stepID(p), Time: p.Ended, Clock: clock(p.Ended),
			Text: fmt.Sprintf("%s, step %03d: %s", p.Agent, p.Number, actionWords(s, p)),
		})
	}
	slices.SortStableFunc(list, func(a, b event) int { return a.Time.Compare(b.Time) })
	return list
}

func stepID(p *record.Step) string {
	return attributeID("step", p.Agent, fmt.Sprintf("%03d", p.Number))
}

// axis maps times to fractions of the drawing's width. It compresses idle times, so that a
// pause of a night leaves room for the minutes of work.
type axis struct {
	spans []span
	total float64 // seconds, of all spans as drawn
}

// span is a period of time. An idle one is drawn shorter than its duration.
type span struct {
	from, to time.Time
	idle     bool
	at       float64 // seconds drawn before it
	drawn    float64 // length in seconds
}

// isCompressed reports whether a span is drawn at less than half of its length.
func (s span) isCompressed() bool { return s.idle && s.to.Sub(s.from).Seconds() > 2*s.drawn }

// newAxis returns an axis from the start of the session to its end, or to now while it runs.
func newAxis(s *record.Session, end time.Time) axis {
	busy := mergeSpans(busySpans(s, end))
	var worked float64
	for _, b := range busy {
		worked += b.to.Sub(b.from).Seconds()
	}
	most := max(1, worked/12) // seconds drawn of an idle span
	var a axis
	at := s.Began()
	add := func(to time.Time, idle bool) {
		if !to.After(at) {
			return
		}
		drawn := to.Sub(at).Seconds()
		if idle {
			drawn = min(drawn, most)
		}
		a.spans = append(a.spans, span{from: at, to: to, idle: idle, at: a.total, drawn: drawn})
		a.total += drawn
		at = to
	}
	for _, b := range busy {
		add(b.from, true)
		add(b.to, false)
	}
	add(end, true)
	return a
}

func busySpans(s *record.Session, end time.Time) []span {
	var busy []span
	for _, p := range s.Steps {
		busy = append(busy, span{from: p.Started, to: stepEnd(p, end)})
		if e := p.Evaluation; e != nil && !e.Started.IsZero() {
			busy = append(busy, span{from: e.Started, to: e.Ended})
		}
	}
	return busy
}

// stepEnd returns the end of a step, or now while it runs.
func stepEnd(p *record.Step, now time.Time) time.Time {
	if p.Ended.IsZero() {
		return now
	}
	return p.Ended
}

func mergeSpans(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	var joined []span
	for _, next := range spans {
		if last := len(joined) - 1; last >= 0 && !next.from.After(joined[last].to) {
			if next.to.After(joined[last].to) {
				joined[last].to = next.to
			}
			continue
		}
		joined = append(joined, next)
	}
	return joined
}

// positionOf returns the position of a time as a fraction of the width.
func (a axis) positionOf(t time.Time) float64 {
	if a.total == 0 {
		return 0
	}
	i := sort.Search(len(a.spans), func(i int) bool { return t.Before(a.spans[i].to) })
	if i == len(a.spans) {
		return 1
	}
	s := a.spans[i]
	part := max(0, t.Sub(s.from).Seconds()/s.to.Sub(s.from).Seconds())
	return (s.at + part*s.drawn) / a.total
}

func (a axis) compressedSpans() []span {
	var found []span
	for _, s := range a.spans {
		if s.isCompressed() {
			found = append(found, s)
		}
	}
	return found
}

// roundTimes returns about six round times since the start, outside compressed spans and far enough
// apart to be read.
func (a axis) roundTimes(began time.Time) []time.Duration {
	const (
		most    = 6
		apart   = 0.07 // least distance of two, as a fraction of the width
		century = 100 * 365 * 24 * time.Hour
	)
	every := roundStep(a.total / most)
	var found []time.Duration
	last := -apart
	for _, s := range a.spans {
		if s.isCompressed() || s.to.Sub(began) > century { // a session without a start began in the year 1
			continue
		}
		first := s.from.Sub(began)
		for since := (first + every - 1).Truncate(every); since <= s.to.Sub(began); since += every {
			if at := a.positionOf(began.Add(since)); at-last >= apart {
				found, last = append(found, since), at
			}
		}
	}
	return found
}

// roundStep returns the shortest round duration of at least the given seconds.
func roundStep(seconds float64) time.Duration {
	const most = 1e9 // a duration holds 292 years
	least := time.Duration(min(seconds, most) * float64(time.Second))
	for _, step := range []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	} {
		if step >= least {
			return step
		}
	}
	const day = 24 * time.Hour
	return (least + day - 1).Truncate(day)
}
