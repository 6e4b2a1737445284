package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	"conclave/engine/step"
)

// Commit is the committed payload of a segment.
type Commit struct {
	Payload

	// Messages is the SHA-256 of the blob with the conversation of a step that
	// called another one.
	Messages string `json:"messages,omitempty"`

	// Iterations is how many model calls the step has made, in all its segments.
	Iterations int `json:"iterations"`
}

// ReadCommit reads what a segment committed.
func ReadCommit(ctx context.Context, store artifact.Store, layout artifact.Layout, ref pipeline.Ref) (Commit, error) {
	c, err := artifact.ReadJSON[artifact.Commit](ctx, store, layout.Segment(ref.Number, ref.Step, "action.json"))
	if err != nil {
		return Commit{}, err
	}
	return payload(c)
}

func payload(c artifact.Commit) (Commit, error) {
	var p Commit
	if err := json.Unmarshal(c.Payload, &p); err != nil {
		return Commit{}, fmt.Errorf("reading a committed %s: %w", c.Kind, err)
	}
	return p, nil
}

// seal makes of an accepted action what is committed. The conversation of a
// caller is stored before that, by its content: it is never changed.
func (o *opened) seal(ctx context.Context) func(loop.Action) (step.Sealed, error) {
	return func(a loop.Action) (step.Sealed, error) {
		var c Commit
		if err := json.Unmarshal(a.Payload, &c.Payload); err != nil {
			return step.Sealed{}, err
		}
		c.Iterations = o.rules.Iterations()
		if a.Kind == KindCall {
			data, err := json.Marshal(caller{Messages: o.rules.Messages(), Heard: o.rules.Heard()})
			if err != nil {
				return step.Sealed{}, fmt.Errorf("writing the conversation of the caller: %w", err)
			}
			if c.Messages, err = artifact.PutBlob(ctx, o.store, o.Layout, data); err != nil {
				return step.Sealed{}, fmt.Errorf("keeping the conversation of the caller: %w", err)
			}
		}
		sealed, err := json.Marshal(c)
		return step.Sealed{Payload: sealed, Workspace: true}, err
	}
}

// Outcome is a commit in the terms of the machine.
type Outcome struct {
	Status     pipeline.Status
	Action     pipeline.Action
	To         string
	Messages   string
	Iterations int
	Text       string
	Heard      int
}

// ReadOutcome translates a commit.
func ReadOutcome(c artifact.Commit) (Outcome, error) {
	p, err := payload(c)
	if err != nil {
		return Outcome{}, err
	}
	o := Outcome{To: p.To, Messages: p.Messages, Iterations: p.Iterations, Text: p.Text, Heard: c.Heard}
	switch c.Kind {
	case KindCompleted:
		o.Status = pipeline.Completed
	case KindMaxIterations:
		o.Status = pipeline.MaxIterations
	case KindJump:
		o.Status, o.Action = pipeline.Completed, pipeline.Jump
	case KindCall:
		o.Status, o.Action = pipeline.CallPending, pipeline.Call
	default:
		return Outcome{}, fmt.Errorf("a committed action of the unknown kind %q", c.Kind)
	}
	return o, nil
}
