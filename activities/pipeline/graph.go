package pipeline

import (
	"conclave/engine/config"
	"conclave/engine/pipeline"
)

func graphOf(p config.Pipeline) pipeline.Graph {
	g := pipeline.Graph{
		Start: p.Start, MaxTransitions: p.Limits.MaxTransitions, MaxDepth: p.Limits.MaxCallDepth, Park: p.OnStepFailure == "park",
		Seconds: value(p.Limits.Seconds), CostUSD: value(p.Limits.CostUSD),
	}
	for _, s := range p.Steps {
		g.Steps = append(g.Steps, node(s))
	}
	return g
}

func node(s config.PipelineStep) pipeline.Node {
	n := pipeline.Node{
		Name: s.Name, Kind: s.Kind, Destinations: s.Destinations, MaxIterations: s.MaxIterations, History: s.History.Policy(),
		Limits: pipeline.Limits{Seconds: value(s.Limits.Seconds), ModelCalls: value(s.Limits.ModelCalls), CostUSD: value(s.Limits.CostUSD)},
	}
	if s.Kind != pipeline.Agent { // only agents make model calls
		n.MaxIterations = pipeline.DefaultIterations
	}
	if s.MaxVisits != nil {
		n.MaxVisits, n.Instead = s.MaxVisits.Count, s.MaxVisits.Then
	}
	for _, b := range s.Next {
		n.Next = append(n.Next, pipeline.Branch{
			When: pipeline.Status(b.When.Status), ExitCode: b.When.ExitCode, Failed: b.When.Failed, TextMatches: b.When.TextMatches, To: b.To,
		})
	}
	return n
}

// value returns the value of an optional key, or 0 if it is missing.
func value[T int | float64](key *T) T {
	if key == nil {
		return 0
	}
	return *key
}
