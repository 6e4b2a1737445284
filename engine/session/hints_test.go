package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// Weak models copy the examples of hints, so every example is JSON in plain ASCII.
func TestHints(t *testing.T) {
	t.Parallel()
	var hints []string
	for _, change := range []func(*task){func(*task) {}, first, divided, presenting, evaluating, gated, critical, planned} {
		r := newRules(with(evaluation(), change))
		for _, tool := range r.Offer() {
			var schema struct {
				Properties map[string]struct{ Description string }
			}
			require.NoError(t, json.Unmarshal(tool.Parameters, &schema))
			for _, property := range schema.Properties {
				hints = append(hints, property.Description)
			}
			result := r.Judge(reply(call(tool.Name, `{"a": 1`))).Results["a"]
			require.NotEmpty(t, result, tool.Name)
			hints = append(hints, tool.Description, result)
		}
	}
	hints = append(hints, endorsingCall(coordination.Vote, evaluation().Answers[0]), endorsingCall(coordination.Stop, evaluation().Answers[0]))
	examples := 0
	for _, hint := range hints {
		for at := strings.Index(hint, `{"`); at >= 0; at = strings.Index(hint, `{"`) {
			var example json.RawMessage
			decoder := json.NewDecoder(strings.NewReader(hint[at:]))
			require.NoError(t, decoder.Decode(&example), hint)
			require.NotContains(t, hint, "\u2026")
			require.Negative(t, strings.IndexFunc(string(example), func(c rune) bool { return c > unicode.MaxASCII }), hint)
			hint = hint[at+int(decoder.InputOffset()):]
			examples++
		}
	}
	require.Greater(t, examples, 12)
}

// The example of a vote can be copied: it names the agent that the faulty call named, or else one
// that can be voted for.
func TestHints_vote(t *testing.T) {
	t.Parallel()
	rules := newRules(evaluation())
	for arguments, label := range map[string]string{
		`{"agent_id": "agent3.1"`:              "agent3.1",
		`{"agent_id": "agent3", "reason": ""}`: "agent3",
		`{"agent_id": "agent2", "reason": ""}`: "agent1",
		`{"reason": "agent1 is not agent3"}`:   "agent1",
	} {
		v := rules.Judge(reply(call("vote", arguments)))
		require.Equal(t, invalidArguments, v.Rejected)
		require.Contains(t, v.Results["a"], `vote takes {"agent_id": "`+label+`", "reason": "it is right"}`)
		copied := rules.Judge(llm.Message{ToolCalls: []llm.ToolCall{{ID: "b", Name: "vote", Arguments: fmt.Sprintf(exampleVote, label)}}})
		require.NotNil(t, copied.Action)
	}
}
