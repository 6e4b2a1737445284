package session

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// The vote tool requests a confidence only if the team uses it.
func TestConfidence_offered(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{false, true} {
		task := with(evaluation(), func(t *task) { t.Confidence = wanted })
		tools := newRules(task).Offer()
		var schema struct {
			Properties map[string]json.RawMessage
			Required   []string
		}
		require.NoError(t, json.Unmarshal(tools[1].Parameters, &schema))
		require.Equal(t, wanted, schema.Properties["confidence"] != nil)
		require.Equal(t, []string{"agent_id", "reason"}, schema.Required)
	}
}

func TestConfidence_judged(t *testing.T) {
	t.Parallel()
	for argument, want := range map[string]*float64{
		"0.8": new(0.8), "0": new(0.0), "1": new(1.0), "null": nil, "1.5": nil, "-0.1": nil, `"high"`: nil,
	} {
		reply := reply(call("vote", `{"agent_id": "agent3", "reason": "It is right.", "confidence": `+argument+`}`))
		asked := newRules(with(evaluation(), func(t *task) { t.Confidence = true })).Judge(reply)
		if want == nil && argument != "null" {
			require.Equal(t, invalidArguments, asked.Rejected, argument)
			require.Nil(t, asked.Action)
		} else {
			var cast ballot
			require.NoError(t, json.Unmarshal(asked.Action.Payload, &cast))
			require.Equal(t, want, cast.Confidence, argument)
		}
		unasked := newRules(evaluation()).Judge(reply)
		require.NotContains(t, string(unasked.Action.Payload), "confidence", "ignored unless asked for")
	}
}
