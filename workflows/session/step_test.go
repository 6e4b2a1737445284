package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	team "conclave/engine/session"
)

// Every result of a step has its event.
func TestResultEvent(t *testing.T) {
	t.Parallel()
	l := coordination.Launch{ID: "l3", Agent: "agent_a"}
	seen := []coordination.Seen{{Agent: "agent_b", Step: 1}}
	used := llm.Usage{ModelCalls: 2}
	for name, tc := range map[string]struct {
		result acts.StepResult
		event  coordination.Event
	}{
		"answer": {
			acts.StepResult{Step: 2, Outcome: team.Outcome{Action: coordination.NewAnswer, Seen: seen, Heard: 4}, Usage: used},
			coordination.Answered{End: coordination.End{Launch: "l3", Step: 2, Usage: used}, Seen: seen, Heard: 4},
		},
		"vote": {
			acts.StepResult{Step: 2, Outcome: team.Outcome{Action: coordination.Vote, Choice: coordination.Choice{Target: "agent_b", TargetLabel: "agent2.1", Reason: "r"}, Seen: seen, Heard: 4}, Usage: used},
			coordination.Voted{End: coordination.End{Launch: "l3", Step: 2, Usage: used}, Choice: coordination.Choice{Target: "agent_b", TargetLabel: "agent2.1", Reason: "r"}, Seen: seen, Heard: 4},
		},
		"stop": {
			acts.StepResult{Step: 2, Outcome: team.Outcome{Action: coordination.Stop, Status: "blocked", Summary: "no key", Seen: seen, Heard: 4}, Usage: used},
			coordination.Stopped{End: coordination.End{Launch: "l3", Step: 2, Usage: used}, Status: coordination.Blocked, Summary: "no key", Seen: seen, Heard: 4},
		},
		"submit": {
			acts.StepResult{Step: 2, Outcome: team.Outcome{Action: coordination.Submit}, Usage: used},
			coordination.Evaluated{End: coordination.End{Launch: "l3", Step: 2, Usage: used}},
		},
		"begin again": {
			acts.StepResult{Step: 2, Outcome: team.Outcome{Action: coordination.RestartTeam, Choice: coordination.Choice{Reason: "too short"}}, Usage: used},
			coordination.Evaluated{End: coordination.End{Launch: "l3", Step: 2, Usage: used}, Again: true, Reason: "too short"},
		},
		"restart": {
			acts.StepResult{Step: 2, Ended: loop.EndRestart, Usage: used},
			coordination.Restarted{End: coordination.End{Launch: "l3", Step: 2, Usage: used}},
		},
		"allowance": {
			acts.StepResult{Step: 2, Ended: loop.EndAllowance, Usage: used},
			coordination.Exhausted{End: coordination.End{Launch: "l3", Step: 2, Usage: used}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.event, tc.result.Event(l.ID))
		})
	}
}
