package record

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
)

// Outcomes of checks and evaluations are recorded after the step of their answer. A reader that has
// read the answer reads them later.
func TestReader_judgements(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Sort.", coordination.Config{Agents: []string{"agent_a", "agent_b"}, Ballot: "checks_shown", Checks: []string{"c1"}, Critiques: true})
	r := NewReader(p.Store, p.Layout, nil)
	p.Answer(1, "agent_a", "sort", nil)
	s, err := r.Read(t.Context())
	require.NoError(t, err)
	require.Empty(t, s.Step("agent_a", 1).Checks)

	p.Check(1, "agent_a", "1")
	s, err = r.Read(t.Context())
	require.NoError(t, err)
	checks := s.Step("agent_a", 1).Checks
	require.Len(t, checks, 1)
	require.True(t, checks[0].Passed)
	require.Equal(t, "name of c1", checks[0].Title())
	require.Nil(t, s.Step("agent_a", 1).Evaluation)

	p.Answer(1, "agent_b", "sort -n", nil)
	p.Check(1, "agent_b", "0")
	p.Evaluate(2, "agent_a", coordination.Iterate, 6)
	s, err = r.Read(t.Context())
	require.NoError(t, err)
	e := s.Step("agent_a", 1).Evaluation
	require.NotNil(t, e)
	require.InDelta(t, 6, e.Scores["E1"], 0)
	require.Equal(t, coordination.CeilingNotReached, e.Ceiling())
	require.EqualValues(t, 1, e.Usage.ModelCalls)
	require.Contains(t, e.Packet, "## preserve")
	transcript, err := r.EvaluationTranscript(t.Context(), s.Step("agent_a", 1))
	require.NoError(t, err)
	require.NotEmpty(t, transcript.Lines)
}

// The state has the basis and the support of the decision.
func TestRead_ground(t *testing.T) {
	t.Parallel()
	s := reading(t, stage.Checked(t).Dir)
	require.Equal(t, coordination.ByChecks, s.State.DecidedBy)
	require.Zero(t, s.State.Support.Share)
	require.InDelta(t, 1, *s.State.Support.Checks, 0)
}

// A check that passes on an older answer only is broken; one that could not be run is not.
func TestSession_broken(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Sort.", coordination.Config{Agents: []string{"agent_a", "agent_b"}, Ballot: "checks_shown", Checks: []string{"c1", "c2", "c3"}})
	p.Answer(1, "agent_a", "sort", nil)
	p.Check(1, "agent_a", "101")
	require.Equal(t, []string{"c2"}, broken(t, p))
	p.Answer(1, "agent_b", "sort -n", nil)
	p.Check(1, "agent_b", "01?")
	require.Empty(t, broken(t, p))
	p.Answer(1, "agent_a", "sort -h", nil)
	p.Check(1, "agent_a", "00?")
	require.Equal(t, []string{"c1"}, broken(t, p))
}

func broken(t *testing.T, p *stage.Play) []string {
	t.Helper()
	var ids []string
	for _, c := range reading(t, p.Dir).Broken() {
		ids = append(ids, c.Check)
	}
	return ids
}
