package files

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/session/quality"
)

// evaluated is the store of stepsOf with an evaluation of the answer of step 1.
func evaluated(t *testing.T) *cli.Connection {
	t.Helper()
	p := stepsOf(t)
	layout := artifact.InBucket("s1")
	put := func(name string, document any) {
		require.NoError(t, artifact.PutJSON(t.Context(), p.Store, layout.Step("agent_a", 1, record.Evaluations+name), document))
	}
	put("step.json", artifact.Claim{Token: "e1"})
	put("action.json", artifact.Commit{Token: "e1", Kind: string(coordination.SubmitEvaluation), Payload: []byte(`{}`)})
	put("verdict.json", quality.Rating{Verdict: coordination.Iterate, Scores: map[string]float64{"E1": 6, "E2": 5.5}})
	line := `{"time":"2026-11-22T09:00:00Z","kind":"opening","messages":[{"role":"system","content":"You evaluate one answer."}]}` + "\n"
	require.NoError(t, p.Store.Put(t.Context(), layout.Step("agent_a", 1, record.Evaluations+"transcript.jsonl"), strings.NewReader(line)))
	return p
}

func TestTranscript_evaluation(t *testing.T) {
	t.Parallel()
	p := evaluated(t)
	code, stdout, stderr := asked(t, cli.CLI{}, p, stepRequest{run: "s1", agent: "agent_a", step: 1})
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "evaluated: iterate · E1 6 · E2 5.5; `conclave transcript")
	require.Contains(t, stdout, "--evaluation` shows it")

	code, stdout, stderr = asked(t, cli.CLI{}, p, stepRequest{run: "s1", agent: "agent_a", step: 1, evaluation: true})
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "agent_a · step 001 · evaluation of its answer · ")
	require.Contains(t, stdout, "You evaluate one answer.")
	require.NotContains(t, stdout, "evaluated: ")
}

func TestTranscript_noEvaluation(t *testing.T) {
	t.Parallel()
	p := evaluated(t)
	code, _, stderr := asked(t, cli.CLI{}, p, stepRequest{run: "s1", agent: "agent_a", step: 2, evaluation: true})
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "step agent_a 002 of session s1 has no evaluation")
	require.NoError(t, artifact.PutJSON(t.Context(), p.Store, "pipelines/p1/pipeline.json", struct{}{}))
	code, _, stderr = asked(t, cli.CLI{}, p, stepRequest{run: "p1", agent: "main", step: 1, evaluation: true})
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "only answers of sessions are evaluated, and p1 is a pipeline run")
}
