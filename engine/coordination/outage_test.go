package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The timeline names only the agents in an outage, because others may have failed for another
// reason.
func TestWait_namesTheAgentsInAnOutage(t *testing.T) {
	t.Parallel()
	s := &State{}
	s.Agents = []*agent{{ID: "agent_a", Away: Interrupted}, {ID: "agent_b", Error: &Failure{}}}
	require.Equal(t, &Wait{Seconds: 60}, s.waitForServers().wait)
	require.Equal(t, "in an outage of their model servers: agent_a; trying again in 60 s", s.Recent[0].Text)
	require.Equal(t, "end of the session", Decision{Status: Timeout}.noun())
	require.Equal(t, "decision", Decision{Status: Consensus, Winner: "agent_a"}.noun())
}
