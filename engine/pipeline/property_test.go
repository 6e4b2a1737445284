package pipeline_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/llm"
	"conclave/engine/pipeline"
)

// For random graphs and random agents every run ends within its limits, and the
// stack is empty unless it ended by error or cancel.
func TestEveryRunEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t)
		s := pipeline.New(g)
		segments := 0
		for !s.Done() {
			var launch *pipeline.Launch
			for _, c := range s.Drain() {
				if l, ok := c.(pipeline.Launch); ok {
					launch = &l
				}
			}
			require.NotNil(t, launch, "a run that is not over, not held and runs nothing")
			segments++
			require.LessOrEqual(t, len(s.Stack), g.MaxDepth)
			require.Less(t, launch.Used, launch.Most, "a step is launched only if it has a model call left")
			s.Step(randomEnd(t, g, *launch))
		}
		require.LessOrEqual(t, s.Transitions, g.MaxTransitions)
		require.LessOrEqual(t, segments, g.MaxTransitions+1)
		if st := s.Outcome.Status; st != pipeline.Failed && st != pipeline.Cancelled {
			require.Empty(t, s.Stack)
		}
		commands := s.Drain()
		require.Equal(t, pipeline.Done{Outcome: *s.Outcome}, commands[len(commands)-1])
		require.Empty(t, s.Drain())
	})
}

func randomGraph(t *rapid.T) pipeline.Graph {
	n := rapid.IntRange(1, 5).Draw(t, "steps")
	name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("s", rapid.IntRange(0, n-1).Draw(t, "step")) })
	g := pipeline.Graph{
		Start:          name.Draw(t, "start"),
		MaxTransitions: rapid.IntRange(0, 30).Draw(t, "transitions"),
		MaxDepth:       rapid.IntRange(0, 4).Draw(t, "depth"),
	}
	for i := range n {
		node := pipeline.Node{
			Name: fmt.Sprint("s", i), Kind: pipeline.Agent,
			Destinations:  rapid.SliceOfN(name, 0, 3).Draw(t, "destinations"),
			MaxIterations: rapid.IntRange(1, 4).Draw(t, "iterations"),
			History:       rapid.Bool().Draw(t, "history"),
		}
		for _, when := range rapid.SliceOfN(rapid.SampledFrom([]pipeline.Status{"", pipeline.Completed, pipeline.MaxIterations}), 0, 2).Draw(t, "rules") {
			node.Next = append(node.Next, pipeline.Branch{When: when, To: name.Draw(t, "to")})
		}
		g.Steps = append(g.Steps, node)
	}
	return g
}

func randomEnd(t *rapid.T, g pipeline.Graph, l pipeline.Launch) pipeline.Event {
	usage := llm.Usage{ModelCalls: 1}
	used := rapid.IntRange(l.Used+1, l.Most).Draw(t, "used")
	e := pipeline.Ended{Launch: l.ID, Number: l.After + 1, Status: pipeline.Completed, Iterations: used, Said: rapid.Bool().Draw(t, "said"), Usage: usage}
	var destinations []string
	for _, n := range g.Steps {
		if n.Name == l.Step {
			destinations = n.Destinations
		}
	}
	choice := rapid.IntRange(0, 9).Draw(t, "end")
	switch {
	case choice == 0:
		return pipeline.Broke{Launch: l.ID, Number: e.Number, Usage: usage, Cause: pipeline.Failure{Type: "Network", Message: "no line"}}
	case choice == 1:
		e.Status, e.Iterations = pipeline.MaxIterations, l.Most
	case choice < 5 && len(destinations) > 0:
		e.Action, e.To = pipeline.Jump, rapid.SampledFrom(destinations).Draw(t, "to")
	case choice < 9 && len(destinations) > 0 && !l.Deepest:
		e.Action, e.Status, e.To, e.Messages = pipeline.Call, pipeline.CallPending, rapid.SampledFrom(destinations).Draw(t, "to"), "m"
	}
	return e
}
