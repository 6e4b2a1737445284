package quality

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// "After injection updates arrive post-checklist, one bounded recheck is
// allowed; preferred: score only newly injected labels; also allowed: score all
// latest context labels" (seed 001).
func TestRecheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after string
		code          string
		verdict       coordination.Action
		best          string
		injected      []string
	}{
		"the new one alone": {
			before: good, injected: []string{"agent3.1"},
			after:   `{"agent3.1": {"E1": 9, "E2": 9}}`,
			verdict: coordination.Vote, best: "agent3.1",
		},
		"a weak newcomer overturns nothing": {
			before: good, injected: []string{"agent3.1"},
			after:   `{"agent3.1": {"E1": 2, "E2": 2}}`,
			verdict: coordination.Vote, best: "agent1.1",
		},
		"all": {
			before: good, injected: []string{"agent3.1"},
			after:   `{"agent1.1": {"E1": 2, "E2": 2}, "agent2.1": {"E1": 3, "E2": 3}, "agent3.1": {"E1": 4, "E2": 4}}`,
			verdict: coordination.NewAnswer, best: "agent3.1",
		},
		"the scores of an older revision are gone": {
			before: good, injected: []string{"agent1.2"},
			after:   `{"agent1.2": {"E1": 2, "E2": 2}}`,
			verdict: coordination.NewAnswer, best: "agent2.1",
		},
		"pending answers have to be scored": {
			before: good, injected: []string{"agent3.1", "agent4.1"},
			after: `{"agent3.1": {"E1": 9, "E2": 9}}`,
			code:  missingAgentScores,
		},
		"an older revision does not do": {
			before: good, injected: []string{"agent1.2"},
			after: `{"agent1.1": {"E1": 9, "E2": 9}}`,
			code:  missingAgentScores,
		},
		"flat does not do": {
			before: good, injected: []string{"agent3.1"},
			after: `{"E1": 9, "E2": 9}`,
			code:  flatScoresDisallowed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(pair())
			submit(t, s, c.before)
			require.Empty(t, s.Recheck())
			s.Injected(c.injected)
			require.Contains(t, s.Recheck(), c.injected[0])
			require.True(t, s.Submitted(), "an update does not open the window again")

			calls := []llm.ToolCall{{ID: "1", Name: submitChecklist, Arguments: scores(c.after)}}
			texts, results, _ := s.Evaluate(calls)
			r := s.judgeChecklist(scores(c.after))
			require.Equal(t, encodeJSON(r), texts["1"], "evaluating changes nothing")
			require.Equal(t, []Result{r}, results)
			require.Equal(t, c.code, r.ErrorCode, r.Explanation)
			require.Equal(t, c.verdict, r.Action)
			require.Equal(t, c.best, r.BestAgent)
			s.Learn(r)
			if c.code != "" {
				require.NotEmpty(t, s.Recheck(), "a refused recheck may be mended")
				return
			}
			require.Equal(t, c.injected, r.Rechecked)
			require.Empty(t, s.Recheck())
			require.Equal(t, quotaUsed, s.judgeChecklist(scores(c.after)).ErrorCode, "one recheck")
		})
	}
}

// A flat checklist of the only answer remains valid when a peer's answer arrives.
func TestRecheck_afterFlat(t *testing.T) {
	t.Parallel()
	s := New(alone())
	require.Equal(t, "agent2.1", submit(t, s, `{"E1": 9, "E2": 9}`).BestAgent)
	s.Injected([]string{"agent1.1"})
	r := submit(t, s, `{"agent1.1": {"E1": 1, "E2": 1}}`)
	require.Equal(t, "agent2.1", r.BestAgent)
	require.Equal(t, coordination.Vote, r.Action)
}

// In decomposition the recheck is a flat score of the agent's own work.
func TestRecheck_part(t *testing.T) {
	t.Parallel()
	s := New(part())
	submit(t, s, `{"E1": 9, "E2": 9}`)
	s.Injected([]string{"agent1.2", "agent3.1"})
	require.Contains(t, s.Recheck(), "your part once more")
	r := submit(t, s, `{"E1": 9, "E2": 5}`)
	require.Equal(t, coordination.NewAnswer, r.Action)
	require.Equal(t, []string{"agent1.2", "agent3.1"}, r.Rechecked)
	require.Equal(t, quotaUsed, s.judgeChecklist(scores(`{"E1": 9, "E2": 9}`)).ErrorCode)
}

// An update before the checklist is covered by its scores and needs no recheck.
func TestRecheck_updateBefore(t *testing.T) {
	t.Parallel()
	s := New(pair())
	s.Injected([]string{"agent1.2"})
	require.Empty(t, s.Recheck())
	require.Equal(t, missingAgentScores, s.judgeChecklist(scores(good)).ErrorCode)
	require.Equal(t, missingAgentScores, s.judgeChecklist(scores(`{"agent1.2": {"E1": 9, "E2": 9}}`)).ErrorCode, "there is nothing that would count on")
	r := submit(t, s, `{"agent1.2": {"E1": 9, "E2": 9}, "agent2.1": {"E1": 5, "E2": 5}}`)
	require.Equal(t, []string{"agent1.2"}, r.Rechecked)
	require.Equal(t, quotaUsed, s.judgeChecklist(scores(good)).ErrorCode)
}

// An update that is missing in a draft's checklist remains pending for one recheck.
func TestRecheck_draft(t *testing.T) {
	t.Parallel()
	s := New(first())
	s.Injected([]string{"agent1.2"})
	require.Empty(t, submit(t, s, `{"E1": 9, "E2": 5}`).Rechecked)
	require.Equal(t, recheckRequired, s.judgeProposal(goodPlan).ErrorCode)
	require.Equal(t, []string{"agent1.2"}, submit(t, s, `{"E1": 9, "E2": 5}`).Rechecked)
	require.True(t, s.judgeProposal(goodPlan).Valid)
}

// Earlier scores are only kept in a recheck. A second checklist within the quota replaces them.
func TestRecheck_secondChecklist(t *testing.T) {
	t.Parallel()
	p := first()
	p.CallsPerRound = 2
	s := New(p)
	require.Equal(t, "agent1.1", submit(t, s, `{"agent1.1": {"E1": 9, "E2": 9}}`).BestAgent)
	require.Equal(t, "agent2.1", submit(t, s, `{"agent2.1": {"E1": 5, "E2": 5}}`).BestAgent)
}
