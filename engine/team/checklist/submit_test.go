package checklist_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/team/checklist"
)

// pair is a step of an agent with an answer, beside a peer's; two criteria, and
// a bar of 8.
func pair() checklist.Policy {
	return checklist.Policy{
		Criteria: []checklist.Criterion{{Text: "Correct.", Category: "primary"}, {Text: "Complete.", Category: "standard"}},
		Answers:  1,
		Labels:   []string{"agent1.1", "agent2.1"},
		Own:      "agent2.1",
	}
}

// alone shows the agent's own answer only.
func alone() checklist.Policy {
	p := pair()
	p.Labels = []string{"agent2.1"}
	return p
}

// part is a step of a divided task.
func part() checklist.Policy {
	p := pair()
	p.Decomposition = true
	return p
}

// first is a step of an agent that has no answer and may have a checklist.
func first() checklist.Policy {
	p := pair()
	p.Own, p.Answers, p.FirstAnswer = "", 0, true
	return p
}

// scores wraps the JSON of scores into arguments.
func scores(object string) string { return `{"scores": ` + object + `}` }

// submit gives the state a checklist that has to be accepted.
func submit(t *testing.T, s *checklist.State, object string) checklist.Result {
	t.Helper()
	r := s.Submit(scores(object))
	require.Equal(t, checklist.Accepted, r.Status, r.Explanation)
	s.Learn(r)
	return r
}

const (
	good = `{"agent1.1": {"E1": 9, "E2": 8}, "agent2.1": {"E1": 5, "E2": 5}}`
	poor = `{"agent1.1": {"E1": 9, "E2": 4}, "agent2.1": {"E1": 5, "E2": 5}}`
)

// "submit_checklist: accepted path: status=accepted + verdict; invalid path:
// status=validation_error, requires_resubmission=true, no verdict" (seed 001),
// and each way in which a payload is invalid.
func TestSubmit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy    checklist.Policy
		arguments string
		code      string // of an error
		verdict   string // of an accepted one
	}{
		"per agent, the best passes":        {pair(), scores(good), "", checklist.Vote},
		"per agent, the best fails in one":  {pair(), scores(poor), "", checklist.NewAnswer},
		"an entry may be an object":         {pair(), scores(`{"agent1.1": {"E1": {"score": 9, "reasoning": "r"}, "E2": 8.5}, "agent2.1": {"E1": 5, "E2": 5}}`), "", checklist.Vote},
		"an object without score counts 0":  {alone(), scores(`{"E1": {"reasoning": "fine"}, "E2": 9}`), "", checklist.NewAnswer},
		"T1 is another name of E1":          {alone(), scores(`{"T1": 9, "t2": 9}`), "", checklist.Vote},
		"scores as text":                    {alone(), `{"scores": "{\"E1\":   9, \"E2\": 9}"}`, "", checklist.Vote},
		"an agent stands for its revision":  {pair(), scores(`{"agent1": {"E1": 9, "E2": 9}, "agent2": {"E1": 5, "E2": 5}}`), "", checklist.Vote},
		"labels beyond those shown":         {pair(), scores(`{"agent1.1": {"E1": 5, "E2": 5}, "agent2.1": {"E1": 5, "E2": 5}, "agent9.1": {"E1": 10, "E2": 10}, "note": "hm"}`), "", checklist.NewAnswer},
		"flat with one answer shown":        {alone(), scores(`{"E1": 9, "E2": 9}`), "", checklist.Vote},
		"the own label is always shown":     {checklist.Policy{Own: "agent1.1"}, scores(`{"agent1.1": {"E1": 9, "E2": 9, "E3": 9, "E4": 9, "E5": 9}}`), "", checklist.Vote},
		"part: flat":                        {part(), scores(`{"E1": 9, "E2": 9}`), "", checklist.Stop},
		"part: by the own label":            {part(), scores(`{"agent2.1": {"E1": 9, "E2": 9}, "agent1.1": {"E1": 1}}`), "", checklist.Stop},
		"part: one entry":                   {part(), scores(`{"mine": {"E1": 9, "E2": 9}}`), "", checklist.Stop},
		"first: the verdict is to go on":    {first(), scores(`{"E1": 10, "E2": 10}`), "", checklist.NewAnswer},
		"first: gaps count 0":               {first(), scores(`{"E1": 10}`), "", checklist.NewAnswer},
		"first: nothing at all":             {first(), scores(`{}`), "", checklist.NewAnswer},
		"first: answers, one of two":        {first(), scores(`{"agent1.1": {"E1": 10}}`), "", checklist.NewAnswer},
		"the bounds of the range":           {alone(), scores(`{"E1": 0, "E2": 10}`), "", checklist.NewAnswer},
		"no JSON":                           {pair(), `scores`, checklist.ScoresTypeInvalid, ""},
		"no scores":                         {pair(), `{}`, checklist.ScoresTypeInvalid, ""},
		"scores null":                       {pair(), scores(`null`), checklist.ScoresTypeInvalid, ""},
		"scores an array":                   {pair(), scores(`[9, 9]`), checklist.ScoresTypeInvalid, ""},
		"a score as text":                   {alone(), scores(`{"E1": "9", "E2": 9}`), checklist.ScoresTypeInvalid, ""},
		"a score true":                      {alone(), scores(`{"E1": {"score": true}, "E2": 9}`), checklist.ScoresTypeInvalid, ""},
		"above the range":                   {alone(), scores(`{"E1": 11, "E2": 9}`), checklist.ScoresOutOfRange, ""},
		"below the range":                   {pair(), scores(`{"agent1.1": {"E1": 9, "E2": {"score": -3}}, "agent2.1": {"E1": 5, "E2": 5}}`), checklist.ScoresOutOfRange, ""},
		"beyond all numbers":                {first(), scores(`{"E1": 1e999}`), checklist.ScoresOutOfRange, ""},
		"part: several entries, none own":   {part(), scores(`{"agent1.1": {"E1": 9, "E2": 9}, "agent3.1": {"E1": 9, "E2": 9}}`), checklist.DecompositionScoresInvalid, ""},
		"part: no entry":                    {part(), scores(`{}`), checklist.DecompositionScoresInvalid, ""},
		"part: a criterion missing":         {part(), scores(`{"E1": 9}`), checklist.MissingCriteriaScores, ""},
		"flat with two answers shown":       {pair(), scores(`{"E1": 9, "E2": 9}`), checklist.FlatScoresDisallowed, ""},
		"an agent's criterion missing":      {pair(), scores(`{"agent1.1": {"E1": 9}, "agent2.1": {"E1": 5, "E2": null}}`), checklist.IncompleteAgentCriteria, ""},
		"incomplete comes before missing":   {pair(), scores(`{"agent1.1": {"E1": 9}}`), checklist.IncompleteAgentCriteria, ""},
		"an answer missing":                 {pair(), scores(`{"agent1.1": {"E1": 9, "E2": 9}}`), checklist.MissingAgentScores, ""},
		"an entry that is no object":        {pair(), scores(`{"agent1.1": {"E1": 9, "E2": 9}, "agent2.1": 9}`), checklist.MissingAgentScores, ""},
		"an older revision is not the same": {pair(), scores(`{"agent1.0": {"E1": 9, "E2": 9}, "agent2.1": {"E1": 9, "E2": 9}}`), checklist.MissingAgentScores, ""},
		"flat, a criterion missing":         {alone(), scores(`{"E1": 9}`), checklist.MissingCriteriaScores, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := checklist.New(c.policy)
			r := s.Submit(c.arguments)
			require.Equal(t, c.code, r.ErrorCode, r.Explanation)
			require.Equal(t, c.verdict, r.Verdict, r.Explanation)
			require.NotEmpty(t, r.Explanation)
			require.Equal(t, c.code != "", r.RequiresResubmission)
			require.False(t, s.Submitted(), "evaluating changes nothing")
			if c.code != "" {
				require.Equal(t, checklist.ValidationError, r.Status)
				require.Zero(t, r.TrueCount)
				require.Empty(t, r.Items)
				return
			}
			require.Equal(t, checklist.Accepted, r.Status)
			s.Learn(r)
			require.True(t, s.Submitted())
		})
	}
}

// "Default behavior blocks checklist before first answer unless
// checklist_first_answer: true" (seed 001). Scores that are no object are told
// first; the block itself cannot be mended.
func TestFirstAnswerBlocks(t *testing.T) {
	t.Parallel()
	p := first()
	p.FirstAnswer = false
	s := checklist.New(p)
	require.Equal(t, checklist.ScoresTypeInvalid, s.Submit(`{}`).ErrorCode)
	r := s.Submit(scores(good))
	require.Equal(t, checklist.FirstAnswerRequired, r.ErrorCode)
	require.False(t, r.RequiresResubmission)
}

// "max_checklist_calls_per_round prevents in-round checklist loops" (seed 001):
// only accepted checklists count.
func TestQuota(t *testing.T) {
	t.Parallel()
	for calls := range 4 {
		p := pair()
		p.CallsPerRound = calls
		s := checklist.New(p)
		for range max(calls, 1) {
			bad := s.Submit(scores(`{"agent1.1": {}}`))
			require.True(t, bad.RequiresResubmission)
			s.Learn(bad)
			submit(t, s, poor)
		}
		r := s.Submit(scores(good))
		require.Equal(t, checklist.QuotaUsed, r.ErrorCode)
		require.False(t, r.RequiresResubmission)
		require.Contains(t, r.Explanation, "new_answer")
		s.Learn(r)
		require.NotEqual(t, checklist.ChecklistRequired, s.Propose(`{}`).ErrorCode, "the accepted one still counts")
	}
}

// The strongest answer decides: the highest sum of scores, the first one on a
// tie, and nothing but its own scores.
func TestStrongestDecides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ scores, best, verdict string }{
		"the first":                {`{"agent1.1": {"E1": 9, "E2": 9}, "agent2.1": {"E1": 8, "E2": 8}}`, "agent1.1", checklist.Vote},
		"the second":               {`{"agent1.1": {"E1": 8, "E2": 8}, "agent2.1": {"E1": 9, "E2": 9}}`, "agent2.1", checklist.Vote},
		"a tie":                    {`{"agent2.1": {"E1": 8, "E2": 8}, "agent1.1": {"E1": 10, "E2": 6}}`, "agent1.1", checklist.NewAnswer},
		"a higher sum that fails":  {`{"agent1.1": {"E1": 8, "E2": 8}, "agent2.1": {"E1": 10, "E2": 7}}`, "agent2.1", checklist.NewAnswer},
		"no joining of two halves": {`{"agent1.1": {"E1": 10, "E2": 1}, "agent2.1": {"E1": 1, "E2": 10}}`, "agent1.1", checklist.NewAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := checklist.New(pair()).Submit(scores(c.scores))
			require.Equal(t, c.best, r.BestAgent)
			require.Equal(t, c.verdict, r.Verdict)
			require.Len(t, r.PerAgentScores, 2)
		})
	}
}

// What is guidance stays guidance: categories do not weigh, and report_path is
// noted without being looked at.
func TestGuidanceDecidesNothing(t *testing.T) {
	t.Parallel()
	p := pair()
	p.Criteria[1].Category = "stretch"
	r := checklist.New(p).Submit(`{"scores": ` + poor + `, "report_path": "no/such/file.md"}`)
	require.Equal(t, checklist.NewAnswer, r.Verdict, "a failed stretch criterion fails like any other")
	require.Equal(t, "no/such/file.md", r.ReportPath)
	require.Equal(t, checklist.Accepted, checklist.New(p).Submit(`{"scores": `+poor+`, "report_path": 7}`).Status)
}

// A result says what the model needs, in the agreed keys.
func TestTold(t *testing.T) {
	t.Parallel()
	told := checklist.New(pair()).Submit(scores(poor)).Told()
	require.JSONEq(t, `{
		"status": "accepted", "verdict": "new_answer", "requires_resubmission": false,
		"explanation": "1 of 2 criteria pass, 2 have to. Failed: E2. Call propose_improvements next, do what it plans, then call new_answer.",
		"true_count": 1, "required": 2,
		"items": [{"id": "E1", "score": 9, "passed": true}, {"id": "E2", "score": 4, "passed": false}],
		"failed_criteria": ["E2"], "plateaued_criteria": [], "best_agent": "agent1.1",
		"per_agent_scores": {"agent1.1": {"E1": 9, "E2": 4}, "agent2.1": {"E1": 5, "E2": 5}}
	}`, told)
	told = checklist.New(pair()).Submit(scores(`{"agent1.1": {"E1": 9}, "agent2.1": {}}`)).Told()
	require.JSONEq(t, `{
		"status": "validation_error", "error_code": "incomplete_agent_criteria", "requires_resubmission": true,
		"explanation": "Every answer needs a score for every criterion. Missing: agent1.1 E2, agent2.1 E1, agent2.1 E2. Mend it and call submit_checklist again.",
		"incomplete_scores": ["agent1.1 E2", "agent2.1 E1", "agent2.1 E2"],
		"true_count": 0, "required": 2, "items": [], "failed_criteria": [], "plateaued_criteria": []
	}`, told)
	require.Contains(t, checklist.New(pair()).Submit(scores(good)).Explanation, "End with vote, for agent1.1.")
	require.Contains(t, checklist.New(part()).Submit(scores(`{"E1": 9, "E2": 9}`)).Explanation, "End with stop.")
	require.Contains(t, checklist.New(first()).Submit(scores(`{"E1": 9, "E2": 9}`)).Explanation, "Submit your work with new_answer.")
}

// Plateaued is a failed criterion that is not more than a point above either of
// the last two accepted results.
func TestPlateau(t *testing.T) {
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
			p.History = []checklist.Result{{Status: checklist.ValidationError}}
			for _, score := range c.history {
				p.History = append(p.History, checklist.Result{Status: checklist.Accepted, Items: []checklist.Item{{ID: "E1", Score: score}}})
			}
			r := checklist.New(p).Submit(scores(fmt.Sprintf(`{"E1": %v, "E2": 1}`, c.score)))
			require.Equal(t, checklist.Accepted, r.Status)
			if !c.plateaued {
				require.Empty(t, r.PlateauedCriteria)
				return
			}
			require.Equal(t, []checklist.Plateau{{
				ID: "E1", Text: "Correct.", Category: "primary", CurrentScore: c.score,
				ScoreHistory: append(c.history[len(c.history)-2:len(c.history):len(c.history)], c.score),
			}}, r.PlateauedCriteria)
		})
	}
}

// Accepted results of this step join the history.
func TestPlateauWithinStep(t *testing.T) {
	t.Parallel()
	p := alone()
	p.CallsPerRound = 3
	s := checklist.New(p)
	for i := range 3 {
		r := submit(t, s, `{"E1": 5, "E2": 9}`)
		require.Len(t, r.PlateauedCriteria, i/2)
	}
}

// Calls of one reply are answered in order, and evaluating them changes nothing;
// a restored step that learns what was told goes on as the first one did.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	calls := []llm.ToolCall{
		{ID: "a", Name: checklist.ProposeImprovements, Arguments: plan},
		{ID: "b", Name: checklist.SubmitChecklist, Arguments: scores(poor)},
		{ID: "c", Name: "read_file", Arguments: `{}`},
		{ID: "d", Name: checklist.SubmitChecklist, Arguments: scores(good)},
		{ID: "e", Name: checklist.ProposeImprovements, Arguments: plan},
	}
	s := checklist.New(pair())
	told := s.Evaluate(calls)
	require.Len(t, told, 4)
	require.Contains(t, told["a"], checklist.ChecklistRequired)
	require.Contains(t, told["b"], checklist.Accepted)
	require.Contains(t, told["d"], checklist.QuotaUsed)
	require.Contains(t, told["e"], `"valid":true`)
	require.Equal(t, told, s.Evaluate(calls))

	restored := checklist.New(pair())
	for _, id := range []string{"b", "d"} {
		r, ok := checklist.Read(told[id])
		require.True(t, ok)
		require.JSONEq(t, told[id], r.Told())
		restored.Learn(r)
		s.Learn(r)
	}
	restored.Injected([]string{"agent1.2"})
	s.Injected([]string{"agent1.2"})
	require.Equal(t, s, restored)
	require.Contains(t, restored.Evaluate(calls)["b"], checklist.MissingAgentScores)
}

// Only what was told by a checklist is read back.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, told := range []string{"", "Nothing was submitted.", "null", "{}", `{"status": "accepted"}`, `{"status": "validation_error"}`, `{"valid": true}`, `{"status": "accepted", "verdict": 7}`} {
		_, ok := checklist.Read(told)
		require.False(t, ok, told)
	}
	require.True(t, json.Valid([]byte(checklist.New(pair()).Submit("\xff").Told())))
}
