package agent

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
)

// suspended returns a run in which main wrote a draft and called lint, the launch that
// continues main, and its messages.
func suspended(t *testing.T) (*desk, pipeline.Launch, []llm.Message) {
	t.Helper()
	d := newDesk(t)
	first := calls("lint")
	first.Content = "A moment."
	r, model := d.run(d.step(launch("main", 0), "run-l1"), writes("draft.md", "a frog\n<&>\u00e9"), first)
	o := d.outcome(r)
	require.Equal(t, pipeline.CallPending, o.Status)
	require.Equal(t, pipeline.Call, o.Action)
	require.Equal(t, "lint", o.To)
	kept := append(append([]llm.Message{}, model.requests[1]...), first, llm.Message{
		Role: llm.ToolRole, ToolCallID: "c1", Content: `{"message":"lint is called; its result is your next message","success":true}`,
	})
	back := launch("main", 2)
	back.ID, back.Used = "l3", o.Iterations
	back.Return = &pipeline.Return{Messages: o.Messages, Called: pipeline.Ref{Number: 2, Step: "lint"}, Status: pipeline.Completed}
	return d, back, kept
}

// "On return from a call the caller's messages are exactly as saved, followed by one
// user message."
func TestReturn_continuesTheConversation(t *testing.T) {
	t.Parallel()
	d, back, kept := suspended(t)
	require.NotContains(t, d.keys(), "steps/001-main/answer.json", "text beside a call is not the step's text")
	require.Nil(t, read[artifact.LastAction](d, "steps/001-main/last_action.json").AnswerText)
	blob := d.get("blobs/sha256/" + back.Return.Messages)

	lint := launch("lint", 1)
	lint.Kind = pipeline.Tools
	d.run(d.step(lint, "run-l2"), says("3 issues"))
	r, model := d.run(d.step(back, "run-l3"), says("Written."))
	note := llm.Message{Role: llm.User, Content: "[Called step completed with result: 3 issues]"}
	want, err := json.Marshal(append(kept, note))
	require.NoError(t, err)
	got, err := json.Marshal(model.requests[0])
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "byte for byte")
	require.Equal(t, 3, d.outcome(r).Iterations, "counted over all launches of the step")
	require.Equal(t, blob, d.get("blobs/sha256/"+back.Return.Messages), "never changed")

	// After a reset of the workflow to a point before the return, the same result is read.
	_, model = d.run(d.step(back, "another-l3"), says("Written again."))
	again, err := json.Marshal(model.requests[0])
	require.NoError(t, err)
	require.Equal(t, string(want), string(again))
}

// The result is the text of the called step itself, never an older one.
func TestReturn_withoutText(t *testing.T) {
	t.Parallel()
	d, back, _ := suspended(t)
	d.run(d.step(launch("lint", 1), "run-l2"), says("old news"))
	deep := launch("deep", 2)
	deep.History = []pipeline.Ref{{Number: 2, Step: "lint"}}
	d.run(d.step(deep, "run-l3"), says(""))
	note := func(l pipeline.Launch, token string) string {
		_, model := d.run(d.step(l, token), says("Written."))
		return model.requests[0][len(model.requests[0])-1].Content
	}
	back.Return.Called = pipeline.Ref{Number: 3, Step: "deep"}
	require.Equal(t, "[Called step completed with result: no result]", note(back, "run-l4"))

	// If a caller had no iterations left, it ended without a launch.
	back.Return.Called, back.Return.Status = pipeline.Ref{Step: "deep"}, pipeline.MaxIterations
	require.Equal(t, "[Called step completed with result: (max_iterations) no result]", note(back, "run-l5"))
}

// A caller can only continue with its own saved conversation.
func TestReturn_unreadable(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		damage func(d *desk, back *pipeline.Launch)
		is     error
		says   string
	}{
		"changed": {
			damage: func(d *desk, back *pipeline.Launch) {
				d.put(d.layout.Blob(back.Return.Messages), []byte(`{"messages":[]}`))
			},
			is: artifact.ErrCorrupt, says: "the conversation of the caller",
		},
		"cut": {
			damage: func(d *desk, back *pipeline.Launch) {
				data := d.get("blobs/sha256/" + back.Return.Messages)
				d.put(d.layout.Blob(back.Return.Messages), data[:len(data)/2])
			},
			is: artifact.ErrCorrupt, says: "the conversation of the caller",
		},
		"gone": {
			damage: func(_ *desk, back *pipeline.Launch) { back.Return.Messages = "0000" },
			is:     artifact.ErrNotFound, says: "the conversation of the caller",
		},
		"no conversation": {
			damage: func(d *desk, back *pipeline.Launch) {
				hash, err := artifact.PutBlob(d.t.Context(), d.store, d.layout, []byte("a frog"))
				require.NoError(d.t, err)
				back.Return.Messages = hash
			},
			says: "the conversation of the caller",
		},
		"a called step without a commit": {
			damage: func(*desk, *pipeline.Launch) {},
			is:     artifact.ErrNotFound, says: "read the result of the called step",
		},
		"a commit of something else": {
			damage: func(d *desk, _ *pipeline.Launch) {
				require.NoError(d.t, artifact.PutJSON(d.t.Context(), d.store, d.layout.PipelineStep(2, "lint", "action.json"), artifact.Commit{Kind: "vote", Payload: json.RawMessage(`[]`)}))
			},
			says: "read a committed vote",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, back, _ := suspended(t)
			tt.damage(d, &back)
			_, err := d.step(back, "run-l3").Spec(t.Context(), d.store)
			require.ErrorContains(t, err, tt.says)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
			require.NotContains(t, d.keys(), "claims/003.json", "no number is taken for it")
		})
	}
}

func TestEnded(t *testing.T) {
	t.Parallel()
	payload := json.RawMessage(`{"text":"A moment.","to":"lint","messages":"m","iterations":4}`)
	for kind, want := range map[string]pipeline.Ended{
		kindCompleted:     {Status: pipeline.Completed},
		kindMaxIterations: {Status: pipeline.MaxIterations},
		kindJump:          {Status: pipeline.Completed, Action: pipeline.Jump},
		kindCall:          {Status: pipeline.CallPending, Action: pipeline.Call},
	} {
		want.To, want.Messages, want.Iterations, want.Text, want.Said = "lint", "m", 4, "A moment.", kind != kindCall
		got, err := Ended(artifact.Commit{Kind: kind, Payload: payload})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := Ended(artifact.Commit{Kind: "vote", Payload: payload})
	require.ErrorContains(t, err, `unknown kind "vote"`)
	_, err = Ended(artifact.Commit{Kind: kindCall, Payload: json.RawMessage(`"lint"`)})
	require.ErrorContains(t, err, "read a committed call")
}
