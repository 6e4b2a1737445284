package pipeline

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/llm"
)

// Every run ends within its limits. Its stack is empty unless it ended with an error or was
// cancelled.
func TestEveryRunEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t)
		s := New(g)
		launches := 0
		for !s.Done() {
			var launch *Launch
			for _, c := range s.Drain() {
				if l, ok := c.(Launch); ok {
					launch = &l
				}
			}
			require.NotNil(t, launch, "a run that has neither ended nor a launch")
			launches++
			for step, spent := range s.Spent {
				if n := g.findNode(step); n.MaxVisits > 0 {
					require.LessOrEqual(t, spent.Visits, max(1, n.MaxVisits))
				}
			}
			require.LessOrEqual(t, len(s.Stack), g.MaxDepth)
			require.Less(t, launch.Used, launch.Most, "a launched step has a model call left")
			s.Step(randomEnd(t, g, *launch))
		}
		require.LessOrEqual(t, s.Transitions, g.MaxTransitions)
		require.LessOrEqual(t, launches, g.MaxTransitions+1)
		if st := s.Result.Status; st != Failed && st != Cancelled {
			require.Empty(t, s.Stack)
		}
		commands := s.Drain()
		require.Equal(t, Done{Result: *s.Result}, commands[len(commands)-1])
		require.Empty(t, s.Drain())
	})
}

func randomGraph(t *rapid.T) Graph {
	n := rapid.IntRange(1, 5).Draw(t, "steps")
	name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("s", rapid.IntRange(0, n-1).Draw(t, "step")) })
	g := Graph{
		Start:          name.Draw(t, "start"),
		MaxTransitions: rapid.IntRange(0, 30).Draw(t, "transitions"),
		MaxDepth:       rapid.IntRange(0, 4).Draw(t, "depth"),
		CostUSD:        rapid.SampledFrom([]float64{0, 0, 1}).Draw(t, "cost of the run"),
	}
	for i := range n {
		node := Node{
			Name: fmt.Sprint("s", i), Kind: Agent,
			Destinations:  rapid.SliceOfN(name, 0, 3).Draw(t, "destinations"),
			MaxIterations: rapid.IntRange(1, 4).Draw(t, "iterations"),
			History:       rapid.SampledFrom([]Policy{HideTexts, AllTexts, LastTexts}).Draw(t, "history"),
			MaxVisits:     rapid.IntRange(0, 3).Draw(t, "visits"),
			Limits: Limits{
				Seconds: rapid.IntRange(0, 3).Draw(t, "seconds"), ModelCalls: rapid.IntRange(0, 5).Draw(t, "model calls"),
				CostUSD: rapid.SampledFrom([]float64{0, 0, 0.5}).Draw(t, "cost"),
			},
		}
		if node.MaxVisits > 0 && rapid.Bool().Draw(t, "instead") {
			node.Instead = name.Draw(t, "instead of it")
		}
		for _, when := range rapid.SliceOfN(rapid.SampledFrom([]Status{"", Completed, MaxIterations, Failed}), 0, 2).Draw(t, "rules") {
			node.Next = append(node.Next, Branch{When: when, To: name.Draw(t, "to")})
		}
		g.Steps = append(g.Steps, node)
	}
	return g
}

func randomEnd(t *rapid.T, g Graph, l Launch) Event {
	usd := rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "spent")
	usage := llm.Usage{ModelCalls: 1, TotalUSD: &usd}
	used := rapid.IntRange(l.Used+1, l.Most).Draw(t, "used")
	e := Ended{Launch: l.ID, Number: l.After + 1, Status: Completed, Iterations: used, Said: rapid.Bool().Draw(t, "said"), Usage: usage, Seconds: rapid.Float64Range(0, 2).Draw(t, "took")}
	var destinations []string
	for _, n := range g.Steps {
		if n.Name == l.Step {
			destinations = n.Destinations
		}
	}
	choice := rapid.IntRange(0, 9).Draw(t, "end")
	switch {
	case choice == 0:
		return Broke{Launch: l.ID, Number: e.Number, Usage: usage, Cause: Failure{Type: "Network", Message: "no line"}}
	case choice == 2:
		e.Status, e.Failed, e.Cause = Failed, true, &Failure{Type: "ToolFailed", Message: "exit code 1"}
	case choice == 1:
		e.Status, e.Iterations = MaxIterations, l.Most
	case choice < 5 && len(destinations) > 0:
		e.Action, e.To = Jump, rapid.SampledFrom(destinations).Draw(t, "to")
	case choice < 9 && len(destinations) > 0 && !l.Deepest:
		e.Action, e.Status, e.To, e.Messages = Call, CallPending, rapid.SampledFrom(destinations).Draw(t, "to"), "m"
	}
	return e
}

// With random requests and stale events, a run ends once it is resumed and retried, and never runs
// two steps at the same time.
func TestEveryRunEnds_withRequests(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t)
		g.Park = rapid.Bool().Draw(t, "park")
		for i := range g.Steps {
			g.Steps[i].Kind = rapid.SampledFrom([]Kind{Agent, Session}).Draw(t, "kind")
		}
		s := New(g)
		var running *Launch
		stopped := false
		for moment := 0; !s.Done(); moment++ {
			before := running
			for _, c := range s.Drain() {
				switch c := c.(type) {
				case Launch:
					require.Nil(t, running, "two steps at once")
					require.False(t, s.Held(), "launched while the run waits for a person")
					running, stopped = &c, false
				case Stop:
					require.Equal(t, before.ID, c.ID)
					stopped = true
				case Hold, Release, Ring, Keep, Done:
				}
			}
			if moment < 40 {
				for _, event := range rapid.SliceOfN(rapid.SampledFrom([]Event{
					Pause{},
					Resume{},
					Retry{},
					Said{Text: "Use tabs."},
					Ended{Launch: "l0", Number: 9, Status: Completed},
					Suspended{Launch: "l0"},
				}), 0, 3).Draw(t, "meanwhile") {
					s.Step(event)
				}
				if rapid.IntRange(0, 60).Draw(t, "cancel") == 0 {
					s.Step(Cancel{})
				}
			} else { // people resume and retry
				s.Step(Resume{})
				s.Step(Retry{})
			}
			require.Less(t, moment, 4000, "a run without an end")
			switch {
			case running == nil:
			case stopped:
				s.Step(Suspended{Launch: running.ID, Number: running.After + 1, Token: "t"})
				running = nil
			case !s.Paused || moment >= 40 || rapid.Bool().Draw(t, "ends while paused"):
				s.Step(randomEnd(t, g, *running))
				running = nil
			}
		}
		require.LessOrEqual(t, s.Transitions, g.MaxTransitions)
		if st := s.Result.Status; st != Failed && st != Cancelled {
			require.Empty(t, s.Stack)
		}
		require.False(t, s.Held())
	})
}
