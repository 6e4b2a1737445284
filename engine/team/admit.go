package team

import (
	"cmp"
	"slices"
	"time"
)

// terms say what may reach a step while it works.
type terms struct {
	Updates

	// Closing is a step that cannot answer: told of a new answer, all it could do
	// is endorse what it has hardly looked at.
	Closing bool

	Soft, Grace time.Duration
}

// standing is how far the step has come, as far as that matters here.
type standing struct {
	Shown    map[int]string // label of the newest answer shown, by agent number
	Heard    map[int]bool   // messages, by number
	Injected int            // sources that the step was told of
	Worked   time.Duration
	Guided   bool // told to come to an end
	Checked  bool // a checklist was accepted
}

// admission is what of the news reaches the step at this safe point.
type admission struct {
	Answers  []Arrival // in the order of the agents
	Messages []int     // in their order
	Restart  bool      // the step is to end and to begin again with the new answers
}

// admit decides what of the news reaches a step. It keeps nothing for later:
// what is not admitted now is news again at the next safe point, or is shown to
// the agent's next step.
func admit(t terms, s standing, n News) admission {
	a := admission{Messages: unheard(s, n)}
	arrived := unseen(s, n)
	switch {
	case len(arrived) == 0 || t.Mode == NoUpdates:
	case t.UntilChecklist && s.Checked:
	case s.Guided || n.WrapUp || t.Soft > 0 && t.Soft-s.Worked < t.Grace:
		// Too late to make anything of it.
	case t.Mode == Restart || t.Closing:
		a.Restart = true
	default:
		a.Answers = newest(arrived, t.Most, s.Injected)
	}
	return a
}

// unseen are the arrivals that are newer than what was shown, one of each agent,
// in the order in which they are given.
func unseen(s standing, n News) []Arrival {
	var arrived []Arrival
	for _, a := range n.Arrivals {
		if revision(a.Number, a.Label) <= revision(a.Number, s.Shown[a.Number]) {
			continue
		}
		i := slices.IndexFunc(arrived, func(b Arrival) bool { return b.Number == a.Number })
		switch {
		case i < 0:
			arrived = append(arrived, a)
		case revision(a.Number, a.Label) > revision(a.Number, arrived[i].Label):
			arrived[i] = a
		}
	}
	return arrived
}

// newest takes what the step may still be told of: the most revised answers
// first, and among equals those given last. Answers carry no time, and the one
// that went through more revisions is likely to be the younger one.
func newest(arrived []Arrival, most, injected int) []Arrival {
	slices.Reverse(arrived)
	slices.SortStableFunc(arrived, func(a, b Arrival) int {
		return cmp.Compare(revision(b.Number, b.Label), revision(a.Number, a.Label))
	})
	if most > 0 {
		arrived = arrived[:min(len(arrived), max(0, most-injected))]
	}
	slices.SortFunc(arrived, func(a, b Arrival) int { return cmp.Compare(a.Number, b.Number) })
	return arrived
}

func unheard(s standing, n News) []int {
	var numbers []int
	for _, number := range slices.Sorted(slices.Values(n.Messages)) {
		if !s.Heard[number] && !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	return numbers
}
