package coordination

import (
	"slices"
	"strconv"
)

// may reports whether an action was open to the step.
func (l *Launch) may(action Action) bool { return slices.Contains(l.Offered, action) }

// within reports whether offered has all that was open to the step.
func (l *Launch) within(offered []Action) bool {
	return !slices.ContainsFunc(l.Offered, func(action Action) bool { return !slices.Contains(offered, action) })
}

// seen is what the step is shown at its launch, in byte order of the IDs.
func (l *Launch) seen() []Seen {
	seen := make([]Seen, 0, len(l.Shown))
	for _, shown := range l.Shown {
		at, _ := slices.BinarySearchFunc(seen, shown.Agent, byAgent)
		seen = slices.Insert(seen, at, Seen{Agent: shown.Agent, Step: shown.Step})
	}
	return seen
}

// heard is the last human message that the step is told at its launch.
func (l *Launch) heard() int {
	if len(l.Messages) == 0 {
		return 0
	}
	return l.Messages[len(l.Messages)-1].Number
}

// start mints the launch of a step of a.
func (s *State) start(a *Agent, l Launch) Launch {
	s.Launches++
	l.ID, l.Agent, l.Number, l.After = LaunchID("l"+strconv.Itoa(s.Launches)), a.ID, a.Number, a.Step
	l.Answers, l.Given = len(a.Answers), a.given()
	l.Messages = s.messagesFor(a)
	if len(s.Earlier) > 0 {
		previous := s.Earlier[len(s.Earlier)-1]
		l.Previous = &previous
	}
	a.Again, a.Retried, a.Rest = false, false, nil
	a.Run = &Run{Launch: l}
	return l.clone()
}

// resume launches the step that a has to go on with, under a new ID. What it
// was shown stays what it was: the journal it goes on from begins with that.
// What it may spend is settled anew: what it has spent is spent.
func (s *State) resume(a *Agent) Launch {
	l, token := a.Rest.Launch.clone(), a.Rest.Token
	s.Launches++
	l.ID, l.After, l.Allowance = LaunchID("l"+strconv.Itoa(s.Launches)), a.Step, Allowance{}
	if token != "" {
		l.ResumeFrom = token
	}
	a.Again, a.Retried, a.Rest = false, false, nil
	a.Run = &Run{Launch: l}
	return l.clone()
}

// messagesFor are the human messages that concern a.
func (s *State) messagesFor(a *Agent) []Message {
	var mine []Message
	for _, m := range s.Messages {
		if m.Agent == "" || m.Agent == a.ID {
			mine = append(mine, m)
		}
	}
	return mine
}

// updates is what may reach a step of a while it works. An agent's first answer
// is its own: until it has one, peers' answers do not reach it.
func (s *State) updates(a *Agent) Updates {
	c := s.Config
	switch {
	case c.Updates == NoUpdates || !a.answered():
		return Updates{}
	case c.DeferUpdates && !c.BeforeChecklist:
		return Updates{}
	}
	return Updates{Mode: c.Updates, Most: c.UpdatesPerStep, UntilChecklist: c.DeferUpdates}
}

func (l Launch) clone() Launch {
	l.Shown = slices.Clone(l.Shown)
	l.Messages = slices.Clone(l.Messages)
	l.Offered = slices.Clone(l.Offered)
	if l.Brief != nil {
		v := *l.Brief
		v.Reasons, v.Stops = slices.Clone(v.Reasons), slices.Clone(v.Stops)
		l.Brief = &v
	}
	if l.Final != nil {
		final := *l.Final
		l.Final = &final
	}
	if l.Previous != nil {
		previous := *l.Previous
		l.Previous = &previous
	}
	return l
}
