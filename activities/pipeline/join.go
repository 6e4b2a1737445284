package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/activities/attempt"
	"conclave/engine/config"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/step"
)

// equipJoin makes the results of the branches the text and the output of the step, and their files those of the run.
func equipJoin(ctx context.Context, run *attempt.Attempt, s config.PipelineStep, ps *pipelineagent.Step) error {
	named := s.FollowsConflict()
	m, err := ps.JoinBranches(ctx, run.Ports.Store, named)
	if err != nil {
		return fmt.Errorf("join the branches of step %s: %w", s.Name, err)
	}
	ps.Join, ps.Launch.Workspace = m, m.Workspace
	equipStatement(run, m.Text)
	return nil
}

// equipStatement makes a text that is known the text of the step.
func equipStatement(run *attempt.Attempt, text string) {
	run.Ports.Model = statement{text: text}
	run.Ports.Tools = step.OpenFunc(func(context.Context, string) (step.Tools, error) { return noTools{}, nil })
}

// listsFrom returns the lists that a for_each of the pipeline goes through in the output of a step.
func listsFrom(p config.Pipeline, name string) (lists []pipelineagent.List) {
	for _, s := range p.Steps {
		if of := s.ItemSource(); s.Kind == pipeline.ForEach && of.From == name {
			lists = append(lists, pipelineagent.List{For: s.Name, Path: pathOf(of.Path), Most: s.MostItems()})
		}
	}
	return lists
}

// itemsFor returns the items of a launch's for_each: the list of the definition, or its path in the output of a step.
func itemsFor(p config.Pipeline, l pipeline.Launch) (list json.RawMessage, path []string) {
	if l.Item == nil {
		return nil, nil
	}
	i := slices.IndexFunc(p.Steps, func(s config.PipelineStep) bool { return s.Name == l.Item.Step })
	if i < 0 {
		return nil, nil
	}
	of := p.Steps[i].ItemSource()
	list, _ = json.Marshal(of.List) // it was read from JSON
	return list, pathOf(of.Path)
}

func pathOf(dotted string) []string {
	if dotted == "" {
		return nil
	}
	return strings.Split(dotted, ".")
}
