package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
	"conclave/workflows/session"
	"conclave/workflows/stagetest"
)

// A session whose run was cut off at any moment goes on from its newest state with what it did since,
// and no reply is paid twice.
func TestSession_ReopenedAfterCutOff(t *testing.T) {
	t.Parallel()
	type script = map[string][]any
	for name, tt := range map[string]struct {
		after       string // the activity that has ended before
		first, next script // agent_b's first script ends with the cut
	}{
		"at the first call": {
			first: script{"agent_b": {}}, next: script{"agent_b": {stagetest.Answer("B."), stagetest.Vote("agent1")}},
		},
		"in the first wave": {
			after: "agent_a-l1",
			first: script{"agent_a": {stagetest.Answer("A.")}, "agent_b": {stagetest.WriteFile("1")}},
			next:  script{"agent_a": {stagetest.Vote("agent1")}, "agent_b": {stagetest.Answer("B."), stagetest.Vote("agent1")}},
		},
		"in the second wave": {
			after: "agent_a-l3",
			first: script{"agent_a": {stagetest.Answer("A."), stagetest.Vote("agent2")}, "agent_b": {stagetest.Answer("B."), stagetest.WriteFile("1")}},
			next:  script{"agent_a": nil, "agent_b": {stagetest.Vote("agent2")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first *stagetest.Stage
			var cut *artifact.Dir
			ended := make(chan struct{})
			tt.first["agent_b"] = append(tt.first["agent_b"], stagetest.Block{Reached: func() {
				if tt.after != "" {
					<-ended
				}
				cut = stagetest.CopyOf(t, first.Store)
				first.CancelWorkflow()
			}})
			first = stagetest.New(t, tt.first, nil)
			first.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
				if info.ActivityID == tt.after {
					close(ended)
				}
			})
			first.ExecuteWorkflow(session.Type, session.Input{Query: "Who?", SessionID: "s1"})
			require.Error(t, first.GetWorkflowError())

			next := stagetest.NewOn(t, cut, tt.next, nil)
			result := stagetest.Play[session.Result](t, next, session.Type, session.Input{Resume: true, SessionID: "s1"})
			require.Equal(t, "consensus", result.Status)
			paid := 0
			for _, replies := range []script{tt.first, tt.next} {
				for _, all := range replies {
					paid += len(all)
				}
			}
			require.EqualValues(t, paid-1, result.Cost.ModelCalls, "all but the call that was cut off, none of them twice")
			stagetest.RequireTimes(t, cut, artifact.InBucket("s1"))
		})
	}
}

// A message whose update has been answered is in the state that goes on.
func TestSession_ReopenedWithAMessage(t *testing.T) {
	t.Parallel()
	var first *stagetest.Stage
	var cut *artifact.Dir
	first = stagetest.New(t, map[string][]any{"agent_a": {stagetest.Block{Reached: func() {
		first.UpdateWorkflow(workflows.SaySignal, "", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { require.NoError(t, err) },
			OnComplete: func(_ any, err error) {
				require.NoError(t, err)
				cut = stagetest.CopyOf(t, first.Store)
				first.CancelWorkflow()
			},
		}, workflows.Request{Text: "In verse, please."})
	}}}}, nil)
	first.ExecuteWorkflow(session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.NotNil(t, cut, "the update was answered")

	next := stagetest.NewOn(t, cut, map[string][]any{"agent_a": {stagetest.Answer("A."), stagetest.Vote("agent1")}}, nil)
	heard := false
	next.Cast["agent_a"].Saw = func(_ int, req llm.Request) {
		heard = heard || strings.Contains(string(mustJSON(t, req.Messages)), "In verse, please.")
	}
	result := stagetest.Play[session.Result](t, next, session.Type, session.Input{Resume: true, SessionID: "s1"})
	require.Equal(t, "consensus", result.Status)
	require.True(t, heard)
}
