package team

import (
	"context"
	"fmt"
	"slices"
)

// recall finds the answers that a note names: among those of the task and those
// fetched before, or else where they lie.
func (r *Rules) recall(ctx context.Context, notes []answerNote) ([]Answer, error) {
	answers := make([]Answer, 0, len(notes))
	var missing []Arrival
	for _, n := range notes {
		a := Answer{Number: n.Number, Label: n.Label, Step: n.Step}
		if at := slices.IndexFunc(r.texts, func(b Answer) bool { return a.arrival() == b.arrival() }); at >= 0 {
			a = r.texts[at]
		} else {
			missing = append(missing, a.arrival())
		}
		answers = append(answers, a)
	}
	fetched, err := r.fetch(ctx, missing)
	if err != nil {
		return nil, err
	}
	for _, a := range fetched {
		at := slices.IndexFunc(answers, func(b Answer) bool { return a.arrival() == b.arrival() })
		answers[at] = a
	}
	return answers, nil
}

// fetch gets the texts of arrivals, one answer for each, in their order.
func (r *Rules) fetch(ctx context.Context, arrivals []Arrival) ([]Answer, error) {
	if len(arrivals) == 0 {
		return nil, nil
	}
	if r.task.Fetch == nil {
		return nil, fmt.Errorf("there is no way to fetch %s", arrivals[0].Label)
	}
	answers, err := r.task.Fetch(ctx, arrivals)
	if err != nil {
		return nil, fmt.Errorf("fetching %d new answers: %w", len(arrivals), err)
	}
	for i, a := range arrivals {
		if i >= len(answers) || answers[i].arrival() != a {
			return nil, fmt.Errorf("fetching %d new answers: %s did not come, or not in its place", len(arrivals), a.Label)
		}
	}
	r.texts = append(r.texts, answers...)
	return answers, nil
}
