package export

import (
	"encoding/json"
	"io"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// The lines of the plain format.
type (
	sessionLine struct {
		Type    string     `json:"type"` // always session
		Session string     `json:"session_id"`
		Query   string     `json:"query"`
		Status  string     `json:"status"`
		Winner  string     `json:"winner"`
		Label   string     `json:"winner_label"`
		Cost    llm.Usage  `json:"cost"`
		Created time.Time  `json:"created_at"`
		Ended   *time.Time `json:"ended_at"`
	}
	eventLine struct {
		Type string `json:"type"` // always event
		coordination.Entry
	}
	stepLine struct {
		Type    string          `json:"type"` // always step
		Agent   string          `json:"agent"`
		Step    int             `json:"step"`
		Action  string          `json:"action"`
		Counted bool            `json:"accepted"`
		Label   string          `json:"label"` // label of the answer, or of the vote's target
		Text    string          `json:"text"`  // the answer, or the reason
		Stale   bool            `json:"stale"`
		Started time.Time       `json:"started_at"`
		Ended   *time.Time      `json:"ended_at"`
		Cost    llm.Usage       `json:"cost"`
		Error   *artifact.Error `json:"error"`
	}
	entryLine struct {
		Type  string    `json:"type"` // always entry
		Agent string    `json:"agent"`
		Step  int       `json:"step"`
		Time  time.Time `json:"time"`
		loop.Entry
	}
)

// writeLines writes a session as JSON lines: the session, its events, and each step
// followed by the entries of its transcript.
func writeLines(w io.Writer, r recorded) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	first := sessionLine{
		Type: "session", Session: r.ID, Query: r.Query, Status: r.State.Status, Winner: r.State.Winner, Cost: r.State.Cost, Created: r.Began(),
	}
	if f := r.Final(); f != nil && f.Answer != nil {
		first.Label = f.Answer.Label
	}
	if !r.Running() {
		first.Ended = timeOrNil(r.Ended())
	}
	if err := encoder.Encode(first); err != nil {
		return err
	}
	for _, e := range r.Events {
		if err := encoder.Encode(eventLine{"event", e}); err != nil {
			return err
		}
	}
	for _, p := range r.Steps {
		one := stepLine{
			Type: "step", Agent: p.Agent, Step: p.Number, Action: p.Action, Counted: p.Accepted, Label: label(p), Started: p.Started,
			Ended: timeOrNil(p.Ended), Cost: p.Usage, Error: p.Error,
		}
		switch {
		case p.Answer != nil:
			one.Text = p.Answer.Text
		case p.Vote != nil:
			one.Text, one.Stale = p.Vote.Reason, p.Vote.Stale != nil
		case p.Stop != nil:
			one.Text = p.Stop.Summary
		}
		if err := encoder.Encode(one); err != nil {
			return err
		}
		for _, l := range r.transcripts[p].Lines {
			if err := encoder.Encode(entryLine{"entry", p.Agent, p.Number, l.Time, l.Entry}); err != nil {
				return err
			}
		}
	}
	return nil
}

// timeOrNil returns nil for an unknown time.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
