package config

import (
	"fmt"
	"slices"
)

// PipelineWarnings tells what in a pipeline's text is never used, at its place:
// steps that no run comes to, and rules that never fit. A run is none the worse for
// it, but somebody may have meant something else. Of a text with problems it says
// nothing.
func PipelineWarnings(name string, data []byte, reach Reach) Problems {
	p, err := ParsePipeline(name, data, reach)
	root, f := parseDocument(data)
	if err != nil || f != nil {
		return nil
	}
	var found Problems
	warn := func(at position, key, format string, args ...any) {
		found = append(found, Problem{File: name, Line: at.line, Column: at.column, Key: key, Message: fmt.Sprintf(format, args...)})
	}
	unreachable := p.Unreachable()
	for i, step := range root.get("steps").items {
		s, key := p.Steps[i], nth("steps", i)
		if slices.Contains(unreachable, s.Name) {
			warn(step.position, key, "no run comes to the step %s: nothing leads to it by next or destinations", quote(s.Name))
		}
		for j, fits := range s.fitting() {
			if !fits {
				warn(step.get("next").items[j].position, nth(key+".next", j), "never fits: %s", s.whyNever(s.Next[j]))
			}
		}
	}
	return found
}

// statuses are those with which the step can end and its static rule is asked. Only
// an agent's model calls can be used up.
func (s PipelineStep) statuses() []string {
	if s.Kind == AgentStep || s.Kind == "" {
		return []string{"completed", "max_iterations"}
	}
	return []string{"completed"}
}

// fitting says of each branch of the static rule whether it is ever taken: whether
// there is a status that it fits and none before it does.
func (s PipelineStep) fitting() []bool {
	left := s.statuses()
	var fitting []bool
	for _, b := range s.Next {
		before := len(left)
		left = slices.DeleteFunc(left, func(status string) bool { return b.When.Status == "" || b.When.Status == status })
		fitting = append(fitting, len(left) < before)
	}
	return fitting
}

// whyNever says why a branch is never taken.
func (s PipelineStep) whyNever(b Branch) string {
	if b.When.Status != "" && !slices.Contains(s.statuses(), b.When.Status) {
		return fmt.Sprintf("a step of kind %s does not end with the status %s", s.Kind, b.When.Status)
	}
	return "the rules before it fit however the step ends"
}

// Unreachable are the steps that no run comes to, by name.
func (p Pipeline) Unreachable() []string {
	reached := map[string]bool{p.Start: true}
	for waiting := []string{p.Start}; len(waiting) > 0; {
		s, _ := p.Step(waiting[0])
		waiting = waiting[1:]
		for _, to := range s.leads() {
			if !reached[to] {
				reached[to] = true
				waiting = append(waiting, to)
			}
		}
	}
	var left []string
	for _, s := range p.Steps {
		if !reached[s.Name] {
			left = append(left, s.Name)
		}
	}
	return left
}

// leads are the steps that can come after s, by whatever way.
func (s PipelineStep) leads() []string {
	all := slices.Clone(s.Destinations)
	for i, fits := range s.fitting() {
		if fits {
			all = append(all, s.Next[i].To)
		}
	}
	return all
}
