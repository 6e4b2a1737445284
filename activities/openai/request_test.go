package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// record serves over TCP and returns the requests.
func record(t *testing.T) (baseURL string, requests <-chan recorded) {
	t.Helper()
	arrived := make(chan recorded, 1)
	server := httptest.NewServer(http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		arrived <- recorded{header: req.Header, body: req.Method + " " + req.URL.String() + "\n" + string(body)}
		rawFields(200, saysHi)(res, req)
	}))
	t.Cleanup(server.Close)
	return server.URL, arrived
}

func TestRequest_onTheWire(t *testing.T) {
	t.Parallel()
	base, requests := record(t)
	client, err := openai.New(openai.Options{
		BaseURL: base + "/v1", APIKey: "sk-secret", Model: "m1",
		Params: map[string]any{"temperature": 0.7, "max_tokens": 100, "extra_body": map[string]any{"google": map[string]any{"x": true}}},
	})
	require.NoError(t, err)

	reply, err := client.Generate(t.Context(), llm.Request{
		Messages: []llm.Message{
			{Role: llm.System, Content: "be brief"},
			{Role: llm.User, Content: "2+2 <&>?"},
			{
				Role:  llm.Assistant,
				Extra: map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"so"`)},
				ToolCalls: []llm.ToolCall{
					{ID: "a", Name: "add", Arguments: `{"a":2,"b":2}`, Extra: map[string]json.RawMessage{
						"extra_content": json.RawMessage(`{"google":{"thought_signature":"sig=="}}`),
					}},
					{ID: "b", Name: "now"},
					{ID: "c", Name: "add", Arguments: `{"a":`},
				},
			},
			{Role: llm.ToolRole, ToolCallID: "a", Content: "4"},
			{Role: llm.ToolRole, ToolCallID: "b", Content: ""},
			{Role: llm.ToolRole, ToolCallID: "c", Content: "not JSON"},
			{Role: llm.Assistant, Content: "Once more.", ToolCalls: []llm.ToolCall{{ID: "d", Name: "now", Arguments: "{}"}}},
			{Role: llm.ToolRole, ToolCallID: "d", Content: "noon"},
			{Role: llm.Assistant, Content: "4"},
			{Role: llm.User, Content: "sure?"},
		},
		Tools: []llm.Tool{
			{Name: "add", Description: "adds", Parameters: json.RawMessage(`{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"integer"}},"required":["a","b"]}`)},
			{Name: "now"},
		},
	})
	require.NoError(t, err)
	require.Equal(t, "hi", reply.Message.Content)

	got := <-requests
	want, err := os.ReadFile("testdata/request.json")
	require.NoError(t, err)
	const line = "POST /v1/chat/completions\n"
	require.Equal(t, line, got.body[:len(line)])
	require.JSONEq(t, string(want), got.body[len(line):])
	require.Contains(t, got.body, `{"type":"object","properties":{"b"`, "a schema keeps its order")
	require.Equal(t, "Bearer sk-secret", got.header.Get("Authorization"))
}

func TestRequest_withoutTools(t *testing.T) {
	t.Parallel()
	base, requests := record(t)
	client, err := openai.New(openai.Options{BaseURL: base, Model: "m1"})
	require.NoError(t, err)
	_, err = client.Generate(t.Context(), hello)
	require.NoError(t, err)
	require.Equal(t, "POST /chat/completions\n"+
		`{"messages":[{"content":"hello","role":"user"}],"model":"m1","stream_options":{"include_usage":true},"stream":true}`, (<-requests).body)
}

// Summaries are requested without tools, where servers refuse parameters of tools.
func TestRequest_omitsParametersOfToolsWithoutTools(t *testing.T) {
	t.Parallel()
	base, requests := record(t)
	params := map[string]any{"tool_choice": "required", "parallel_tool_calls": false, "seed": 1}
	client, err := openai.New(openai.Options{BaseURL: base, Model: "m1", Params: params})
	require.NoError(t, err)
	with := hello
	with.Tools = []llm.Tool{{Name: "add", Parameters: json.RawMessage(`{"type":"object"}`)}}
	for _, tc := range []struct {
		request llm.Request
		tools   bool
	}{{hello, false}, {with, true}, {hello, false}} {
		_, err = client.Generate(t.Context(), tc.request)
		require.NoError(t, err)
		body := (<-requests).body
		require.Equal(t, tc.tools, strings.Contains(body, `"tool_choice":"required"`), body)
		require.Equal(t, tc.tools, strings.Contains(body, `"parallel_tool_calls":false`), body)
		require.Contains(t, body, `"seed":1`)
	}
}

func TestRequest_streamIsAParameter(t *testing.T) {
	t.Parallel()
	base, requests := record(t)
	for name, tc := range map[string]struct {
		params map[string]any
		want   string
	}{
		"by default": {nil, `,"stream_options":{"include_usage":true},"stream":true`},
		"on":         {map[string]any{"stream": true}, `,"stream_options":{"include_usage":true},"stream":true`},
		"off":        {map[string]any{"stream": false}, ``},
	} {
		client, err := openai.New(openai.Options{BaseURL: base, Model: "m1", Params: tc.params})
		require.NoError(t, err)
		_, err = client.Generate(t.Context(), hello)
		require.NoError(t, err)
		require.Equal(t, "POST /chat/completions\n"+`{"messages":[{"content":"hello","role":"user"}],"model":"m1"`+tc.want+`}`, (<-requests).body, name)
	}
}

// Some servers refuse empty messages, and only a user's message can have images.
func TestRequest_imagesAndEmptyMessages(t *testing.T) {
	t.Parallel()
	base, requests := record(t)
	client, err := openai.New(openai.Options{BaseURL: base, Model: "m1", Params: map[string]any{"stream": false}})
	require.NoError(t, err)
	png := llm.Image{MediaType: "image/png", Data: []byte("\x89PNG")}
	_, err = client.Generate(t.Context(), llm.Request{Messages: []llm.Message{
		{Role: llm.User, Content: "look", Images: []llm.Image{png, {MediaType: "image/jpeg", Data: []byte("JFIF")}}},
		{Role: llm.Assistant},
		{Role: llm.User, Images: []llm.Image{png}},
	}})
	require.NoError(t, err)
	got := <-requests
	require.JSONEq(t, `{"model":"m1","messages":[
		{"role":"user","content":[{"type":"text","text":"look"},
			{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}},
			{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,SkZJRg=="}}]},
		{"role":"assistant","content":"(nothing)"},
		{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}}]}
	]}`, got.body[len("POST /chat/completions\n"):])
}

// The SDK would send keys of the worker's environment to any provider.
func TestRequest_ignoresTheEnvironment(t *testing.T) {
	for _, name := range []string{
		"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_WEBHOOK_SECRET",
	} {
		t.Setenv(name, "leak-"+name)
	}
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Leak: leak-header")
	t.Setenv("OPENAI_BASE_URL", "http://leak.invalid/v1")

	base, requests := record(t)
	client, err := openai.New(openai.Options{BaseURL: base, Model: "m1"})
	require.NoError(t, err)
	_, err = client.Generate(t.Context(), hello)
	require.NoError(t, err)

	got := <-requests
	require.NotContains(t, got.header, "Authorization")
	for name, values := range got.header {
		for _, value := range values {
			require.NotContains(t, value, "leak", "header %s", name)
		}
	}
}

func TestNew_refusesInvalidOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options openai.Options
		says    string
	}{
		"no base URL":       {openai.Options{Model: "m"}, "base_url"},
		"not a URL":         {openai.Options{BaseURL: "localhost:11434/v1", Model: "m"}, "http(s) URL"},
		"not http":          {openai.Options{BaseURL: "file:///etc/passwd", Model: "m"}, "http(s) URL"},
		"key in the URL":    {openai.Options{BaseURL: "https://user:sk-secret@h.test/v1", Model: "m"}, "api_key_env"},
		"no model":          {openai.Options{BaseURL: "https://h.test/v1"}, "set model"},
		"params: stream":    {openai.Options{BaseURL: "https://h.test/v1", Model: "m", Params: map[string]any{"stream": "no"}}, "neither true nor false"},
		"unparsable secret": {openai.Options{BaseURL: "http://user:sk-secret@h h/%", Model: "m"}, "http(s) URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openai.New(tc.options)
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "sk-secret")
		})
	}
}
