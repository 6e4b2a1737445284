package page

import (
	"fmt"
	"slices"
	"time"

	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/record"
	"conclave/engine/coordination"
)

func eventHref(e coordination.Entry) string { return fmt.Sprintf("#event-%d", e.Seq) }

// eventsOf returns the events as a list of sentences. For a directory without events it
// returns the ends of its steps.
func eventsOf(s *record.Session) []event {
	var list []event
	began := s.Began()
	clock := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return progress.Clock(t.Sub(began))
	}
	for _, e := range s.Events {
		list = append(list, event{
			ID: fmt.Sprintf("event-%d", e.Seq), Time: e.Time, Clock: clock(e.Time), Text: clean(e.Text), Note: brief(e.Reason, maxQuote),
		})
	}
	if len(s.Events) > 0 {
		return list
	}
	for _, p := range s.Steps {
		list = append(list, event{
			ID: "event-" + stepID(p), Time: p.Ended, Clock: clock(p.Ended),
			Text: fmt.Sprintf("%s, step %03d: %s", p.Agent, p.Number, actionWords(p)),
		})
	}
	slices.SortStableFunc(list, func(a, b event) int { return a.Time.Compare(b.Time) })
	return list
}

// stepID returns the ID of a step's part of the page.
func stepID(p *record.Step) string { return slug("step", p.Agent, fmt.Sprintf("%03d", p.Number)) }
