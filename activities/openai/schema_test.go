package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// A server that refuses the schema of a tool gets, at once and from then on, the words that stand for
// the tool after the first message, and the other tools.
func TestRefusals_ofASchema(t *testing.T) {
	t.Parallel()
	const instead = "Reply with a block."
	answer := llm.Tool{Name: "new_answer", Parameters: json.RawMessage(`{"type":"object","properties":{"data":{"$ref":"#"}}}`), Instead: instead}
	other := llm.Tool{Name: "vote", Parameters: json.RawMessage(`{"type":"object"}`)}
	for name, tc := range map[string]struct {
		status int
		body   string
	}{
		"OpenAI":    {400, `{"error":{"message":"Invalid schema for function 'new_answer': In context=('properties', 'data'), reference can only point to definitions","param":"tools[0].function.parameters","code":"invalid_function_parameters"}}`},
		"Anthropic": {400, `{"error":{"type":"invalid_request_error","message":"tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"}}`},
		"Gemini":    {400, `[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"$ref\" at 'tools.function_declarations[0].parameters.properties[0].value'"}}]`},
		"Groq":      {400, `{"error":{"message":"invalid JSON schema for tool new_answer, tools[0].function.parameters: unsupported"}}`},
		"vLLM":      {400, `{"object":"error","message":"The provided JSON schema contains features not supported by xgrammar."}`},
		"llama.cpp": {500, `{"error":{"code":500,"message":"Failed to parse grammar"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent []string
			base := over(t, func(res http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				sent = append(sent, string(body))
				req.Body = io.NopCloser(strings.NewReader(string(body)))
				refuses(`"$ref"`, tc.status, tc.body)(res, req)
			})
			client, err := openai.New(openai.Options{BaseURL: base, Model: "m1"})
			require.NoError(t, err)
			request := llm.Request{Messages: hello.Messages, Tools: []llm.Tool{answer, other}}
			for range 2 {
				_, err = client.Generate(t.Context(), request)
				require.NoError(t, err)
			}
			require.Len(t, sent, 3, "refused once, and remembered")
			for _, body := range sent[1:] {
				require.Contains(t, body, `{"content":"hello\n\n`+instead+`","role":"user"}`)
				require.NotContains(t, body, "new_answer")
				require.Contains(t, body, `"name":"vote"`)
			}
			require.NotContains(t, sent[0], instead)

			request.Messages = append([]llm.Message{{Role: llm.System, Content: "Be brief."}}, hello.Messages...)
			_, err = client.Generate(t.Context(), request)
			require.NoError(t, err)
			require.Contains(t, sent[3], `{"content":"Be brief.\n\n`+instead+`","role":"system"}`)
			require.Equal(t, "Be brief.", request.Messages[0].Content, "the conversation is as it was")
		})
	}
}

// A refusal of another tool's schema is an error: there is nothing to send instead.
func TestRefusals_ofAnotherSchema(t *testing.T) {
	t.Parallel()
	base := over(t, refuses(`"add"`, 400, `{"error":{"message":"Invalid schema for function 'add'"}}`))
	client, err := openai.New(openai.Options{BaseURL: base, Model: "m1"})
	require.NoError(t, err)
	_, err = client.Generate(t.Context(), offering)
	require.ErrorContains(t, err, "Invalid schema for function 'add'")
}
