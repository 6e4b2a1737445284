package offline_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/offline"
	"conclave/engine/llm"
)

// Where an answer is data, the model gives some that fit, with its text as the words beside them.
func TestModel_answersWithData(t *testing.T) {
	t.Parallel()
	schema, err := llm.ReadDataSchema([]byte(`{"type": "object", "properties": {"choice": {"enum": ["a", "b"]}, "next": {"$ref": "#/$defs/N"}}, "required": ["choice", "next"],
		"$defs": {"N": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}`))
	require.NoError(t, err)
	tool := llm.Tool{Name: "new_answer", Parameters: schema.Arguments("data", "content", llm.Property{Type: "string"}), Instead: "Write."}
	reply, err := offline.New("x").Generate(t.Context(), llm.Request{Messages: prompt("q"), Tools: []llm.Tool{tool}})
	require.NoError(t, err)
	var arguments struct {
		Content string
		Data    json.RawMessage
	}
	require.NoError(t, json.Unmarshal([]byte(reply.Message.ToolCalls[0].Arguments), &arguments))
	require.Contains(t, arguments.Content, "no language model was asked")
	_, err = schema.Read(arguments.Data)
	require.NoError(t, err)

	// Without an easy example the answer has none, and is refused.
	tool.Parameters = json.RawMessage(`{"type": "object", "properties": {"data": {"type": "string", "pattern": "^[0-9]{9}$"}}, "required": ["data"]}`)
	reply, err = offline.New("x").Generate(t.Context(), llm.Request{Messages: prompt("q"), Tools: []llm.Tool{tool}})
	require.NoError(t, err)
	require.True(t, json.Valid([]byte(reply.Message.ToolCalls[0].Arguments)))
}
