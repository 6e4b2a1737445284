package runs

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/workflows"
)

func inMemo(t *testing.T, questions ...coordination.Question) map[string]any {
	t.Helper()
	data, err := json.Marshal(questions)
	require.NoError(t, err)
	return map[string]any{workflows.MemoQuestions: string(data), workflows.MemoStatus: workflows.Waiting, workflows.MemoPaused: false}
}

// The inbox has the open questions of all runs, the oldest first, from the server alone. Long ones are read from the
// store only with --full, and nothing in them reaches the terminal.
func TestInbox(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	server := &stage.Server{}
	server.Add(&stage.Execution{ID: "s1", Type: session.Workflow, Started: began, Memo: inMemo(t, coordination.Question{
		ID: "s1", Kind: "session", QuestionID: "q1", QuestionKind: coordination.AskQuestion, Agent: "agent_a", Text: "Which\x1b[2J?", Options: []string{"this", "that"}, Since: began.Add(time.Hour),
	})})
	server.Add(&stage.Execution{ID: "s2", Type: session.Workflow, Started: began, Memo: inMemo(t, coordination.Question{
		ID: "s2", Kind: "session", QuestionID: "q2", QuestionKind: coordination.AskApproval, Agent: "agent_b", Text: "May it run?", Options: []string{}, Tool: "send", Path: "questions/q2.json", Since: began,
	})})
	server.Add(&stage.Execution{ID: "s3", Type: session.Workflow, Started: began})
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, artifact.CreateJSON(t.Context(), store, artifact.InBucket("s2").Question("q2"), artifact.Question{ID: "q2", Text: "May it run?", Tool: "send", Arguments: `{"to":"ann"}`}))
	conn, stdout, _ := server.Connect(store)
	require.NoError(t, inbox{}.printOpen(t.Context(), conn))
	require.Equal(t, "s2  q2  approval, since 2026-11-22T09:00:00Z\n  agent_b asks: May it run?\n  it is too long for this list: `conclave inbox --full --address h:7233` shows the whole\n"+
		"  `conclave approve s2 q2 --address h:7233` or `conclave deny s2 q2 --address h:7233`\n"+
		"s1  q1  question, since 2026-11-22T10:00:00Z\n  agent_a asks: Which?"+" [1] this [2] that\n  `conclave reply s1 q1 --address h:7233 TEXT`\n", stdout.String())
	stdout.Reset()
	require.NoError(t, inbox{full: true}.printOpen(t.Context(), conn))
	require.Contains(t, stdout.String(), `send {"to":"ann"}`)
	stdout.Reset()
	conn.JSON = true
	require.NoError(t, inbox{}.printOpen(t.Context(), conn))
	var all []map[string]any
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &all))
	require.Equal(t, "q1", all[1]["question_id"])
	for _, key := range []string{"id", "kind", "question_id", "question_kind", "agent", "text", "options", "tool", "arguments", "since", "until"} {
		require.Contains(t, all[1], key)
	}
}

// An answer is sent with the question that it names, or with the only one; a run that waits and does nothing else
// ends a command without a terminal.
func TestFollow_waitsForPerson(t *testing.T) {
	t.Parallel()
	server := &stage.Server{}
	server.Add(&stage.Execution{ID: "s1", Type: session.Workflow, Started: time.Now(), State: map[string]any{"phase": "waiting_for_person"}, Memo: inMemo(t,
		coordination.Question{ID: "s1", QuestionID: "q1", QuestionKind: coordination.AskQuestion, Agent: "agent_a", Text: "Which?"},
	)})
	conn, _, _ := server.Connect(nil)
	run, err := describeRun(t.Context(), conn, "s1", session)
	require.NoError(t, err)
	require.Equal(t, workflows.Waiting, run.Shown())
	require.Len(t, QuestionHolds(conn.CLI, run), 1)
	f := &Follower{conn: conn, run: run}
	require.True(t, f.waitsAlone(t.Context()))
	f.run.Questions = nil
	require.False(t, f.waitsAlone(t.Context()))

	u, err := Request{Verb: denyVerb, Question: "q1", Note: "no", By: "ann"}.asUpdate()
	require.NoError(t, err)
	require.Equal(t, workflows.Request{Question: "q1", Allow: new(bool), Note: "no", By: "ann"}, u.Payload)
	require.Equal(t, workflows.ApproveSignal, u.Name)
	exit := LeaveOpen(t.Context(), conn, run, nil, ErrWaiting)
	require.ErrorContains(t, exit, "\nwaiting_for_person")
	require.Equal(t, cli.ExitNoAnswer, cli.ExitCode(exit))
}
