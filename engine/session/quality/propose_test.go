package quality

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"
)

// goodPlan is a valid proposal after a checklist in which E2 failed.
const goodPlan = `{
	"improvements": {"E2": [{"plan": "Add the missing half.", "sources": ["agent1.1", 7], "impact": "structural"}, "Mend the table."]},
	"preserve": {"E1": {"what": "The proof.", "source": "agent1.1"}}
}`

// "propose_improvements is only valid after the latest accepted iterate checklist
// result" (seed 001), and only when nothing is pending.
func TestPropose_afterIterate(t *testing.T) {
	t.Parallel()
	p := pair()
	p.CallsPerRound = 2
	s := New(p)
	require.Equal(t, checklistRequired, s.judgeProposal(goodPlan).ErrorCode)
	submit(t, s, poor)
	require.True(t, s.judgeProposal(goodPlan).Valid)

	s.Learn(s.judgeChecklist(scores(`{"agent1.1": {}}`)))
	require.Equal(t, checklistRequired, s.judgeProposal(goodPlan).ErrorCode, "the latest one has to be mended")
	submit(t, s, good)
	require.Equal(t, iterateRequired, s.judgeProposal(goodPlan).ErrorCode)

	s.Injected([]string{"agent1.2"})
	require.Equal(t, iterateRequired, s.judgeProposal(goodPlan).ErrorCode)
	submit(t, s, `{"agent1.2": {"E1": 9, "E2": 7}}`)
	s.Injected([]string{"agent1.3"})
	require.Equal(t, recheckRequired, s.judgeProposal(goodPlan).ErrorCode)
	submit(t, s, `{"agent1.3": {"E1": 9, "E2": 7}}`)
	require.True(t, s.judgeProposal(goodPlan).Valid)
}

// Every failed criterion needs a plan, one part must be preserved, and one improvement
// must be more than incremental.
func TestPropose(t *testing.T) {
	t.Parallel()
	const keep = `, "preserve": {"E1": "The proof."}}`
	for name, c := range map[string]struct {
		scores, arguments, code string
		missing, empty          []string
	}{
		"valid":                           {arguments: goodPlan},
		"another name of the criterion":   {arguments: `{"improvements": {"t2": [{"plan": "p", "impact": "transformative"}]}, "preserve": {"T1": "The proof."}}`},
		"objects as text":                 {arguments: `{"improvements": "{\"E2\": {\"plan\": \"p\", \"impact\": \"structural\"}}", "preserve": "{\"E1\": \"x\"}"}`},
		"the same improved and preserved": {arguments: `{"improvements": {"E2": [{"plan": "p", "impact": "structural"}]}, "preserve": {"E2": "Its first half."}}`},
		"a bold one that is not planned":  {arguments: `{"improvements": {"E2": ["p"], "E1": [{"plan": "p", "impact": "structural"}]}` + keep},
		"no JSON":                         {arguments: `plan`, code: improvementsTypeInvalid},
		"improvements an array":           {arguments: `{"improvements": ["p"]` + keep, code: improvementsTypeInvalid},
		"improvements missing":            {arguments: `{"improvements": {}` + keep, code: improvementsIncomplete, missing: []string{"E2"}},
		"missing and empty": {
			scores:    `{"agent1.1": {"E1": 5, "E2": 5}, "agent2.1": {"E1": 1, "E2": 1}}`,
			arguments: `{"improvements": {"E1": [" ", {"sources": ["agent1.1"]}], "E3": ["p"]}` + keep,
			code:      improvementsIncomplete, missing: []string{"E2"}, empty: []string{"E1"},
		},
		"preserve missing":           {arguments: `{"improvements": {"E2": ["p"]}}`, code: preserveRequired},
		"preserve empty":             {arguments: `{"improvements": {"E2": ["p"]}, "preserve": {}}`, code: preserveRequired},
		"preserve of no criterion":   {arguments: `{"improvements": {"E2": ["p"]}, "preserve": {"E1": "x", "E3": "y"}}`, code: preserveUnknown},
		"preserve without a text":    {arguments: `{"improvements": {"E2": ["p"]}, "preserve": {"E1": {"source": "agent1.1"}}}`, code: preserveEmpty},
		"preserve null":              {arguments: `{"improvements": {"E2": ["p"]}, "preserve": {"E1": null}}`, code: preserveEmpty},
		"preserve nothing":           {arguments: `{"improvements": {"E2": ["p"]}, "preserve": {"E1": []}}`, code: preserveEmpty},
		"a text is incremental":      {arguments: `{"improvements": {"E2": ["p"]}` + keep, code: impactTooSmall},
		"an unknown impact is, too":  {arguments: `{"improvements": {"E2": [{"plan": "p", "impact": "huge"}]}` + keep, code: impactTooSmall},
		"a bold one of no criterion": {arguments: `{"improvements": {"E2": ["p"], "E9": [{"plan": "p", "impact": "structural"}]}` + keep, code: impactTooSmall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(pair())
			submit(t, s, cmp.Or(c.scores, poor))
			p := s.judgeProposal(c.arguments)
			require.Equal(t, c.code, p.ErrorCode, p.Error)
			require.Equal(t, c.code == "", p.Valid)
			require.Equal(t, c.missing, p.MissingCriteria)
			require.Equal(t, c.empty, p.EmptyCriteria)
			require.Equal(t, p.Valid, p.Error == "")
		})
	}
}

// The plan has an improve task for each improvement of a failed criterion, in the order
// of the criteria, and one check of the preserved parts.
func TestPropose_plan(t *testing.T) {
	t.Parallel()
	s := New(pair())
	submit(t, s, poor)
	require.JSONEq(t, `{
		"valid": true,
		"task_plan": [
			{"task_id": "E2.1", "type": "improve", "criterion_id": "E2", "criterion_text": "Complete.", "plan": "Add the missing half.", "sources": ["agent1.1"], "impact": "structural"},
			{"task_id": "E2.2", "type": "improve", "criterion_id": "E2", "criterion_text": "Complete.", "plan": "Mend the table.", "impact": "incremental"},
			{"task_id": "verify_preserve", "type": "verify_preserve", "preserve": [{"criterion_id": "E1", "what": "The proof.", "source": "agent1.1"}]}
		],
		"message": "Do these tasks in order and check each; they are your plan now, which ends with the verification memo. Then submit the whole with new_answer."
	}`, encodeJSON(s.judgeProposal(goodPlan)))

	require.Equal(t, &Proposal{Tasks: []PlanTask{
		{ID: "E2.1", Description: "Add the missing half.", Guidance: "Build on agent1.1.", Verification: "E2: Complete."},
		{ID: "E2.2", Description: "Mend the table.", Verification: "E2: Complete."},
	}, Preserve: []string{"E1: The proof. (agent1.1)"}}, s.judgeProposal(goodPlan).toProposal())

	s = New(pair())
	submit(t, s, `{"agent1.1": {"E1": 5, "E2": 5}, "agent2.1": {"E1": 1, "E2": 1}}`)
	p := s.judgeProposal(`{"improvements": {"E2": "b", "E1": [{"plan": "a", "impact": "structural"}]}, "preserve": {"E2": "y", "E1": ["x", {"what": "z"}]}}`)
	require.True(t, p.Valid, p.Error)
	require.Len(t, p.TaskPlan, 3)
	require.Equal(t, "a", p.TaskPlan[0].Plan)
	require.Equal(t, "b", p.TaskPlan[1].Plan)
	require.Equal(t, []kept{{CriterionID: "E1", What: "x"}, {CriterionID: "E1", What: "z"}, {CriterionID: "E2", What: "y"}}, p.TaskPlan[2].Preserve)
}

// If no criterion of a draft failed, the plan has no improvements.
func TestPropose_nothingFailed(t *testing.T) {
	t.Parallel()
	s := New(first())
	submit(t, s, `{"E1": 9, "E2": 9}`)
	p := s.judgeProposal(goodPlan)
	require.Equal(t, nothingFailed, p.ErrorCode)
	require.Contains(t, p.Error, "new_answer")
}
