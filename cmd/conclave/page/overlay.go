package page

import (
	"fmt"
	"slices"
	"time"

	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/record"
	"conclave/engine/coordination"
)

// ties draws lines from votes to the answers that they name.
func (d *drawing) ties() {
	for i, a := range d.s.Agents {
		y := storyTop + i*laneHeight + 22 + barHeight/2
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
			case !p.Vote.Replaced.IsZero():
				class = "tie past"
			}
			ties = append(ties, tie{Class: class, X1: d.x(p.Ended), Y1: y, X2: to.x, Y2: to.y})
		}
		d.story.Lanes[i].Ties = stripsOf("ties", a.ID, ties)
	}
}

// bands draws pauses, waits for models, and compressed times.
func (d *drawing) bands() {
	add := func(class, text, title string, from, to time.Time) {
		x, end := d.axis.at(from), d.axis.at(to)
		d.story.Bands = append(d.story.Bands, band{Class: class, X: percent(x), W: percent(end - x), Text: text, Title: title})
	}
	for i, e := range d.s.Events {
		switch e.Kind {
		case coordination.EntryPaused:
			until := d.until(i, coordination.EntryResumed, coordination.EntryDecided, coordination.EntryCancelled)
			add("pause", "paused "+seconds(until.Sub(e.Time)), "paused for "+seconds(until.Sub(e.Time)), e.Time, until)
		case coordination.EntryWaiting:
			until := d.until(i, coordination.EntryRound, coordination.EntryRetried, coordination.EntryDecided, coordination.EntryCancelled)
			add("wait", "waiting", line(e.Text), e.Time, until)
		}
	}
	for _, c := range d.axis.compressed() {
		add("gap", "⫽ "+seconds(c.to.Sub(c.from)), "nothing ran for "+seconds(c.to.Sub(c.from)), c.from, c.to)
	}
}

// until returns the time of the next event of the given kinds after event i, or the end.
func (d *drawing) until(i int, kinds ...string) time.Time {
	for _, e := range d.s.Events[i+1:] {
		if slices.Contains(kinds, e.Kind) {
			return e.Time
		}
	}
	return d.now
}

// notes draws the messages of people and the decision across the lanes.
func (d *drawing) notes() {
	for _, m := range d.s.Messages {
		at := d.axis.at(m.SaidAt)
		n := note{
			Class: "said", X: percent(at), Text: "“" + brief(m.Text, 40) + "”", Title: "a person: " + brief(m.Text, 200),
			Anchor: sideOf(at), Y: 26, Top: 30, Bottom: d.story.Bottom,
		}
		if i := slices.IndexFunc(d.s.Agents, func(a *record.Agent) bool { return a.ID == m.Agent }); i >= 0 {
			n.Top = storyTop + i*laneHeight
			n.Bottom = n.Top + laneHeight
		}
		d.story.Notes = append(d.story.Notes, n)
	}
	for _, e := range d.s.Events {
		switch e.Kind {
		case coordination.EntryDecided, coordination.EntryCancelled, coordination.EntryReopened:
			d.story.Notes = append(d.story.Notes, note{
				Class: "decided", X: d.x(e.Time), Text: line(e.Text), Title: line(e.Text), Anchor: sideOf(d.axis.at(e.Time)),
				Y: d.story.Bottom + 16, Top: storyTop - 6, Bottom: d.story.Bottom + 2,
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

// ticks marks round times since the start.
func (d *drawing) ticks() {
	began := d.s.Began()
	for _, since := range d.axis.round(began) {
		share := d.axis.at(began.Add(since))
		d.story.Ticks = append(d.story.Ticks, tick{X: percent(share), Text: moment(since, d.end.Sub(began)), Anchor: anchorAt(share)})
	}
}

// moment formats a time since the start, with tenths of a second in a short session.
func moment(since, whole time.Duration) string {
	if whole < 10*time.Second {
		return fmt.Sprintf("%.1f s", since.Seconds())
	}
	return progress.Clock(since)
}
