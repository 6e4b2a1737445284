package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	"conclave/engine/step"
)

// A pass without required evidence is withdrawn once.
func TestConfirm_evidence(t *testing.T) {
	t.Parallel()
	fail := "nothing opened"
	for name, tc := range map[string]struct {
		kept     int
		status   scenario.Status
		required bool
		asked    bool
	}{
		"a pass without evidence": {status: scenario.Pass, required: true, asked: true},
		"a pass with evidence":    {kept: 1, status: scenario.Pass, required: true},
		"a pass that needs none":  {status: scenario.Pass},
		"a failure":               {status: scenario.Fail, required: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rules{}
			if tc.required {
				r.step.Pieces = func(context.Context) (int, error) { return tc.kept, nil }
			}
			reported := report{Status: tc.status, EvidencePaths: []string{"step-01/evidence/claimed.png"}}
			if tc.status == scenario.Fail {
				reported.Error = &fail
			}
			action := *r.acceptReport(reported)
			u, err := r.Confirm(t.Context(), action)
			require.NoError(t, err)
			require.Equal(t, tc.asked, len(u.Messages) == 1)
			if !tc.asked {
				return
			}
			require.Contains(t, u.Messages[0].Content, "Record what shows the outcome with record_evidence")
			r.learn(t, u)
			again, err := r.Confirm(t.Context(), action)
			require.NoError(t, err)
			require.Empty(t, again.Messages, "the verdict of the run says that the evidence is missing")
		})
	}
}

// Rules restored from the journal do not ask again.
func TestLearn_restores(t *testing.T) {
	t.Parallel()
	first := &rules{step: Step{Pieces: func(context.Context) (int, error) { return 0, nil }}}
	u, err := first.Confirm(t.Context(), *first.acceptReport(report{Status: scenario.Pass}))
	require.NoError(t, err)
	restored := &rules{step: first.step}
	restored.learn(t, u)
	require.True(t, restored.reminded)
	u, err = restored.Confirm(t.Context(), *restored.acceptReport(report{Status: scenario.Pass}))
	require.NoError(t, err)
	require.Empty(t, u.Messages)

	require.NoError(t, restored.Learn(t.Context(), loop.Entry{Kind: loop.Updated}), "an update without a note")
	require.ErrorContains(t, restored.Learn(t.Context(), loop.Entry{Kind: loop.Updated, Note: []byte("{")}), "read the note of an update")
	restored.learn(t, loop.Update{Note: []byte(`{"heard":2}`)})
	restored.learn(t, loop.Update{Note: []byte(`{"heard":1}`)})
	require.Equal(t, 2, restored.heard)

	restored.used, restored.usage = 5, llm.Usage{ModelCalls: 9}
	require.NoError(t, restored.Learn(t.Context(), loop.Entry{Kind: loop.Resumed}))
	require.Zero(t, restored.usage)
	require.Equal(t, 5, restored.used)
	require.NoError(t, restored.Learn(t.Context(), loop.Entry{Kind: loop.BegunAgain}))
	require.Zero(t, restored.used, "the calls before are undone")
}

// If the store does not answer, the step fails instead of assuming that there is neither news nor
// evidence.
func TestRules_outages(t *testing.T) {
	t.Parallel()
	outage := errors.New("the storage does not answer")
	r := &rules{step: Step{
		News:   func(context.Context, int) ([]step.Message, error) { return nil, outage },
		Pieces: func(context.Context) (int, error) { return 0, outage },
	}}
	pass := *r.acceptReport(report{Status: scenario.Pass})
	_, err := r.Updates(t.Context())
	require.ErrorIs(t, err, outage)
	require.ErrorContains(t, err, "read the messages of people")
	_, err = r.Confirm(t.Context(), pass)
	require.ErrorIs(t, err, outage)
	r.step.News = nil
	_, err = r.Confirm(t.Context(), pass)
	require.ErrorIs(t, err, outage)
	_, err = r.Confirm(t.Context(), loop.Action{Payload: []byte("{")})
	require.ErrorContains(t, err, "read a report")
}

// The opening describes the state of the run's browser, and the agent's own system message comes
// first.
func TestOpening_parts(t *testing.T) {
	t.Parallel()
	s := newStep()
	s.System, s.Project = "You are careful.", " A shop. \n"
	s.Launch.Previous = &scenario.Previous{ID: "06", Status: scenario.Pass}
	for browser, says := range map[Browser]string{
		OwnBrowser: "", Continued: "as they left it: look at its page first", Renewed: "this one is new and empty",
	} {
		s.Browser = browser
		opening := s.openingMessages(nil)
		require.Len(t, opening, 2)
		require.True(t, strings.HasPrefix(opening[0].Content, "You are careful.\n\nYou carry out one step"))
		task := opening[1].Content
		require.True(t, strings.HasPrefix(task, "Execute step 07 of scenario buy.\n\n## Step content\n\nPay.\n"))
		require.Contains(t, task, "## Project context\n\nA shop.\n")
		require.Contains(t, task, "## Previous step\n\nstep 06: pass\n")
		require.Equal(t, says != "", strings.Contains(task, "## Browser"))
		require.Contains(t, task, says)
	}
	bare := newStep().openingMessages(nil)
	require.Contains(t, bare[1].Content, "(not described)")
	require.Contains(t, bare[1].Content, "## Previous step\n\nfirst step\n")
}

// The commit's documents and files match its report.
func TestStep_documents(t *testing.T) {
	t.Parallel()
	s := newStep()
	s.Agent = "tester"
	payload, err := json.Marshal(report{Status: scenario.Fail, Error: new("it did not open"), EvidencePaths: []string{}})
	require.NoError(t, err)
	sealed, err := sealReport(loop.Action{Kind: kindReported, Payload: payload})
	require.NoError(t, err)
	require.True(t, sealed.Workspace)
	require.JSONEq(t, string(payload), string(sealed.Payload))

	documents, err := s.commitDocuments(2, artifact.Commit{Kind: kindReported, Payload: payload})
	require.NoError(t, err)
	require.Len(t, documents, 1)
	require.Equal(t, "scenarios/buy/runs/r1/step-07/launch-2/last_action.json", documents[0].Key)
	require.True(t, documents[0].Replace)
	last, ok := documents[0].Body.(artifact.LastAction)
	require.True(t, ok)
	require.Equal(t, []string{"tester", "fail"}, []string{last.AgentID, last.Action})
	require.Equal(t, 2, last.StepNumber)
	_, err = s.commitDocuments(1, artifact.Commit{Kind: "vote", Payload: payload})
	require.ErrorContains(t, err, `unknown kind "vote"`)
}

// Any model's report is bounded and has a single verdict, with a reason if it is a failure.
func TestParse_anyReport(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 3*maxReported, -1)
		fields := map[string]any{
			"status":         rapid.SampledFrom([]string{"pass", "fail", "", "PASS", "skipped"}).Draw(t, "status"),
			"evidence_paths": rapid.SliceOfN(rapid.Just("p"), 0, 2*maxPaths).Draw(t, "paths"),
			"summary":        text.Draw(t, "summary"),
		}
		if rapid.Bool().Draw(t, "has error") {
			fields["error"] = text.Draw(t, "error")
		}
		arguments, err := json.Marshal(fields)
		require.NoError(t, err)
		r, problem := parseReport(string(arguments))
		if problem != "" {
			require.Zero(t, r)
			return
		}
		require.Equal(t, fields["status"], string(r.Status))
		require.Equal(t, r.Status == scenario.Fail, r.Error != nil)
		require.LessOrEqual(t, len(r.EvidencePaths), maxPaths)
		require.LessOrEqual(t, utf8.RuneCountInString(r.Summary), maxReported)
		if r.Error != nil {
			require.NotEmpty(t, strings.TrimSpace(*r.Error))
			require.LessOrEqual(t, utf8.RuneCountInString(*r.Error), maxReported)
		}
		again, err := json.Marshal(r)
		require.NoError(t, err)
		same, problem := parseReport(string(again))
		require.Empty(t, problem, "a report that was accepted is accepted again")
		require.Equal(t, r, same)
	})
}

// Long reports are truncated rather than refused.
func TestParse_bounds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", maxReported+1)
	arguments, err := json.Marshal(report{
		Status: scenario.Fail, Error: &long, Summary: long, EvidencePaths: strings.Fields(strings.Repeat("p ", maxPaths+1)),
	})
	require.NoError(t, err)
	r, problem := parseReport(string(arguments))
	require.Empty(t, problem)
	require.Len(t, r.EvidencePaths, maxPaths)
	require.Equal(t, long[:len("é")*maxReported], r.Summary)
	require.Equal(t, r.Summary, *r.Error)
}

// All fixed words of journals are listed exactly once.
func TestWords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, word := range Words() {
		require.NotEmpty(t, word)
		require.False(t, seen[word], word)
		seen[word] = true
	}
	for _, word := range []string{reportTool, kindReported, noReport, invalidReport, severalReports, unknownTool, "pass", "fail"} {
		require.True(t, seen[word], word)
	}
}
