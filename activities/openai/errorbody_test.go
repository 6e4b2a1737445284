package openai_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// Every server has its own message for a prompt that does not fit, most with the
// size of the window.
func TestErrorBody_recognisesPromptsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		window int
	}{
		"OpenAI": {400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
			"type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, 8192},
		"OpenAI, later": {400, `{"error":{"message":"Your input exceeds the context window of this model.","code":"context_length_exceeded"}}`, 0},
		"llama.cpp": {400, `{"error":{"code":400,"message":"request (5021 tokens) exceeds the available context size (4096 tokens), try increasing it",
			"type":"exceed_context_size_error","n_prompt_tokens":5021,"n_ctx":4096}}`, 4096},
		"llama.cpp, field only": {400, `{"error":{"code":400,"message":"…","type":"exceed_context_size_error","n_ctx":4096}}`, 4096},
		"llama.cpp, earlier":    {500, `{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size"}}`, 0},
		"Ollama":                {400, `{"error":{"message":"input length exceeds the context length","type":"invalid_request_error"}}`, 0},
		"Ollama, chat":          {400, `{"error":{"message":"prompt too long; exceeded max context length by 12 tokens"}}`, 0},
		"vLLM": {400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens
			(4500 in the messages, 500 in the completion).","code":400}`, 4096},
		"vLLM, later": {400, `{"error":{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096."}}`, 4096},
		"Anthropic":   {400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 209001 tokens > 200000 maximum"}}`, 200000},
		"Anthropic, with the reply": {
			400, `{"error":{"message":"input length and ` + "`max_tokens`" + ` exceed context limit: 190000 + 20000 > 200000, decrease input length"}}`, 200000,
		},
		"Gemini":            {400, `[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, 1048576},
		"Gemini, no figure": {400, `{"error":{"message":"The input token count exceeds the maximum"}}`, 0},
		"Mistral":           {400, `{"message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"}`, 32768},
		"xAI":               {400, `{"error":"This model's maximum prompt length is 131072 but the request contains 133000 tokens."}`, 131072},
		"Copilot":           {400, `{"error":{"message":"prompt token count of 130000 exceeds the limit of 128000"}}`, 128000},
		"LM Studio":         {400, `{"error":"Trying to keep the first 5000 tokens when context overflows. However, the model is loaded with context length of only 4096 tokens"}`, 4096},
		"TGI":               {422, "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000\"}", 4097},
		"Bedrock":           {400, `{"message":"Input is too long for requested model."}`, 0},
		"behind a proxy":    {200, `{"error":{"code":400,"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000"}}`, 32768},
		"per minute, OpenAI": {429, `{"error":{"message":"Request too large for m1 in organization o on tokens per min (TPM): Limit 30000, Requested 40000.
			The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}`, 30000},
		"per minute, Groq": {413, `{"error":{"message":"Request too large for model m1 on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size"}}`, 6000},
		"too many bytes":   {413, `<html>413 Request Entity Too Large</html>`, 0},
		"senseless figure": {400, `{"error":{"message":"maximum context length is 99999999999999999999 tokens","n_ctx":-5}}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, w := serve(t, openai.Options{}, rawFields(tc.status, flat(tc.body)))
				_, err := client.Generate(t.Context(), hello)
				failed, ok := errors.AsType[*llm.Error](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, llm.ContextTooLong, failed.Kind, failed.Message)
				require.Equal(t, tc.window, failed.Window)
				require.Len(t, w.seen(), 1, "asking again would not help")
			})
		})
	}
}

func TestErrorBody_recognisesOtherMessagesAboutLength(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		kind   llm.Kind
	}{
		"used up for this minute":        {429, `{"error":{"message":"Request too large for m1: Limit 30000, Requested 400"}}`, llm.RateLimited},
		"the context of another thing":   {400, `{"error":{"message":"the tool's context is not valid"}}`, llm.BadRequest},
		"a limit that mentions contexts": {429, `{"error":{"message":"maximum context length is 10 per minute"}}`, llm.RateLimited},
		"a server out of memory":         {500, `{"error":{"message":"failed to allocate a context of this size"}}`, llm.Overloaded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, openai.Options{}, rawFields(tc.status, flat(tc.body)))
				_, err := client.Generate(t.Context(), hello)
				failed, ok := errors.AsType[*llm.Error](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, tc.kind, failed.Kind, failed.Message)
				require.Zero(t, failed.Window)
			})
		})
	}
}

// flat joins the lines of a JSON text.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") }
