package page

import (
	"slices"
	"sort"
	"time"

	"conclave/cmd/conclave/record"
)

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

// compressed reports whether a span is drawn at less than half of its length.
func (s span) compressed() bool { return s.idle && s.to.Sub(s.from).Seconds() > 2*s.drawn }

// newAxis returns an axis from the start of the session to its end, or to now while it runs.
func newAxis(s *record.Session, end time.Time) axis {
	busy := merged(busySpans(s, end))
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

// busySpans returns the times of the steps and evaluations.
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

// merged joins overlapping spans.
func merged(spans []span) []span {
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

// at returns the position of a time as a fraction of the width.
func (a axis) at(t time.Time) float64 {
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

// compressed returns the idle spans drawn at less than half of their length.
func (a axis) compressed() []span {
	var found []span
	for _, s := range a.spans {
		if s.compressed() {
			found = append(found, s)
		}
	}
	return found
}

// round returns about six round times since the start, outside compressed spans and far enough
// apart to be read.
func (a axis) round(began time.Time) []time.Duration {
	const (
		most    = 6
		apart   = 0.07 // least distance of two, as a fraction of the width
		century = 100 * 365 * 24 * time.Hour
	)
	every := roundStep(a.total / most)
	var found []time.Duration
	last := -apart
	for _, s := range a.spans {
		if s.compressed() || s.to.Sub(began) > century { // a session without a start began in the year 1
			continue
		}
		first := s.from.Sub(began)
		for since := (first + every - 1).Truncate(every); since <= s.to.Sub(began); since += every {
			if at := a.at(began.Add(since)); at-last >= apart {
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
