package team

import (
	"encoding/json"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/engine/team/evaluator"
	"conclave/engine/text"
)

// Answer is the committed payload of a new_answer.
type Answer struct {
	Answer string `json:"answer"`
	Label  string `json:"label"`
}

// sealedVote is the committed payload of a vote, by agent ID.
type sealedVote struct {
	Target      string `json:"target"`
	TargetLabel string `json:"target_label"`
	Reason      string `json:"reason"`

	Confidence *float64 `json:"confidence,omitempty"` // confidence from 0 to 1
}

// stop is the committed payload of a stop.
type stop struct {
	Status  coordination.StopStatus `json:"status"`
	Summary string                  `json:"summary"`
}

// restart is the committed payload of a restart_orchestration.
type restart struct {
	Reason       string `json:"reason"`
	Instructions string `json:"instructions"`
}

// seal builds the commit payload of an accepted action. It replaces anonymous numbers with
// agent IDs; stops, submissions and restarts name no agent.
func (o *opening) seal(a loop.Action) (step.Sealed, error) {
	sealed, err := o.sealed(a)
	if err == nil && o.rules != nil {
		sealed.Payload, err = o.rules.withChecked(sealed.Payload)
	}
	return sealed, err
}

// sealed is seal without the step's checklists.
func (o *opening) sealed(a loop.Action) (step.Sealed, error) {
	switch coordination.Action(a.Kind) {
	case coordination.NewAnswer:
		accepted, err := decode[proposal](a.Kind, a.Payload)
		payload := marshal(Answer{Answer: accepted.Content, Label: o.nextLabel()})
		return step.Sealed{Payload: payload, Workspace: true, Otherwise: o.inherited()}, err
	case coordination.Vote:
		accepted, err := decode[ballot](a.Kind, a.Payload)
		if err != nil {
			return step.Sealed{}, err
		}
		target, ok := o.id(accepted.Number)
		if seen, _ := o.witnessed(); !ok || seen[target] == 0 {
			return step.Sealed{}, fmt.Errorf("a vote for agent%d, whose answer was not shown", accepted.Number)
		}
		return step.Sealed{Payload: marshal(sealedVote{Target: target, TargetLabel: accepted.Label, Reason: accepted.Reason, Confidence: accepted.Confidence})}, nil
	case coordination.Stop, coordination.Submit, coordination.RestartTeam, coordination.SubmitEvaluation:
		return step.Sealed{Payload: a.Payload}, nil
	default:
		return step.Sealed{}, fmt.Errorf("a step of a session cannot end with %q", a.Kind)
	}
}

// inherited returns the manifest for a presented answer without files of its own: the
// manifest of the winning answer. It is empty for divided work and if there is no winner.
func (o *opening) inherited() string {
	l := o.Launch
	if l.Purpose != coordination.Present || l.Brief == nil || o.divided() {
		return ""
	}
	for _, shown := range l.Shown {
		if i := o.mounted(shown.Number); i >= 0 && shown.Label == l.Brief.Label {
			return o.peers[i].Manifest
		}
	}
	return ""
}

// nextLabel returns the label of a new answer: agent<N>.final for a presenter, and otherwise
// one revision above the agent's last answer, which may be from an earlier attempt and not
// shown.
func (m Step) nextLabel() string {
	if m.Launch.Purpose == coordination.Present {
		return coordination.FinalLabel(m.Launch.Number)
	}
	last := m.Launch.Answers
	for _, shown := range m.Launch.Shown {
		if shown.Number == m.Launch.Number {
			last = max(last, revision(shown.Number, shown.Label))
		}
	}
	return coordination.Label(m.Launch.Number, last+1)
}

// MaxReason bounds, in bytes, a reason or a summary outside the step's files.
const MaxReason = 280

// Outcome describes how a step ended, in terms of coordination. It is read from the step's
// commit.
type Outcome struct {
	Action      coordination.Action     `json:"action,omitempty"`
	Target      string                  `json:"target,omitempty"`
	TargetLabel string                  `json:"target_label,omitempty"`
	Reason      string                  `json:"reason,omitempty"` // reason of a vote or a restart, truncated to MaxReason
	Status      coordination.StopStatus `json:"status,omitempty"`
	Summary     string                  `json:"summary,omitempty"` // summary of a stop, truncated to MaxReason
	Seen        []coordination.Seen     `json:"seen,omitempty"`
	Heard       int                     `json:"heard,omitempty"`      // number of the last human message shown
	Digest      coordination.Digest     `json:"digest,omitzero"`      // digest of an answer
	Confidence  *float64                `json:"confidence,omitempty"` // confidence of a vote

	// Critique is the evaluation of an answer, without its step; it is nil for other actions.
	Critique *coordination.Critique `json:"critique,omitempty"`
}

// ReadOutcome converts a commit to an Outcome.
func ReadOutcome(c artifact.Commit) (Outcome, error) {
	o := Outcome{Action: coordination.Action(c.Kind), Heard: c.Heard, Seen: coordination.SeenOf(c.SeenSteps)}
	var err error
	switch o.Action {
	case coordination.NewAnswer:
		var a Answer
		a, err = decode[Answer](c.Kind, c.Payload)
		o.Digest = digestOf(a.Answer, c.Manifest)
	case coordination.Submit:
	case coordination.SubmitEvaluation:
		var s evaluator.Submission
		s, err = decode[evaluator.Submission](c.Kind, c.Payload)
		o.Critique = &coordination.Critique{
			Verdict: s.Rating.Verdict, Scores: s.Rating.RoundScores(), Ceiling: s.Ceiling, Tasks: s.Tasks != nil,
		}
	case coordination.Vote:
		var v sealedVote
		v, err = decode[sealedVote](c.Kind, c.Payload)
		o.Target, o.TargetLabel, o.Reason = v.Target, v.TargetLabel, text.Truncate(v.Reason, MaxReason)
		o.Confidence = v.Confidence
	case coordination.Stop:
		var s stop
		s, err = decode[stop](c.Kind, c.Payload)
		o.Status, o.Summary = s.Status, text.Truncate(s.Summary, MaxReason)
	case coordination.RestartTeam:
		var r restart
		r, err = decode[restart](c.Kind, c.Payload)
		o.Reason = text.Truncate(r.Reason, MaxReason)
	default:
		err = fmt.Errorf("a committed action of the unknown kind %q", c.Kind)
	}
	return o, err
}

// decode reads the payload of an action.
func decode[T any](kind string, payload json.RawMessage) (T, error) {
	var p T
	if err := json.Unmarshal(payload, &p); err != nil {
		return p, fmt.Errorf("reading the payload of a %s: %w", kind, err)
	}
	return p, nil
}
