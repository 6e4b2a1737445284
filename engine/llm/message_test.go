package llm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewTool(t *testing.T) {
	t.Parallel()
	tool := NewTool("act", "Acts.", map[string]Property{
		"kind": {Type: "string", Description: "Which.", Enum: []string{"a", "b"}},
		"next": {Type: "object", Null: true, Description: "The next one, or null."},
	}, "kind", "next")
	require.JSONEq(t, `{
		"type": "object", "required": ["kind", "next"], "additionalProperties": false,
		"properties": {
			"kind": {"type": "string", "description": "Which.", "enum": ["a", "b"]},
			"next": {"type": ["object", "null"], "description": "The next one, or null."}
		}
	}`, string(tool.Parameters))
	require.JSONEq(t, `{"type": "object", "properties": {}, "required": [], "additionalProperties": false}`, string(NewTool("submit", "", map[string]Property{}).Parameters))
}

func TestObject(t *testing.T) {
	t.Parallel()
	for raw, ok := range map[string]bool{`{"a":1}`: true, `"{\"a\":1}"`: true, `{}`: true, `null`: false, `"null"`: false, `[1]`: false, `"x"`: false, ``: false} {
		fields, read := Object([]byte(raw))
		require.Equal(t, ok, read, raw)
		if len(fields) > 0 {
			require.Equal(t, "1", string(fields["a"]), raw)
		}
	}
}
