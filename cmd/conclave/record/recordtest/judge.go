package recordtest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"conclave/engine/check"
	"conclave/engine/coordination"
	"conclave/engine/team/evaluator"
)

// Check ends the checks of an agent's newest answer after some seconds. Each character of
// verdicts is the outcome of a check: '1' passed, '0' failed, '?' could not be run.
func (p *Play) Check(seconds float64, agent, verdicts string) {
	p.t.Helper()
	p.advance(seconds)
	c, out := p.checking[agent]
	require.True(p.t, out, "no checks of %s are out", agent)
	require.Len(p.t, verdicts, len(c.Checks))
	delete(p.checking, agent)
	listed := []check.Result{}
	for i, id := range c.Checks {
		if verdicts[i] != '?' { // such a check leaves no result
			passed := verdicts[i] == '1'
			listed = append(listed, check.Result{
				Check: id, Name: "name of " + id, Passed: passed, ExitCode: new(map[bool]int{true: 0, false: 1}[passed]), Seconds: 0.5, Output: "output of " + id,
			})
		}
	}
	p.put(p.Layout.Step(agent, c.Answer.Step, "checks.json"), listed)
	p.State.Step(coordination.Checked{ID: c.ID, Verdicts: verdicts})
	p.drain()
}

// Evaluate ends the evaluation of an agent's answer with a verdict and scores for the criteria
// E1, E2, … The verdict iterate includes a plan.
func (p *Play) Evaluate(seconds float64, agent string, verdict coordination.RoundVerdict, scores ...float64) {
	p.t.Helper()
	l := p.of(seconds, agent)
	require.Equal(p.t, coordination.Evaluation, l.Purpose)
	judged := evaluator.Rating{Verdict: verdict, Scores: map[string]float64{}}
	for i, s := range scores {
		judged.Scores[fmt.Sprintf("E%d", i+1)] = s
	}
	end := p.end(l, string(coordination.SubmitEvaluation), judged, "")
	p.put(l.dir+"verdict.json", judged)
	p.write(l.dir+"critique_packet.md", []byte("# Evaluation\n\n## preserve\n\nThe **first** sentence.\n"))
	ceiling := coordination.CeilingReached
	if verdict == coordination.Iterate {
		ceiling = coordination.CeilingNotReached
		p.put(l.dir+"next_tasks.json", map[string]any{
			"objective": "Say where the market is.", "approach_assessment": map[string]any{"ceiling_status": ceiling, "ceiling_explanation": "There is room."},
			"tasks":    []map[string]string{{"id": "t1", "description": "Name the street.", "verification": "the street is named"}},
			"preserve": []string{"the first sentence"},
		})
	}
	p.State.Step(coordination.Critiqued{End: end, Verdict: verdict, Scores: judged.RoundScores(), Ceiling: ceiling, Tasks: verdict == coordination.Iterate})
	p.drain()
}
