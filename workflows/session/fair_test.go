package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
	"conclave/workflows/session"
)

// The steps of a team of the operator share its fairness key; others keep that of their workflow.
func TestSession_stepsHaveTheFairnessKeyOfTheTeam(t *testing.T) {
	t.Parallel()
	tooLong := strings.Repeat("x", 65) // a server would refuse it again and again
	for prepared, want := range map[string]string{"reviewers": "reviewers", "": "", tooLong: ""} {
		p := newPlay(coordination.Config{}, map[string][]outcome{"agent_a": {answers(), votesFor("agent1", 1, 1)}})
		p.prepared.Team = prepared
		p.runFrom(t, session.Input{Query: "Who?"})
		require.NotEmpty(t, p.log.steps)
		for _, step := range p.log.steps {
			priority := workflow.GetActivityOptions(step).Priority
			require.Equal(t, want, priority.FairnessKey)
			require.Zero(t, priority.PriorityKey, "that of the workflow applies")
		}
	}
}
