package team

import (
	"context"
	"fmt"

	"conclave/engine/coordination"
	"conclave/engine/step"
)

// doorbell is the inbox of a running step: the bell announces news, and the store has
// the texts.
type doorbell struct {
	*opening
	mount func(context.Context, step.Peer) error
}

var _ inbox = doorbell{}

// news reads the bell. It leaves out the agent's own answers and, until the bell is
// rung in the present attempt of the team, those of earlier attempts.
func (d doorbell) news(ctx context.Context) (news, error) {
	bell, err := d.Bell(ctx)
	if err != nil {
		return news{}, fmt.Errorf("reading the doorbell: %w", err)
	}
	earlier := 0
	if d.Launch.Previous != nil {
		earlier = d.Launch.Previous.Number
	}
	n := news{WrapUp: bell.Directive == coordination.WrapUp}
	for _, a := range bell.Answers {
		if a.Agent != d.Launch.Agent && bell.Earlier == earlier {
			n.Arrivals = append(n.Arrivals, arrival{Number: a.Number, Label: a.Label, Step: a.Step, Seq: a.Seq})
		}
	}
	for _, m := range bell.Messages {
		if m.Agent == "" || m.Agent == d.Launch.Agent {
			n.Messages = append(n.Messages, m.Number)
		}
	}
	return n, nil
}

// fetch reads answers and mounts their files in place of their agents' older ones.
func (d doorbell) fetch(ctx context.Context, arrivals []arrival) ([]answer, error) {
	var answers []answer
	for _, arrived := range arrivals {
		id, ok := d.id(arrived.Number)
		if !ok {
			return nil, fmt.Errorf("answer %s has no author: the team has %d agents", arrived.Label, len(d.numbers))
		}
		a, peer, err := d.read(ctx, coordination.Shown{Agent: id, Number: arrived.Number, Label: arrived.Label, Step: arrived.Step})
		if err != nil {
			return nil, err
		}
		if err := d.mount(ctx, peer); err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}
