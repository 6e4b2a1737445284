package quality

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// pair returns a step with its own answer, a peer's answer, two criteria and a bar of 8.
func pair() Policy {
	return Policy{
		Criteria: config.Criteria{{Text: "Correct.", Category: "primary"}, {Text: "Complete.", Category: "standard"}},
		Answers:  1,
		Labels:   []string{"agent1.1", "agent2.1"},
		Own:      "agent2.1",
	}
}

// alone returns a step that is shown only the agent's own answer.
func alone() Policy {
	p := pair()
	p.Labels = []string{"agent2.1"}
	return p
}

// part returns a step of a divided task.
func part() Policy {
	p := pair()
	p.Decomposition = true
	return p
}

// first returns a step without an own answer whose checklist is permitted.
func first() Policy {
	p := pair()
	p.Own, p.Answers, p.FirstAnswer = "", 0, true
	return p
}

// scores returns arguments with the given JSON of scores.
func scores(object string) string { return `{"scores": ` + object + `}` }

// submit submits a checklist that must be accepted, and passes the result to the state.
func submit(t *testing.T, s *State, object string) Result {
	t.Helper()
	r := s.judgeChecklist(scores(object))
	require.Equal(t, accepted, r.Status, r.Explanation)
	s.Learn(r)
	return r
}

const (
	good = `{"agent1.1": {"E1": 9, "E2": 8}, "agent2.1": {"E1": 5, "E2": 5}}`
	poor = `{"agent1.1": {"E1": 9, "E2": 4}, "agent2.1": {"E1": 5, "E2": 5}}`
)

// "submit_checklist: accepted path: status=accepted + verdict; invalid path:
// status=validation_error, requires_resubmission=true, no verdict" (seed 001). The cases include
// every way in which a payload can be invalid.
func TestSubmit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy    Policy
		arguments string
		code      string              // of an error
		verdict   coordination.Action // of an accepted one
	}{
		"per agent, the best passes":        {pair(), scores(good), "", coordination.Vote},
		"per agent, the best fails in one":  {pair(), scores(poor), "", coordination.NewAnswer},
		"an entry may be an object":         {pair(), scores(`{"agent1.1": {"E1": {"score": 9, "reasoning": "r"}, "E2": 8.5}, "agent2.1": {"E1": 5, "E2": 5}}`), "", coordination.Vote},
		"an object without score counts 0":  {alone(), scores(`{"E1": {"reasoning": "fine"}, "E2": 9}`), "", coordination.NewAnswer},
		"T1 is another name of E1":          {alone(), scores(`{"T1": 9, "t2": 9}`), "", coordination.Vote},
		"scores as text":                    {alone(), `{"scores": "{\"E1\":   9, \"E2\": 9}"}`, "", coordination.Vote},
		"an agent stands for its revision":  {pair(), scores(`{"agent1": {"E1": 9, "E2": 9}, "agent2": {"E1": 5, "E2": 5}}`), "", coordination.Vote},
		"labels beyond those shown":         {pair(), scores(`{"agent1.1": {"E1": 5, "E2": 5}, "agent2.1": {"E1": 5, "E2": 5}, "agent9.1": {"E1": 10, "E2": 10}, "note": "hm"}`), "", coordination.NewAnswer},
		"flat with one answer shown":        {alone(), scores(`{"E1": 9, "E2": 9}`), "", coordination.Vote},
		"the own label is always shown":     {Policy{Own: "agent1.1"}, scores(`{"agent1.1": {"E1": 9, "E2": 9, "E3": 9, "E4": 9, "E5": 9}}`), "", coordination.Vote},
		"part: flat":                        {part(), scores(`{"E1": 9, "E2": 9}`), "", coordination.Stop},
		"part: by the own label":            {part(), scores(`{"agent2.1": {"E1": 9, "E2": 9}, "agent1.1": {"E1": 1}}`), "", coordination.Stop},
		"part: one entry":                   {part(), scores(`{"mine": {"E1": 9, "E2": 9}}`), "", coordination.Stop},
		"first: the verdict is to continue": {first(), scores(`{"E1": 10, "E2": 10}`), "", coordination.NewAnswer},
		"first: gaps count 0":               {first(), scores(`{"E1": 10}`), "", coordination.NewAnswer},
		"first: nothing at all":             {first(), scores(`{}`), "", coordination.NewAnswer},
		"first: answers, one of two":        {first(), scores(`{"agent1.1": {"E1": 10}}`), "", coordination.NewAnswer},
		"the bounds of the range":           {alone(), scores(`{"E1": 0, "E2": 10}`), "", coordination.NewAnswer},
		"no JSON":                           {pair(), `scores`, scoresTypeInvalid, ""},
		"no scores":                         {pair(), `{}`, scoresTypeInvalid, ""},
		"scores null":                       {pair(), scores(`null`), scoresTypeInvalid, ""},
		"scores an array":                   {pair(), scores(`[9, 9]`), scoresTypeInvalid, ""},
		"a score as text":                   {alone(), scores(`{"E1": "9", "E2": 9}`), scoresTypeInvalid, ""},
		"a score true":                      {alone(), scores(`{"E1": {"score": true}, "E2": 9}`), scoresTypeInvalid, ""},
		"above the range":                   {alone(), scores(`{"E1": 11, "E2": 9}`), scoresOutOfRange, ""},
		"below the range":                   {pair(), scores(`{"agent1.1": {"E1": 9, "E2": {"score": -3}}, "agent2.1": {"E1": 5, "E2": 5}}`), scoresOutOfRange, ""},
		"beyond all numbers":                {first(), scores(`{"E1": 1e999}`), scoresOutOfRange, ""},
		"part: several entries, none own":   {part(), scores(`{"agent1.1": {"E1": 9, "E2": 9}, "agent3.1": {"E1": 9, "E2": 9}}`), decompositionScoresInvalid, ""},
		"part: no entry":                    {part(), scores(`{}`), decompositionScoresInvalid, ""},
		"part: a criterion missing":         {part(), scores(`{"E1": 9}`), missingCriteriaScores, ""},
		"flat with two answers shown":       {pair(), scores(`{"E1": 9, "E2": 9}`), flatScoresDisallowed, ""},
		"an agent's criterion missing":      {pair(), scores(`{"agent1.1": {"E1": 9}, "agent2.1": {"E1": 5, "E2": null}}`), incompleteAgentCriteria, ""},
		"incomplete comes before missing":   {pair(), scores(`{"agent1.1": {"E1": 9}}`), incompleteAgentCriteria, ""},
		"an answer missing":                 {pair(), scores(`{"agent1.1": {"E1": 9, "E2": 9}}`), missingAgentScores, ""},
		"an entry that is no object":        {pair(), scores(`{"agent1.1": {"E1": 9, "E2": 9}, "agent2.1": 9}`), missingAgentScores, ""},
		"an older revision is not the same": {pair(), scores(`{"agent1.0": {"E1": 9, "E2": 9}, "agent2.1": {"E1": 9, "E2": 9}}`), missingAgentScores, ""},
		"flat, a criterion missing":         {alone(), scores(`{"E1": 9}`), missingCriteriaScores, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(c.policy)
			r := s.judgeChecklist(c.arguments)
			require.Equal(t, c.code, r.ErrorCode, r.Explanation)
			require.Equal(t, c.verdict, r.Action, r.Explanation)
			require.NotEmpty(t, r.Explanation)
			require.Equal(t, c.code != "", r.RequiresResubmission)
			require.False(t, s.Submitted(), "evaluating changes nothing")
			if c.code != "" {
				require.Equal(t, validationError, r.Status)
				require.Zero(t, r.TrueCount)
				require.Empty(t, r.Items)
				return
			}
			require.Equal(t, accepted, r.Status)
			s.Learn(r)
			require.True(t, s.Submitted())
		})
	}
}

// "Default behavior blocks checklist before first answer unless checklist_first_answer: true" (seed
// 001). If the scores are not an object, that error is reported instead, because it can be
// corrected.
func TestSubmit_firstAnswer(t *testing.T) {
	t.Parallel()
	p := first()
	p.FirstAnswer = false
	s := New(p)
	require.Equal(t, scoresTypeInvalid, s.judgeChecklist(`{}`).ErrorCode)
	r := s.judgeChecklist(scores(good))
	require.Equal(t, firstAnswerRequired, r.ErrorCode)
	require.False(t, r.RequiresResubmission)
}

// "max_checklist_calls_per_round prevents in-round checklist loops" (seed 001): only
// accepted checklists count.
func TestSubmit_quota(t *testing.T) {
	t.Parallel()
	for calls := range 4 {
		p := pair()
		p.CallsPerRound = calls
		s := New(p)
		for range max(calls, 1) {
			bad := s.judgeChecklist(scores(`{"agent1.1": {}}`))
			require.True(t, bad.RequiresResubmission)
			s.Learn(bad)
			submit(t, s, poor)
		}
		r := s.judgeChecklist(scores(good))
		require.Equal(t, quotaUsed, r.ErrorCode)
		require.False(t, r.RequiresResubmission)
		require.Contains(t, r.Explanation, "new_answer")
		s.Learn(r)
		require.NotEqual(t, checklistRequired, s.judgeProposal(`{}`).ErrorCode, "the accepted one still counts")
	}
}

// The answer with the highest sum is judged, the first one if there is a tie, and only its own
// scores count.
func TestSubmit_bestAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scores, best string
		verdict      coordination.Action
	}{
		"the first":                {`{"agent1.1": {"E1": 9, "E2": 9}, "agent2.1": {"E1": 8, "E2": 8}}`, "agent1.1", coordination.Vote},
		"the second":               {`{"agent1.1": {"E1": 8, "E2": 8}, "agent2.1": {"E1": 9, "E2": 9}}`, "agent2.1", coordination.Vote},
		"a tie":                    {`{"agent2.1": {"E1": 8, "E2": 8}, "agent1.1": {"E1": 10, "E2": 6}}`, "agent1.1", coordination.NewAnswer},
		"a higher sum that fails":  {`{"agent1.1": {"E1": 8, "E2": 8}, "agent2.1": {"E1": 10, "E2": 7}}`, "agent2.1", coordination.NewAnswer},
		"no joining of two halves": {`{"agent1.1": {"E1": 10, "E2": 1}, "agent2.1": {"E1": 1, "E2": 10}}`, "agent1.1", coordination.NewAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New(pair()).judgeChecklist(scores(c.scores))
			require.Equal(t, c.best, r.BestAgent)
			require.Equal(t, c.verdict, r.Action)
			require.Len(t, r.PerAgentScores, 2)
		})
	}
}

// Categories have no effect on the verdict.
func TestSubmit_guidance(t *testing.T) {
	t.Parallel()
	p := pair()
	p.Criteria[1].Category = "stretch"
	r := New(p).judgeChecklist(scores(poor))
	require.Equal(t, coordination.NewAnswer, r.Action, "a failed stretch criterion fails like any other")
	require.Equal(t, accepted, New(p).judgeChecklist(`{"scores": `+poor+`, "report_path": 7}`).Status)
}

// The result has the agreed keys.
func TestResult_String(t *testing.T) {
	t.Parallel()
	told := encodeJSON(New(pair()).judgeChecklist(scores(poor)))
	require.JSONEq(t, `{
		"status": "accepted", "verdict": "new_answer", "requires_resubmission": false,
		"explanation": "1 of 2 criteria pass, 2 have to. Failed: E2. Call propose_improvements next, do what it plans, then call new_answer.",
		"true_count": 1, "required": 2,
		"items": [{"id": "E1", "score": 9, "passed": true}, {"id": "E2", "score": 4, "passed": false}],
		"failed_criteria": ["E2"], "plateaued_criteria": [], "best_agent": "agent1.1",
		"per_agent_scores": {"agent1.1": {"E1": 9, "E2": 4}, "agent2.1": {"E1": 5, "E2": 5}}
	}`, told)
	told = encodeJSON(New(pair()).judgeChecklist(scores(`{"agent1.1": {"E1": 9}, "agent2.1": {}}`)))
	require.JSONEq(t, `{
		"status": "validation_error", "error_code": "incomplete_agent_criteria", "requires_resubmission": true,
		"explanation": "Every answer needs a score for every criterion. Missing: agent1.1 E2, agent2.1 E1, agent2.1 E2. Correct it and call submit_checklist again.",
		"incomplete_scores": ["agent1.1 E2", "agent2.1 E1", "agent2.1 E2"],
		"true_count": 0, "required": 2, "items": [], "failed_criteria": [], "plateaued_criteria": []
	}`, told)
	require.Contains(t, New(pair()).judgeChecklist(scores(good)).Explanation, "End with vote, for agent1.1.")
	require.Contains(t, New(part()).judgeChecklist(scores(`{"E1": 9, "E2": 9}`)).Explanation, "End with stop.")
	require.Contains(t, New(first()).judgeChecklist(scores(`{"E1": 9, "E2": 9}`)).Explanation, "Submit your work with new_answer.")
}

// A failed criterion has reached its plateau if its score is at most a point above one of the last
// two accepted results.
func TestSubmit_plateau(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		history   []float64
		score     float64
		plateaued bool
	}{
		{nil, 5, false},
		{[]float64{5}, 5, false},
		{[]float64{5, 5}, 5, true},
		{[]float64{5, 5}, 6, true},
		{[]float64{5, 5}, 6.5, false},
		{[]float64{3, 5}, 5, false},
		{[]float64{5, 3}, 5, false},
		{[]float64{1, 5, 5}, 6, true},
		{[]float64{5, 5, 1}, 6, false},
		{[]float64{7, 7}, 2, true},
		{[]float64{9, 9}, 9, false}, // it passes
	} {
		t.Run(fmt.Sprint(c.history, c.score), func(t *testing.T) {
			t.Parallel()
			p := alone()
			p.CallsPerRound = 9
			s := New(p)
			s.Learn(Result{Status: validationError})
			for _, score := range c.history {
				s.Learn(Result{Status: accepted, Items: []item{{ID: "E1", Score: score}}})
			}
			r := s.judgeChecklist(scores(fmt.Sprintf(`{"E1": %v, "E2": 1}`, c.score)))
			require.Equal(t, accepted, r.Status)
			if !c.plateaued {
				require.Empty(t, r.PlateauedCriteria)
				return
			}
			require.Equal(t, []plateau{{
				ID: "E1", Text: "Correct.", Category: "primary", CurrentScore: c.score,
				ScoreHistory: append(c.history[len(c.history)-2:len(c.history):len(c.history)], c.score),
			}}, r.PlateauedCriteria)
		})
	}
}

// Accepted results of this step become part of the history.
func TestSubmit_plateauWithinStep(t *testing.T) {
	t.Parallel()
	p := alone()
	p.CallsPerRound = 3
	s := New(p)
	for i := range 3 {
		r := submit(t, s, `{"E1": 5, "E2": 9}`)
		require.Len(t, r.PlateauedCriteria, i/2)
	}
}

// Calls in one reply are answered in order without changing the state. A restored step that learns
// their results continues in the same way.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	calls := []llm.ToolCall{
		{ID: "a", Name: proposeImprovements, Arguments: goodPlan},
		{ID: "b", Name: submitChecklist, Arguments: scores(poor)},
		{ID: "c", Name: "read_file", Arguments: `{}`},
		{ID: "d", Name: submitChecklist, Arguments: scores(good)},
		{ID: "e", Name: proposeImprovements, Arguments: goodPlan},
	}
	s := New(pair())
	told, results, _ := s.Evaluate(calls)
	require.Len(t, told, 4)
	require.Len(t, results, 2)
	require.Contains(t, told["a"], checklistRequired)
	require.Contains(t, told["b"], accepted)
	require.Contains(t, told["d"], quotaUsed)
	require.Contains(t, told["e"], `"valid":true`)
	again, _, _ := s.Evaluate(calls)
	require.Equal(t, told, again)

	restored := New(pair())
	for i, id := range []string{"b", "d"} {
		require.Equal(t, told[id], encodeJSON(results[i]))
		restored.Learn(decoded(t, told[id]))
		s.Learn(results[i])
	}
	restored.Injected([]string{"agent1.2"})
	s.Injected([]string{"agent1.2"})
	require.Equal(t, s, restored)
	told, _, _ = restored.Evaluate(calls)
	require.Contains(t, told["b"], missingAgentScores)
}

func TestSubmit_invalidText(t *testing.T) {
	t.Parallel()
	require.True(t, json.Valid([]byte(encodeJSON(New(pair()).judgeChecklist("\xff")))))
}

// decoded decodes a result like a restored step.
func decoded(t *testing.T, text string) (r Result) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	return r
}
