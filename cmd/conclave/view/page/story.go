package page

import (
	"fmt"
	"html/template"
	"slices"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
)

// storyTop is the top of the first lane of the story's drawing, in pixels.
const storyTop = 30

// sizes are the heights of the parts of a lane, in pixels.
type sizes struct{ lane, above, bar int } // above is the room above the bar; without room for a label it is beside its symbol

var (
	roomy   = sizes{lane: 40, above: 17, bar: 13}
	compact = sizes{lane: 14, above: 3, bar: 8}
)

// sizesFor returns lower lanes for a large team.
func sizesFor(agents int) sizes {
	if agents > manyAgents {
		return compact
	}
	return roomy
}

// story is the timeline of a session, with a lane for each agent and a bar for each step.
type story struct {
	Width  int // class of the least width
	Height int
	Bottom int // bottom of the lanes
	Lanes  []lane
	Bands  []band // pauses, waits and compressed times
	Notes  []note // messages and the decision
	Ticks  []tick
	Events []event
	Count  int // number of events, of which a page without room shows only some
}

// lane has the steps of one agent.
type lane struct {
	Agent   string
	Class   string // color
	Y       int    // y coordinate of the bars
	Text    int    // baseline of the agent's name
	Rail    int    // y coordinate of the middle of the bars
	Bars    []strip[bar]
	Marks   []strip[mark]
	Updates []strip[mark]
	Ties    []strip[tie]  // lines from votes to the answers that they name
	Going   []bar         // bars of running steps, which grow
	Gone    template.HTML // those bars, of an earlier drawing
}

// BarsID, MarksID and GoingID return the IDs of the groups in a lane.
func (l lane) BarsID() string  { return attributeID("bars", l.Agent) }
func (l lane) MarksID() string { return attributeID("marks", l.Agent) }
func (l lane) GoingID() string { return attributeID("going", l.Agent) }

type bar struct {
	Href, Title, Class string
	X, W               string
	Y, H               int
}

// mark is a symbol at the end of a step or at the arrival of an update.
type mark struct {
	Href, Title, Class string
	X                  string
	Y                  int
	Path               string // path of the symbol, around 0 0
	Label              string
	LabelX, LabelY     int    // position of the label
	Anchor             string // anchor of the label: start, middle or end
}

type tie struct {
	Class, X1, X2 string
	Y1, Y2        int
}

type band struct {
	Class, X, W, Text, Title string
}

type note struct {
	Class, X, Text, Title string
	Anchor                string
	Y                     int // y coordinate of its text
	Top, Bottom           int
}

type tick struct{ X, Text, Anchor string }

// event is a line in the timeline's list.
type event struct {
	ID    string
	Time  time.Time
	Clock string
	Text  string
	Note  string        // the reason or the message
	Drawn template.HTML // HTML of an earlier drawing
}

// storyOf draws the timeline up to now. For an ended session now is its end.
func storyOf(s *record.Session, now time.Time) story {
	end := s.Ended()
	if s.Running() && !now.IsZero() {
		end = scaleEnd(s.Began(), now)
	}
	for _, p := range s.Steps {
		if p.Ended.After(end) {
			end = p.Ended
		}
	}
	d := &drawing{s: s, axis: newAxis(s, end), end: end, now: end, ends: map[string]point{}, sizes: sizesFor(len(s.Agents))}
	if s.Running() && !now.IsZero() && now.Before(end) {
		d.now = now
	}
	for i, a := range s.Agents {
		d.drawLane(i, a)
	}
	d.story.Bottom = storyTop + len(s.Agents)*d.lane
	d.drawTies()
	d.drawBands()
	d.story.Height = d.story.Bottom + 22
	if len(d.story.Bands) > 0 {
		d.story.Height += 16 // the bands have names, too
	}
	d.drawNotes()
	d.drawTicks()
	d.story.Width = widthClass(s)
	d.story.Events = eventsOf(s)
	d.story.Count = len(d.story.Events)
	return d.story
}

// scaleEnd returns a time after now that stays the same for a while, so that the drawing of a
// running session keeps its scale until it is full.
func scaleEnd(began, now time.Time) time.Time {
	const most = 365 * 24 * time.Hour // beyond this, or without a beginning, the scale follows the clock
	took, room := now.Sub(began), 10*time.Second
	if took > most {
		return now
	}
	for room < took {
		room += room / 4
	}
	return began.Add(room)
}

// widthClass returns the number of the CSS class for the drawing's width, which grows with the
// number of steps in a lane. A drawing that is too wide scrolls.
func widthClass(s *record.Session) int {
	const perClass = 14
	most := 0
	for _, a := range s.Agents {
		most = max(most, len(a.Steps))
	}
	return min(1+most/perClass, 12)
}

type point struct {
	x string
	y int
}

// drawing is a timeline being drawn.
type drawing struct {
	sizes
	s     *record.Session
	axis  axis
	end   time.Time // end of the axis
	now   time.Time
	story story
	ends  map[string]point // ends of answers, by label
}

func (d *drawing) percentAt(t time.Time) string { return cssPercent(d.axis.positionOf(t)) }

func (d *drawing) drawTies() {
	for i, a := range d.s.Agents {
		y := storyTop + i*d.lane + d.above + d.bar/2
		var ties []tie
		for _, p := range a.Steps {
			if p.Vote == nil {
				continue
			}
			to, known := d.ends[p.Vote.TargetLabel]
			if !known {
				continue
			}
			class := "tie"
			switch {
			case p.Vote.Stale != nil:
				class = "tie stale"
			case !p.Vote.Stands:
				class = "tie past"
			}
			ties = append(ties, tie{Class: class, X1: d.percentAt(p.Ended), Y1: y, X2: to.x, Y2: to.y})
		}
		d.story.Lanes[i].Ties = stripsOf("ties", a.ID, ties)
	}
}

// drawBands draws pauses, waits for models, and compressed times.
func (d *drawing) drawBands() {
	var named []span // bands with a text, over which no other is written
	add := func(class, text, title string, from, to time.Time) {
		if slices.ContainsFunc(named, func(s span) bool { return from.Before(s.to) && s.from.Before(to) }) {
			text = ""
		}
		named = append(named, span{from: from, to: to})
		x, end := d.axis.positionOf(from), d.axis.positionOf(to)
		d.story.Bands = append(d.story.Bands, band{Class: class, X: cssPercent(x), W: cssPercent(end - x), Text: text, Title: title})
	}
	for i, e := range d.s.Events {
		switch e.Kind {
		case coordination.EntryPaused:
			until := d.nextEventTime(i, coordination.EntryResumed, coordination.EntryDecided, coordination.EntryCancelled)
			add("pause", "paused "+formatDuration(until.Sub(e.Time)), "paused for "+formatDuration(until.Sub(e.Time)), e.Time, until)
		case coordination.EntryWaiting:
			until := d.nextEventTime(i, coordination.EntryRound, coordination.EntryRetried, coordination.EntryDecided, coordination.EntryCancelled)
			add("wait", "waiting", cleanLine(e.Text), e.Time, until)
		}
	}
	for _, c := range d.axis.compressedSpans() {
		long := formatDuration(c.to.Sub(c.from))
		text, title := "idle "+long, "nothing ran for "+long
		if c.to.After(d.now) {
			text, title = "idle", "nothing has run since then"
		}
		add("gap", text, title, c.from, c.to)
	}
}

// nextEventTime returns the time of the next event of the given kinds after event i, or the end.
func (d *drawing) nextEventTime(i int, kinds ...string) time.Time {
	for _, e := range d.s.Events[i+1:] {
		if slices.Contains(kinds, e.Kind) {
			return e.Time
		}
	}
	return d.now
}

// drawNotes draws the messages of people and the decision across the lanes.
func (d *drawing) drawNotes() {
	for _, m := range d.s.Messages {
		at := d.axis.positionOf(m.SaidAt)
		n := note{
			Class: "said", X: cssPercent(at), Text: "“" + briefLine(m.Text, 40) + "”", Title: "a person: " + briefLine(m.Text, 200),
			Anchor: sideOf(at), Y: 24, Top: 28, Bottom: d.story.Bottom,
		}
		if i := slices.IndexFunc(d.s.Agents, func(a *record.Agent) bool { return a.ID == m.Agent }); i >= 0 {
			n.Top = storyTop + i*d.lane
			n.Bottom = n.Top + d.lane
		}
		d.story.Notes = append(d.story.Notes, n)
	}
	for _, e := range d.s.Events {
		switch e.Kind {
		case coordination.EntryDecided, coordination.EntryCancelled, coordination.EntryReopened:
			d.story.Notes = append(d.story.Notes, note{
				Class: "decided", X: d.percentAt(e.Time), Text: cleanLine(e.Text), Title: cleanLine(e.Text), Anchor: sideOf(d.axis.positionOf(e.Time)),
				Y: d.story.Height - 6, Top: storyTop - 6, Bottom: d.story.Height - 18,
			})
		}
	}
}

// sideOf returns the text anchor that makes a long text extend away from the nearer edge.
func sideOf(at float64) string {
	if at < 0.5 {
		return "start"
	}
	return "end"
}

func (d *drawing) drawTicks() {
	began := d.s.Began()
	for _, since := range d.axis.roundTimes(began) {
		share := d.axis.positionOf(began.Add(since))
		d.story.Ticks = append(d.story.Ticks, tick{X: cssPercent(share), Text: formatMoment(since, d.axis.total), Anchor: anchorAt(share)})
	}
}

// formatMoment formats a time since the start, with tenths of a second if the drawing has few seconds.
func formatMoment(since time.Duration, drawn float64) string {
	if drawn < 10 && since < time.Minute {
		return fmt.Sprintf("%.1f s", since.Seconds())
	}
	return cli.Clock(since)
}
