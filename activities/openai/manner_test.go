package openai_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// refuses answers with a refusal as long as the request contains the words.
func refuses(words string, status int, body string) http.HandlerFunc {
	return func(res http.ResponseWriter, req *http.Request) {
		sent, _ := io.ReadAll(req.Body)
		if strings.Contains(string(sent), words) {
			raw(status, body)(res, req)
			return
		}
		raw(200, saysHi)(res, req)
	}
}

var pictured = llm.Request{Messages: []llm.Message{{
	Role: llm.User, Content: "look", Images: []llm.Image{{MediaType: "image/png", Data: make([]byte, 3000)}},
}}}

const (
	optionsPart = `,"stream_options":{"include_usage":true}`
	streamPart  = `,"stream":true`
	imagePart   = `"image_url"`
)

// What a server does not know is left out at once, and not asked for again.
func TestServerRefusesAPart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		request llm.Request
		words   string // that the request must not contain
		status  int
		body    string
		keeps   string // that it still contains
	}{
		"stream_options, by name":    {hello, optionsPart, 400, `{"error":{"message":"Unknown field","param":"stream_options"}}`, streamPart},
		"stream_options, in a list":  {hello, optionsPart, 422, `{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`, streamPart},
		"stream_options, nested":     {hello, optionsPart, 400, `{"message":{"detail":[{"loc":["stream_options"]}]}}`, streamPart},
		"stream_options, plain":      {hello, optionsPart, 400, `unrecognized argument: include_usage`, streamPart},
		"stream, by name":            {hello, streamPart, 400, `{"error":{"message":"must be verified","param":"stream"}}`, `"hello"`},
		"stream, in words":           {hello, streamPart, 400, `{"error":{"message":"Streaming is not supported for this model"}}`, `"hello"`},
		"stream, not implemented":    {hello, streamPart, 501, `stream=true is not implemented`, `"hello"`},
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

// A refusal of everything is one: all parts are given up, each once.
func TestServerRefusesEverything(t *testing.T) {
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
		"of something upstream":              {hello, 400, `{"error":{"message":"upstream error"}}`, 1},
		"of another parameter":               {hello, 400, `{"error":{"message":"temperature?"}}`, 1},
		"of the key":                         {pictured, 401, `{"error":{"message":"no stream and no images without a key"}}`, 1},
		"of the size":                        {pictured, 413, `{"error":{"message":"image too large"}}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, w := serve(t, openai.Options{}, raw(tc.status, tc.body))
				_, err := client.Generate(t.Context(), tc.request)
				var failed *llm.Error
				require.ErrorAs(t, err, &failed)
				require.Equal(t, tc.status, failed.Status)
				require.Len(t, w.seen(), tc.asked)
			})
		})
	}
}
