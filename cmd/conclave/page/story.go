package page

import (
	"html/template"
	"time"

	"conclave/cmd/conclave/record"
)

// The sizes of the story's drawing, in pixels.
const (
	storyTop   = 46 // top of the first lane
	laneHeight = 46
	barHeight  = 14
)

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
	Bars    []strip[bar]
	Marks   []strip[mark]
	Updates []strip[mark]
	Ties    []strip[tie]  // lines from votes to the answers that they name
	Going   []bar         // bars of running steps, which grow
	Gone    template.HTML // those bars, of an earlier drawing
}

// BarsID, MarksID and GoingID return the IDs of the groups in a lane.
func (l lane) BarsID() string  { return slug("bars", l.Agent) }
func (l lane) MarksID() string { return slug("marks", l.Agent) }
func (l lane) GoingID() string { return slug("going", l.Agent) }

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
		end = ahead(s.Began(), now)
	}
	for _, p := range s.Steps {
		if p.Ended.After(end) {
			end = p.Ended
		}
	}
	d := &drawing{s: s, axis: newAxis(s, end), end: end, now: end, ends: map[string]point{}}
	if s.Running() && !now.IsZero() && now.Before(end) {
		d.now = now
	}
	for i, a := range s.Agents {
		d.lane(i, a)
	}
	d.story.Bottom = storyTop + len(s.Agents)*laneHeight
	d.story.Height = d.story.Bottom + 24
	d.ties()
	d.bands()
	d.notes()
	d.ticks()
	d.story.Width = widthClass(s)
	d.story.Events = eventsOf(s)
	d.story.Count = len(d.story.Events)
	return d.story
}

// ahead returns a time after now that stays the same for a while, so that the drawing of a
// running session keeps its scale until it is full.
func ahead(began, now time.Time) time.Time {
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
	s     *record.Session
	axis  axis
	end   time.Time // end of the axis
	now   time.Time
	story story
	ends  map[string]point // ends of answers, by label
}

func (d *drawing) x(t time.Time) string { return percent(d.axis.at(t)) }
