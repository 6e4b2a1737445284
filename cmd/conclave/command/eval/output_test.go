package eval

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/eval"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
)

func TestOutput_goesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	was := settings{ID: "x", DataHash: "d", Team: "t", Arms: []string{"single", "team"}}
	o, err := openOutput(dir, was)
	require.NoError(t, err)
	_, err = openOutput(dir, was)
	require.ErrorContains(t, err, "another eval run writes to "+dir)
	require.NoError(t, o.addSample(eval.Sample{ID: "a", Epoch: 1, Arm: "team"}))
	o.close()

	file := filepath.Join(dir, samplesFile)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(data, `{"id":"b","epoch":1,"arm":"te`...), 0o600))
	later := settings{ID: "x", DataHash: "d", Team: "t", Arms: []string{"team", "plain"}, Others: map[string]string{"team-b": "1", "grader": "1"}}
	o, err = openOutput(dir, later)
	require.NoError(t, err)
	require.True(t, o.hasOutcome(eval.Key{ID: "a", Epoch: 1, Arm: "team"}))
	require.False(t, o.hasOutcome(eval.Key{ID: "b", Epoch: 1, Arm: "team"}), "it was cut off")
	require.Equal(t, []string{"team", "plain", "single"}, o.settings.Arms, "arms of an earlier run stay in the report")
	require.NoError(t, o.addSample(eval.Sample{ID: "b", Epoch: 1, Arm: "team"}))
	o.close()
	o, err = readEvaluation(dir)
	require.NoError(t, err)
	require.Len(t, o.samples, 2)

	for name, tc := range map[string]struct {
		now  settings
		want string
	}{
		"another evaluation": {settings{ID: "y", DataHash: "d", Team: "t"}, "belongs to the evaluation x"},
		"other questions":    {settings{ID: "x", DataHash: "e", Team: "t"}, "has outcomes with another file of questions; choose another --id"},
		"another team":       {settings{ID: "x", DataHash: "d", Team: "u"}, "with another team; choose another --id"},
		"another scorer":     {settings{ID: "x", DataHash: "d", Team: "t", Scorer: "exact"}, "with another scorer"},
		"a changed rival":    {settings{ID: "x", DataHash: "d", Team: "t", Others: map[string]string{"team-b": "2"}}, "with another team in the arm team-b"},
		"another grader":     {settings{ID: "x", DataHash: "d", Team: "t", Others: map[string]string{"grader": "2"}}, "with another grader"},
	} {
		_, err := openOutput(dir, tc.now)
		require.ErrorContains(t, err, tc.want, name)
	}
}

// The ID of an evaluation belongs to its questions, teams and grader, in any directory.
func TestSettings_claim(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	first := settings{ID: "x", DataHash: "d", Team: "t"}
	require.NoError(t, first.claimID(t.Context(), store))
	require.NoError(t, first.claimID(t.Context(), store), "the same command goes on")
	graded := settings{ID: "x", DataHash: "d", Team: "t", Others: map[string]string{"grader": "1"}}
	require.NoError(t, graded.claimID(t.Context(), store), "a grader can be added")
	require.NoError(t, settings{ID: "y", DataHash: "e", Team: "t"}.claimID(t.Context(), store))
	for want, now := range map[string]settings{
		"with another file of questions; choose another --id": {ID: "x", DataHash: "e", Team: "t"},
		"with another grader": {ID: "x", DataHash: "d", Team: "t", Others: map[string]string{"grader": "2"}},
	} {
		require.ErrorContains(t, now.claimID(t.Context(), store), want)
	}
}

// Runs that earlier outcomes have paid for are not counted again when an arm is added.
func TestUnit_chargesOnce(t *testing.T) {
	t.Parallel()
	o := &output{samples: []eval.Sample{
		{ID: "q", Epoch: 1, Arm: "team", Runs: []string{"eval-x-q-1"}},
		{ID: "q", Epoch: 2, Arm: "team", Runs: []string{"eval-x-q-2"}},
	}}
	u := newUnit(&runner{out: o}, eval.Question{ID: "q"}, 1)
	for _, id := range []string{"eval-x-q-1", "eval-x-q-1-plain", "eval-x-q-1-plain"} {
		u.chargeRun(id, llm.Usage{InputTokens: 10, ModelCalls: 1})
	}
	require.EqualValues(t, 10, u.spent.InputTokens)
	require.Equal(t, []string{"eval-x-q-1-plain"}, u.runs)
}

// The line of a question says why arms have no outcome, each reason once.
func TestUnit_saysWhyItFailed(t *testing.T) {
	t.Parallel()
	right := true
	o := &output{samples: []eval.Sample{
		{ID: "q", Epoch: 1, Arm: "single", Failed: "BadRequest: the model\nrefuses"},
		{ID: "q", Epoch: 1, Arm: "plain", Correct: &right},
		{ID: "q", Epoch: 1, Arm: "team", Failed: "BadRequest: the model\nrefuses"},
		{ID: "q2", Epoch: 1, Arm: "team", Failed: "of another"},
	}}
	u := newUnit(&runner{out: o}, eval.Question{ID: "q"}, 1)
	require.Equal(t, "single failed, plain right, team failed (BadRequest: the model refuses)", u.outcomeWords())
}

// The page links to the pages of sessions that are there, and escapes the texts of models.
func TestDraw(t *testing.T) {
	t.Parallel()
	right := true
	samples := []eval.Sample{
		{ID: "b", Epoch: 1, Arm: "team", Extracted: "<b>42</b>", Correct: &right, SessionID: "eval-x-b-1"},
		{ID: "a", Epoch: 1, Arm: "single", Failed: "nobody answered", SessionID: "eval-x-a-1"},
	}
	arms, err := eval.ParseArms("single,team")
	require.NoError(t, err)
	html, err := drawIndex(settings{ID: "x"}, eval.Summarize(samples, arms), samples, map[string]bool{"eval-x-b-1.html": true})
	require.NoError(t, err)
	require.Contains(t, string(html), `<a class="chip right" href="sessions/eval-x-b-1.html" title="eval-x-b-1">right</a>`)
	require.Contains(t, string(html), `<span class="chip failed" title="eval-x-a-1">failed</span><small>nobody answered</small>`, "without a page there is no link")
	require.Contains(t, string(html), "<td>–</td>", "an arm without an outcome")
	require.Contains(t, string(html), "&lt;b&gt;42&lt;/b&gt;")
	require.NotContains(t, string(html), "<b>42")
}

// A known price is printed in dollars, and an offline model is named.
func TestDraw_cost(t *testing.T) {
	t.Parallel()
	right, usd := true, 0.0216
	samples := []eval.Sample{
		{ID: "a", Epoch: 1, Arm: "team", Correct: &right, Cost: llm.Usage{TotalUSD: &usd, ModelCalls: 1}},
		{ID: "a", Epoch: 1, Arm: "single", Correct: &right, Cost: llm.Usage{TotalUSD: &usd, ModelCalls: 1}},
	}
	arms, err := eval.ParseArms("single,team")
	require.NoError(t, err)
	html, err := drawIndex(settings{ID: "x", Offline: "no language model is asked"}, eval.Summarize(samples, arms), samples, nil)
	require.NoError(t, err)
	require.NotContains(t, string(html), "%!")
	require.Contains(t, string(html), ">$0.0216<")
	require.Contains(t, string(html), "no language model is asked")
	require.Contains(t, string(html), eval.Judged)
}

func TestSampling(t *testing.T) {
	t.Parallel()
	team, err := config.Parse("team.yaml", []byte(`
agents:
  - {id: one, backend: {model: m, params: {seed: 7}}}
  - {id: two, backend: {model: m, params: {seed: 8, temperature: 1}}, system_message: Be brief.}
orchestrator: {coordination_mode: voting, ballot: checks_decide, max_revotes: 3, text_answers: always, think_first: "off"}
`), config.Local)
	require.NoError(t, err)
	more := samplingTeam(team, 2, 3)
	require.Equal(t, []string{"sample_3", "sample_4", "sample_5"}, []string{more.Agents[0].ID, more.Agents[1].ID, more.Agents[2].ID})
	require.EqualValues(t, 7+1_000_003, more.Agents[0].Backend.Params["seed"], "the second answer of the same agent")
	require.Equal(t, "Be brief.", more.Agents[1].SystemMessage)
	require.EqualValues(t, 7+2*1_000_003, more.Agents[2].Backend.Params["seed"])
	require.True(t, more.Orchestrator.SkipVoting)
	require.True(t, more.Orchestrator.SkipFinalPresentation)
	require.Equal(t, "always", more.Orchestrator.TextAnswers)
	require.False(t, more.Orchestrator.RunsChecks())
	require.EqualValues(t, 7, team.Agents[0].Backend.Params["seed"], "the team is unchanged")

	data, err := more.Canonical()
	require.NoError(t, err)
	_, err = config.Parse("team.json", data, config.Local)
	require.NoError(t, err, "workers accept it")
}
