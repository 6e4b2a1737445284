package config

import (
	"regexp"
	"slices"

	"conclave/engine/builtin"
	"conclave/engine/coordination"
	"conclave/engine/pipeline"
)

// unused reports the steps of a valid pipeline that no run reaches and the rules that never
// apply.
func (d *Decoder) unused(p Pipeline) Problems {
	reached := p.reachable()
	for i, s := range p.Steps {
		key := nth("steps", i)
		if !reached[s.Name] {
			d.report(d.at(key), key, "no run reaches the step %s: no next or destinations name it", quote(s.Name))
		}
		for j, fits := range s.fitting() {
			if !fits {
				rule := nth(key+".next", j)
				d.report(d.at(rule), rule, "never fits: %s", s.whyNever(j))
			}
		}
	}
	return d.problems
}

// end is one way in which a step can end, as far as the file alone shows.
type end struct {
	status, team string
	failed       bool
}

// ends lists the ways in which a step can end.
func (s PipelineStep) ends() []end {
	ends := []end{{status: string(pipeline.Completed)}, {status: string(pipeline.Failed), failed: true}}
	switch s.Kind {
	case pipeline.Tools:
		if s.OnToolError != failOnToolError {
			ends = append(ends, end{status: string(pipeline.Completed), failed: true})
		}
	case pipeline.Session:
		ends = ends[1:]
		for _, status := range []coordination.Status{
			coordination.Consensus, coordination.Plurality, coordination.Presented, coordination.Finished,
			coordination.Limit, coordination.Timeout, coordination.OverSpent,
		} {
			ends = append(ends, end{status: string(pipeline.Completed), team: string(status)})
		}
		for _, team := range []string{"undecided", "failed", "cancelled"} {
			ends = append(ends, end{status: string(pipeline.Failed), team: team, failed: true})
		}
	case pipeline.Agent:
		ends = append(ends, end{status: string(pipeline.MaxIterations)})
	}
	return ends
}

// failOnToolError is a value of on_tool_error.
const failOnToolError = "fail"

// namesFailure reports whether the condition matches failed steps.
func (c condition) namesFailure() bool {
	return slices.Contains([]string{string(pipeline.Failed), "undecided", "failed", "cancelled"}, c.Status) || c.Failed != nil && *c.Failed
}

// fits reports whether the condition can fit a step with this end.
func (c condition) fits(e end) bool {
	switch {
	case c.Status != "" && c.Status != e.status && c.Status != e.team:
	case e.status == string(pipeline.Failed) && !c.namesFailure():
	case c.Failed != nil && *c.Failed != e.failed:
	case c.ExitCode != nil && *c.ExitCode != 0 && !e.failed:
	default:
		return true
	}
	return false
}

// covers reports whether the condition fits every step with this end.
func (c condition) covers(e end) bool { return c.ExitCode == nil && c.TextMatches == "" && c.fits(e) }

// fitting reports, for each rule of next, whether it can fit an end that no rule before it
// covers.
func (s PipelineStep) fitting() []bool {
	left := s.ends()
	var fitting []bool
	for _, b := range s.Next {
		fitting = append(fitting, slices.ContainsFunc(left, b.When.fits))
		left = slices.DeleteFunc(left, b.When.covers)
	}
	return fitting
}

// whyNever explains why a rule never fits.
func (s PipelineStep) whyNever(i int) string {
	when := s.Next[i].When
	switch {
	case slices.ContainsFunc(s.ends(), when.fits):
		return "the rules before it match every status"
	case s.OnToolError == failOnToolError && when.ExitCode != nil:
		return "with on_tool_error: fail a step whose command fails ends with the status error; write {status: error, exit_code: …}"
	case s.OnToolError == failOnToolError && when.Failed != nil:
		return "with on_tool_error: fail a step with a failed call ends with the status error"
	}
	return "the step cannot end in a way that meets all of its conditions"
}

// checkCondition reports conditions that a step of this kind cannot meet.
func (d *Decoder) checkCondition(key string, s PipelineStep, when condition) {
	ends := func(e end) bool { return e.status == when.Status || e.team == when.Status }
	if when.Status != "" && !slices.ContainsFunc(s.ends(), ends) {
		d.Report(key+".status", "a step of kind %s does not end with the status %s; %s", s.Kind, when.Status, choice(when.Status, s.statuses()))
	}
	commands := slices.ContainsFunc(s.Calls, func(use toolUse) bool { return use.Tool == builtin.RunCommand })
	if when.ExitCode != nil && !commands {
		d.Report(key+".exit_code", "only tools steps that call run_command have an exit code; look at status, failed or text_matches")
	}
	if _, err := regexp.Compile(when.TextMatches); err != nil {
		d.Report(key+".text_matches", "not a regular expression (RE2): %v", err)
	}
}

// statuses lists the statuses of a step's ends.
func (s PipelineStep) statuses() []string {
	var statuses []string
	for _, e := range s.ends() {
		for _, status := range []string{e.status, e.team} {
			if status != "" && !slices.Contains(statuses, status) {
				statuses = append(statuses, status)
			}
		}
	}
	return statuses
}

// reachable returns the names of the steps that a run can reach from the start.
func (p Pipeline) reachable() map[string]bool {
	reached := map[string]bool{p.Start: true}
	for queue := []string{p.Start}; len(queue) > 0; queue = queue[1:] {
		s, _ := p.Step(queue[0])
		for _, to := range s.targets() {
			if !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
	return reached
}

// targets lists the steps that can follow the step or take its place.
func (s PipelineStep) targets() []string {
	targets := slices.Clone(s.Destinations)
	for i, fits := range s.fitting() {
		if fits {
			targets = append(targets, s.Next[i].To)
		}
	}
	if s.MaxVisits != nil && s.MaxVisits.Then != "" {
		targets = append(targets, s.MaxVisits.Then)
	}
	return targets
}
