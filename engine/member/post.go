package member

import (
	"context"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
	"conclave/engine/team"
)

// post brings a running step what is new. The doorbell says that something is
// there; the texts are in the store.
type post struct {
	*opened
	mount func(context.Context, step.Peer) error
}

// look asks the doorbell. An agent's own answers are no news to it.
func (p post) look(ctx context.Context) (team.News, error) {
	bell, err := p.Bell(ctx)
	if err != nil {
		return team.News{}, fmt.Errorf("asking the doorbell: %w", err)
	}
	news := team.News{WrapUp: bell.Directive == step.WrapUp}
	for _, shown := range bell.Answers {
		if shown.Agent != p.Launch.Agent && bell.Earlier == p.earlier() {
			news.Arrivals = append(news.Arrivals, team.Arrival{Number: shown.Number, Label: shown.Label, Step: shown.Step})
		}
	}
	for _, message := range bell.Messages {
		if message.Agent == "" || message.Agent == p.Launch.Agent {
			news.Messages = append(news.Messages, message.Number)
		}
	}
	return news, nil
}

// earlier is how many attempts of the team came before the step's. The answers
// of those are no news: the doorbell may not have been rung since.
func (p post) earlier() int {
	if p.Launch.Previous == nil {
		return 0
	}
	return p.Launch.Previous.Number
}

// fetch reads answers that were given while the step ran, and puts their files
// where the files of earlier answers of their agents were.
func (p post) fetch(ctx context.Context, arrivals []team.Arrival) ([]team.Answer, error) {
	var answers []team.Answer
	for _, arrival := range arrivals {
		id, ok := p.id(arrival.Number)
		if !ok {
			return nil, fmt.Errorf("an answer %s of nobody: the team has %d agents", arrival.Label, len(p.numbers))
		}
		answer, peer, err := p.read(ctx, coordination.Shown{Agent: id, Number: arrival.Number, Label: arrival.Label, Step: arrival.Step})
		if err != nil {
			return nil, err
		}
		if err := p.mount(ctx, peer); err != nil {
			return nil, err
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// hear reads what people said while the step ran.
func (p post) hear(ctx context.Context, numbers []int) ([]team.Message, error) {
	return messages(ctx, p.store, p.Layout, numbers)
}

// messages reads the texts of messages, in the order of their numbers.
func messages(ctx context.Context, store artifact.Store, layout artifact.Layout, numbers []int) ([]team.Message, error) {
	stored, err := step.ReadMessages(ctx, store, layout, numbers)
	var list []team.Message
	for _, m := range stored {
		list = append(list, team.Message{Number: m.Number, Text: m.Text})
	}
	return list, err
}
