package agent

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/offline"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
)

// play runs a step with the offline model until it ends, jumps or calls.
func play(t *testing.T, task task) (kind, to, text string, conversation []llm.Message) {
	t.Helper()
	task.Most = 10
	rules := newRules(task)
	conversation = task.openingMessages()
	for range 5 {
		reply, err := offline.New("writer").Generate(t.Context(), llm.Request{Messages: conversation, Tools: rules.Offer()})
		require.NoError(t, err)
		conversation = append(conversation, reply.Message)
		v := rules.Judge(reply.Message)
		for _, c := range reply.Message.ToolCalls {
			conversation = append(conversation, llm.Message{Role: llm.ToolRole, ToolCallID: c.ID, Content: v.Results[c.ID]})
		}
		if v.Action != nil {
			var p payload
			require.NoError(t, json.Unmarshal(v.Action.Payload, &p))
			return v.Action.Kind, p.To, p.Text, conversation
		}
	}
	require.Fail(t, "the step does not end")
	return "", "", "", nil
}

func TestOffline_followsItsPrompt(t *testing.T) {
	t.Parallel()
	errands := task{
		Prompt: "You write.\noffline: call lint\n  offline: jump export\n", Request: "Greet the world.", Destinations: []string{"lint", "export"},
	}
	kind, to, _, conversation := play(t, errands)
	require.Equal(t, "call lint", kind+" "+to)

	errands.Return = &returned{Messages: conversation, Status: pipeline.Completed, Text: "3 issues"}
	kind, to, _, conversation = play(t, errands)
	require.Equal(t, "jump export", kind+" "+to, "lint was called")

	errands.Return = &returned{Messages: conversation, Status: pipeline.Completed, Text: "exported"}
	kind, _, text, _ := play(t, errands)
	require.Equal(t, kindCompleted, kind)
	require.Contains(t, text, "3 issues")
	require.Contains(t, text, "Greet the world.")
	require.Contains(t, text, "no language model was asked")
}

func TestOffline_endsWithText(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]task{
		"none":        {Prompt: "You write."},
		"elsewhere":   {Prompt: "offline: call nowhere", Destinations: []string{"lint"}},
		"not offered": {Prompt: "offline: call lint", Destinations: []string{"lint"}, Deepest: true},
		"malformed":   {Prompt: "offline: call\noffline: dance lint\noffline: call lint twice", Destinations: []string{"lint"}},
		"the request": {Prompt: "You write.", Request: "offline: call lint", Destinations: []string{"lint"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, _, text, _ := play(t, task)
			require.Equal(t, kindCompleted, kind)
			require.Contains(t, text, "Offline model")
		})
	}
}

func TestOffline_handsInAnOutput(t *testing.T) {
	t.Parallel()
	for _, form := range []string{verdict, `{"type":"array","items":{"type":"integer"}}`} {
		rules := newRules(task{Kind: pipeline.Agent, Request: "Ship?", Output: schema(t, form), Most: 5})
		reply, err := offline.New("writer").Generate(t.Context(), llm.Request{Messages: rules.task.openingMessages(), Tools: rules.Offer()})
		require.NoError(t, err)
		ruling := rules.Judge(reply.Message)
		require.NotNil(t, ruling.Action, "%v %v", reply.Message.ToolCalls, ruling.Results)
		require.Equal(t, kindCompleted, ruling.Action.Kind)
	}
}
