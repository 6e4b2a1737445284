package offline_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/offline"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
)

// play runs a step of a pipeline under the rules of the real engine, until it ends or leaves for another step.
func play(t *testing.T, task pipelineagent.Task) (kind, to, text string, conversation []llm.Message) {
	t.Helper()
	task.Most = 10
	rules := pipelineagent.NewRules(task)
	conversation = task.Opening()
	for range 5 {
		reply, err := offline.New("writer").Generate(t.Context(), llm.Request{Messages: conversation, Tools: rules.Offer()})
		require.NoError(t, err)
		conversation = append(conversation, reply.Message)
		v := rules.Judge(reply.Message)
		for _, c := range reply.Message.ToolCalls {
			conversation = append(conversation, llm.Message{Role: llm.ToolRole, ToolCallID: c.ID, Content: v.Told[c.ID]})
		}
		if v.Action != nil {
			var p pipelineagent.Payload
			require.NoError(t, json.Unmarshal(v.Action.Payload, &p))
			return v.Action.Kind, p.To, p.Text, conversation
		}
	}
	require.Fail(t, "the step does not end")
	return "", "", "", nil
}

func TestStep_followsEachDirectiveOnce(t *testing.T) {
	t.Parallel()
	task := pipelineagent.Task{
		Prompt: "You write.\noffline: call lint\n  offline: jump export\n", Request: "Greet the world.", Destinations: []string{"lint", "export"},
	}
	kind, to, _, conversation := play(t, task)
	require.Equal(t, "call lint", kind+" "+to)

	task.Return = &pipelineagent.Returned{Messages: conversation, Status: pipeline.Completed, Text: "3 issues"}
	kind, to, _, conversation = play(t, task)
	require.Equal(t, "jump export", kind+" "+to, "lint was called")

	task.Return = &pipelineagent.Returned{Messages: conversation, Status: pipeline.Completed, Text: "exported"}
	kind, _, text, _ := play(t, task)
	require.Equal(t, pipelineagent.KindCompleted, kind)
	require.Contains(t, text, "3 issues")
	require.Contains(t, text, "Greet the world.")
	require.Contains(t, text, "no language model was asked")
}

func TestStep_withoutDirectivesEndsWithAText(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]pipelineagent.Task{
		"none":        {Prompt: "You write."},
		"elsewhere":   {Prompt: "offline: call nowhere", Destinations: []string{"lint"}},
		"not offered": {Prompt: "offline: call lint", Destinations: []string{"lint"}, Deepest: true},
		"malformed":   {Prompt: "offline: call\noffline: dance lint\noffline: call lint twice", Destinations: []string{"lint"}},
		"the request": {Prompt: "You write.", Request: "offline: call lint", Destinations: []string{"lint"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, _, text, _ := play(t, task)
			require.Equal(t, pipelineagent.KindCompleted, kind)
			require.Contains(t, text, "Offline model")
		})
	}
}
