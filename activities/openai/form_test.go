package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

var formed = llm.Request{
	Messages: []llm.Message{{Role: llm.User, Content: "hello"}},
	Form:     &llm.Form{Name: "greeting", Description: "A greeting.", Schema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)},
}

// A server without structured replies is asked again at once, with a tool in place of the
// form, and from then on with the tool alone.
func TestForm_aToolStandsInForARefusedForm(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]string{
		"DeepSeek": `{"error":{"message":"This response_format type is unavailable now"}}`,
		"by name":  `{"error":{"message":"Unsupported value","param":"response_format"}}`,
		"Ollama":   `{"error":{"message":"model does not support structured outputs"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, w := serve(t, openai.Options{}, rawFields(400, refusal), rawFields(200, saysHi))
			for range 2 {
				reply, err := c.Generate(t.Context(), formed)
				require.NoError(t, err)
				require.EqualValues(t, 1, reply.Usage.ModelCalls, "a refusal is no model call")
			}
			seen := w.seen()
			require.Len(t, seen, 3)
			require.Contains(t, seen[0].body, `"response_format":{"json_schema":{"name":"greeting"`)
			require.Contains(t, seen[0].body, `"schema":{"type":"object","properties":{"text"`)
			require.NotContains(t, seen[0].body, `"tools"`)
			for _, r := range seen[1:] {
				require.NotContains(t, r.body, "response_format")
				require.Contains(t, r.body, `"name":"greeting"`)
				require.Contains(t, r.body, `"tools"`)
			}
		})
	}
}

// The form of a request takes the place of a format in params, which stays for others.
func TestForm_replacesTheFormatOfParams(t *testing.T) {
	t.Parallel()
	c, w := serve(t, openai.Options{Params: map[string]any{"response_format": map[string]any{"type": "text"}}}, rawFields(200, saysHi))
	_, err := c.Generate(t.Context(), formed)
	require.NoError(t, err)
	_, err = c.Generate(t.Context(), llm.Request{Messages: formed.Messages})
	require.NoError(t, err)
	require.Contains(t, w.seen()[0].body, `"type":"json_schema"`)
	require.Contains(t, w.seen()[1].body, `"response_format":{"type":"text"}`)
}
