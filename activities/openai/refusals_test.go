package openai_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// refuses responds with a refusal while the request contains the words.
func refuses(words string, status int, body string) http.HandlerFunc {
	return func(res http.ResponseWriter, req *http.Request) {
		sent, _ := io.ReadAll(req.Body)
		if strings.Contains(string(sent), words) {
			rawFields(status, body)(res, req)
			return
		}
		rawFields(200, saysHi)(res, req)
	}
}

var pictured = llm.Request{Messages: []llm.Message{{
	Role: llm.User, Content: "look", Images: []llm.Image{{MediaType: "image/png", Data: make([]byte, 3000)}},
}}}

// hasThoughts is a conversation with a model's thoughts and a signed call.
var hasThoughts = llm.Request{Messages: []llm.Message{
	{Role: llm.User, Content: "hello"},
	{
		Role: llm.Assistant, Extra: map[string]json.RawMessage{"reasoning": json.RawMessage(`"Hm."`), "reasoning_content": json.RawMessage(`"Hm."`)},
		ToolCalls: []llm.ToolCall{{ID: "a", Name: "add", Arguments: "{}", Extra: map[string]json.RawMessage{"extra_content": json.RawMessage(`{"google":{"thought_signature":"s"}}`)}}},
	},
	{Role: llm.ToolRole, ToolCallID: "a", Content: "3"},
}}

// offering is a request with a tool.
var offering = llm.Request{Messages: hello.Messages, Tools: []llm.Tool{{Name: "add", Parameters: json.RawMessage(`{"type":"object"}`)}}}

const (
	optionsPart = `,"stream_options":{"include_usage":true}`
	streamPart  = `,"stream":true`
	imagePart   = `"image_url"`
	thoughtPart = `"reasoning`
	toolsPart   = `"tools"`
	signature   = `{"google":{"thought_signature":"s"}}`
)

// A refused part is left out at once, and not sent again.
func TestRefusals_areRepeatedWithoutThePart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		request llm.Request
		words   string // words that the request must not contain
		status  int
		body    string
		keeps   string // words that it still contains
	}{
		"stream_options, by name":   {hello, optionsPart, 400, `{"error":{"message":"Unknown field","param":"stream_options"}}`, streamPart},
		"stream_options, in a list": {hello, optionsPart, 422, `{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`, streamPart},
		"stream_options, nested":    {hello, optionsPart, 400, `{"message":{"detail":[{"loc":["stream_options"]}]}}`, streamPart},
		"stream_options, plain":     {hello, optionsPart, 400, `unrecognized argument: include_usage`, streamPart},
		"stream, by name":           {hello, streamPart, 400, `{"error":{"message":"must be verified","param":"stream"}}`, `"hello"`},
		"stream, in words":          {hello, streamPart, 400, `{"error":{"message":"Streaming is not supported for this model"}}`, `"hello"`},
		"stream, not implemented":   {hello, streamPart, 501, `stream=true is not implemented`, `"hello"`},
		"thoughts, Groq": {
			hasThoughts, thoughtPart, 400,
			`{"error":{"message":"'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning' is unsupported)]"}}`, signature,
		},
		"thoughts, DeepSeek": {
			hasThoughts, thoughtPart, 400, `{"error":{"message":"The reasoning_content is intermediate and must not be in the input"}}`, signature,
		},
		"tools, Ollama":              {offering, toolsPart, 400, `{"error":{"message":"registry.ollama.ai/library/m1:latest does not support tools"}}`, streamPart},
		"tools, OpenRouter":          {offering, toolsPart, 404, `{"error":{"code":404,"message":"No endpoints found that support tool use"}}`, streamPart},
		"images, OpenAI":             {pictured, imagePart, 400, `{"error":{"message":"Invalid content type. image_url is only supported by certain models."}}`, streamPart},
		"images, DeepSeek":           {pictured, imagePart, 422, "Failed to deserialize: messages[0]: unknown variant `image_url`, expected `text`", streamPart},
		"images, OpenRouter":         {pictured, imagePart, 404, `{"error":{"code":404,"message":"No endpoints found that support image input"}}`, streamPart},
		"images, vLLM":               {pictured, imagePart, 400, `{"object":"error","message":"m1 is not a multimodal model"}`, streamPart},
		"images, Groq":               {pictured, imagePart, 400, `{"error":{"message":"messages[0].content must be a string"}}`, streamPart},
		"images, llama.cpp":          {pictured, imagePart, 500, `{"error":{"code":500,"message":"image input is not supported - hint: you may need to provide the mmproj"}}`, streamPart},
		"images, no vision":          {pictured, imagePart, 400, `{"error":{"message":"This model does not support vision"}}`, streamPart},
		"images, in a broken stream": {pictured, imagePart, 200, `{"error":{"code":400,"message":"cannot read image"}}`, streamPart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent []string
			handler := func(res http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				sent = append(sent, string(body))
				req.Body = io.NopCloser(strings.NewReader(string(body)))
				refuses(tc.words, tc.status, tc.body)(res, req)
			}
			base := over(t, handler)
			client, err := openai.New(openai.Options{BaseURL: base, Model: "m1"})
			require.NoError(t, err)
			for range 2 {
				reply, err := client.Generate(t.Context(), tc.request)
				require.NoError(t, err)
				require.Equal(t, "hi", reply.Message.Content)
				require.Equal(t, int64(1), reply.Usage.ModelCalls, "a refusal is not paid for")
			}
			require.Len(t, sent, 3, "refused once, and remembered")
			require.Contains(t, sent[0], tc.words)
			for _, body := range sent[1:] {
				require.NotContains(t, body, tc.words)
				require.Contains(t, body, tc.keeps)
			}
			if tc.words == imagePart {
				require.Contains(t, sent[1], `{"content":"look\n[image of 3 KB: this model cannot see images]","role":"user"}`)
			}
		})
	}
}

// images: true makes a refusal an error, images: false sends none.
func TestImages_asConfigured(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	base := over(t, func(res http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		refuses(imagePart, 400, `{"error":{"message":"This model does not support vision"}}`)(res, req)
	})
	for _, step := range []struct {
		images, refused string
		sent            int64
	}{{"true", "does not support vision", 1}, {"false", "", 2}, {"auto", "", 4}, {"", "", 6}} {
		client, err := openai.New(openai.Options{BaseURL: base, Model: "m1", Images: step.images})
		require.NoError(t, err)
		if _, err = client.Generate(t.Context(), pictured); step.refused == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, step.refused)
		}
		require.Equal(t, step.sent, asked.Load(), "requests so far")
	}
}

// Clients of the same model at a server share refusals, except of images, which may
// be about one image.
func TestRefusals_areShared(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	base := over(t, func(res http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		refuses(optionsPart, 400, `{"error":{"param":"stream_options"}}`)(res, req)
	})
	blind := over(t, refuses(imagePart, 400, `{"error":{"message":"the image is broken"}}`))
	shared := &openai.Refusals{}
	ask := func(base, model string, req llm.Request, o openai.Options) {
		o.BaseURL, o.Model, o.Refusals = base, model, shared
		client, err := openai.New(o)
		require.NoError(t, err)
		_, err = client.Generate(t.Context(), req)
		require.NoError(t, err)
	}
	for _, step := range []struct {
		model string
		sent  int64
	}{{"m1", 2}, {"m1", 3}, {"m2", 5}, {"m1", 6}} {
		ask(base, step.model, hello, openai.Options{})
		require.Equal(t, step.sent, asked.Load(), "requests so far")
	}

	transport := &counting{}
	for range 2 {
		ask(blind, "m1", pictured, openai.Options{HTTPClient: transport.client()})
	}
	require.Equal(t, 2, transport.of(400), "each finds out for itself")
}

// A stream that begins before it is refused counts.
func TestRefusals_inAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refusal := cutStream(delta(`"content":"h"`), `{"choices":[],"usage":{"prompt_tokens":9}}`, `{"error":{"code":400,"message":"cannot read image"}}`)
		client, _ := serve(t, openai.Options{}, rawFields(200, refusal, "Content-Type", "text/event-stream"), rawFields(200, saysHi))
		reply, err := client.Generate(t.Context(), pictured)
		require.NoError(t, err)
		require.Equal(t, llm.Usage{InputTokens: 12, OutputTokens: 1, ModelCalls: 2}, reply.Usage)
	})
}

func TestRefusals_areNotRememberedWithoutSuccess(t *testing.T) {
	t.Parallel()
	var sent []string
	base := over(t, func(res http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if sent = append(sent, string(body)); len(sent) <= 2 {
			rawFields(400, `{"error":{"message":"the gateway cannot stream just now"}}`)(res, req)
			return
		}
		rawFields(200, saysHi)(res, req)
	})
	client, err := openai.New(openai.Options{BaseURL: base, Model: "m1"})
	require.NoError(t, err)
	_, err = client.Generate(t.Context(), hello)
	require.Error(t, err)
	_, err = client.Generate(t.Context(), hello)
	require.NoError(t, err)
	require.Len(t, sent, 3)
	require.NotContains(t, sent[1], streamPart)
	require.Contains(t, sent[2], streamPart, "it streams again")
}

// Every part is dropped once.
func TestRefusals_ofEveryPart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		request llm.Request
		status  int
		body    string
		asked   int
	}{
		"of the options, then of the stream": {hello, 400, `{"error":{"message":"no stream_options, no stream"}}`, 2},
		"of streams":                         {hello, 400, `{"error":{"message":"no stream"}}`, 2},
		"of images":                          {pictured, 400, `{"error":{"message":"no images"}}`, 2},
		"of images that there are none of":   {hello, 400, `{"error":{"message":"no images"}}`, 1},
		"of thoughts":                        {hasThoughts, 400, `{"error":{"message":"no reasoning_content"}}`, 2},
		"of thoughts that there are none of": {hello, 400, `{"error":{"message":"no reasoning_content"}}`, 1},
		"of a parameter about thoughts":      {hasThoughts, 400, `{"error":{"message":"reasoning_effort?"}}`, 1},
		"of something upstream":              {hello, 400, `{"error":{"message":"upstream error"}}`, 1},
		"of another parameter":               {hello, 400, `{"error":{"message":"temperature?"}}`, 1},
		"of the key":                         {pictured, 401, `{"error":{"message":"no stream and no images without a key"}}`, 1},
		"of the size":                        {pictured, 413, `{"error":{"message":"image too large"}}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, w := serve(t, openai.Options{}, rawFields(tc.status, tc.body))
				_, err := client.Generate(t.Context(), tc.request)
				failed, ok := errors.AsType[*llm.Error](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, tc.status, failed.Status)
				require.Len(t, w.seen(), tc.asked)
			})
		})
	}
}
