package openai_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

func TestGenerate_classifiesErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		kind   llm.Kind
		says   string
	}{
		"wrong key":              {401, `{"error":{"message":"Incorrect API key","type":"invalid_request_error","code":"invalid_api_key"}}`, llm.AuthFailed, "Incorrect API key"},
		"wrong key, number code": {401, `{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}`, llm.AuthFailed, "Invalid API Key"},
		"forbidden":              {403, `{"error":{"message":"no access"}}`, llm.AuthFailed, "api_key_env"},
		"no money":               {402, `{"error":{"message":"Insufficient credits"}}`, llm.AuthFailed, "Insufficient credits"},
		"no quota":               {429, `{"error":{"message":"You exceeded","code":"insufficient_quota"}}`, llm.AuthFailed, "account"},
		"flagged, at OpenRouter": {403, `{"error":{"code":403,"message":"The model requires moderation and your input was flagged"}}`, llm.ContentPolicy, "flagged"},
		"bad parameter":          {400, `{"error":{"message":"temperature?","code":null}}`, llm.BadRequest, "temperature?"},
		"unprocessable":          {422, `{"detail":[{"msg":"field required"}]}`, llm.BadRequest, "field required"},
		"unknown model":          {404, `{"error":{"message":"model \"m1\" not found","type":"api_error"}}`, llm.BadRequest, "check model"},
		"wrong path":             {404, `404 page not found`, llm.BadRequest, "404 page not found"},
		"wrong method":           {405, ``, llm.BadRequest, "base_url"},
		"not implemented":        {501, ``, llm.BadRequest, "refused"},
		"too long, OpenAI":       {400, `{"error":{"message":"…","code":"context_length_exceeded"}}`, llm.ContextTooLong, "longer context"},
		"too long, llama.cpp":    {400, `{"error":{"code":400,"message":"…","type":"exceed_context_size_error","n_ctx":8}}`, llm.ContextTooLong, ""},
		"too long, vLLM":         {400, `{"message":"This model's maximum context length is 8 tokens"}`, llm.ContextTooLong, "8 tokens"},
		"too long, Anthropic":    {400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}`, llm.ContextTooLong, "9 > 8"},
		"too long, Gemini":       {400, `[{"error":{"code":400,"message":"The input token count (9) exceeds the maximum"}}]`, llm.ContextTooLong, "input token count (9)"},
		"bad body, llama.cpp":    {500, `{"error":{"code":500,"message":"[json.exception.parse_error.101] parse error at line 1","type":"server_error"}}`, llm.BadRequest, "parse error"},
		"bad call, Ollama":       {500, `{"error":{"message":"error parsing tool call: raw='{' err=unexpected end","type":"api_error","code":null}}`, llm.BadReply, "raw="},
		"too early":              {425, ``, llm.Overloaded, "425"},
		"too large":              {413, ``, llm.ContextTooLong, "413"},
		"too many":               {429, `{"error":{"message":"Rate limit reached"}}`, llm.RateLimited, "Rate limit reached"},
		"tokens per minute":      {429, `{"error":{"message":"Request too large for the context window per minute"}}`, llm.RateLimited, ""},
		"filtered":               {400, `{"error":{"code":"content_filter","message":"no"}}`, llm.ContentPolicy, "rephrase"},
		"a team has failed":      {500, `{"error":{"message":"session s1 ended as failed","type":"server_error","code":"session_failed"}}`, llm.BadRequest, "the team has no answer: session s1 ended as failed"},
		"a team too deep":        {400, `{"error":{"message":"does a team ask itself?","code":"depth_exceeded"}}`, llm.BadRequest, "the team has no answer: does a team ask itself?"},
		"server error":           {500, `{"error":{"message":"oops"}}`, llm.Overloaded, "oops"},
		"bad gateway":            {502, `<html>bad gateway</html>`, llm.Overloaded, "bad gateway"},
		"busy":                   {503, `{"error":{"message":"server busy, please try again","code":null}}`, llm.Overloaded, "server busy"},
		"overloaded, Anthropic":  {529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.Overloaded, "Overloaded"},
		"request timeout":        {408, ``, llm.Overloaded, "408"},
		"unexpected no content":  {204, ``, llm.BadReply, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, w := serve(t, openai.Options{APIKey: "sk-secret"}, rawFields(tc.status, tc.body))
				_, err := client.Generate(t.Context(), hello)
				failed, ok := errors.AsType[*llm.Error](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, tc.kind, failed.Kind, failed.Message)
				if tc.status != 204 {
					require.Equal(t, tc.status, failed.Status)
				}
				require.Contains(t, failed.Message, "model m1 at models.test: ")
				require.Contains(t, failed.Message, tc.says)
				if !failed.Retryable() || failed.Kind == llm.BadReply {
					require.Len(t, w.seen(), 1, "asking again would not help")
				}
			})
		})
	}
}

// If teams ask each other, only the cause at the last one is kept.
func TestGenerate_teamsThatAskEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, openai.Options{}, rawFields(500, "{\"error\":{\"code\":\"session_failed\",\"message\":\"session s1 ended as failed without an answer: "+
			"agent_a: BadRequest: model conclave at h: the team has no answer: session s2 ended as failed without an answer: no key; `conclave retry s1` goes on with it\"}}"))
		_, err := client.Generate(t.Context(), hello)
		require.EqualError(t, err, "model m1 at models.test: the team has no answer: session s2 ended as failed without an answer: no key")
	})
}

func TestGenerate_followsNoRedirect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, w := serve(t, openai.Options{APIKey: "sk-secret"}, rawFields(307, "", "Location", "https://other.test/v1?token=t0p"))
		_, err := client.Generate(t.Context(), hello)
		failed, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, llm.BadRequest, failed.Kind)
		require.Contains(t, failed.Message, "redirected to https://other.test/v1")
		require.NotContains(t, failed.Message, "t0p")
		require.Len(t, w.seen(), 1)
	})
}

func TestErrors_areShortAndWithoutTheKey(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"in the message":    `{"error":{"message":"Incorrect API key sk-secret-key."}}`,
		"in a page":         `<p>sk-secret-key` + strings.Repeat(" sorry", 4000),
		"across the border": strings.Repeat("x", 495) + `sk-secret-key`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, openai.Options{APIKey: "sk-secret-key"}, rawFields(401, body))
				_, err := client.Generate(t.Context(), hello)
				require.Error(t, err)
				require.NotContains(t, err.Error(), "sk-s")
				require.Less(t, len(err.Error()), 800)
			})
		})
	}
}

// A failure shows its cause, which may quote the server's bytes.
func TestErrors_haveCausesWithoutTheKey(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"no HTTP":         plays(sends("sk-secret-key\r\n\r\n")),
		"an odd redirect": rawFields(302, "", "Location", "https://h.test/sk-secret-key"),
		"mid-stream":      plays(streams(), says(h), says(`{"error":{"message":"bad sk-secret-key"}}`), ends()),
		"an odd chunk":    plays(streams(), says("sk-secret-key"), ends()),
		"a refusal":       rawFields(200, choice(`"stop"`, `{"content":null,"refusal":"not for sk-secret-key"}`)),
		"a finish reason": rawFields(200, `{"choices":[],"for":"sk-secret-key"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, openai.Options{APIKey: "sk-secret-key"}, handler)
				_, err := client.Generate(t.Context(), hello)
				require.ErrorContains(t, err, "[redacted]")
				for ; err != nil; err = errors.Unwrap(err) {
					require.NotContains(t, err.Error(), "sk-s")
				}
			})
		})
	}
}

func TestGenerate_reportsNetworkFailures(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
	for name, handler := range map[string]http.HandlerFunc{
		"hangs up at once":    hangUp(""),
		"hangs up in a reply": hangUp(head + `{"choices":[`),
		"is no HTTP server":   hangUp("220 mail.test ESMTP\r\n"),
		"never answers":       func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, openai.Options{APIKey: "sk-secret"}, handler)
				_, err := client.Generate(t.Context(), hello)
				failed, ok := errors.AsType[*llm.Error](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, llm.Network, failed.Kind, failed.Message)
				require.True(t, failed.Retryable())
				require.Contains(t, failed.Message, "model m1 at models.test: ")
			})
		})
	}
}

func TestGenerate_reportsAnUnreachableServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refuse := errors.New("connection refused")
		transport := roundTripper(func(*http.Request) (*http.Response, error) { return nil, refuse })
		client, err := openai.New(openai.Options{BaseURL: "http://h.test:1/v1", Model: "m1", HTTPClient: &http.Client{Transport: transport}})
		require.NoError(t, err)
		_, err = client.Generate(t.Context(), hello)
		failed, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, llm.Network, failed.Kind)
		require.ErrorIs(t, err, refuse)
		require.Equal(t, "server h.test:1: no response: connection refused; check that base_url is right and the server is running", failed.Message)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestGenerate_endsWithItsContext(t *testing.T) {
	t.Parallel()
	stop := errors.New("the session was cancelled")
	for name, handler := range map[string]http.HandlerFunc{
		"in a call":          func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() },
		"waiting to retry":   rawFields(503, `{}`, "Retry-After", "50"),
		"before the request": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, w := serve(t, openai.Options{}, handler)
				ctx, cancel := context.WithCancelCause(t.Context())
				start := time.Now()
				if handler == nil {
					cancel(stop)
				} else {
					time.AfterFunc(2*time.Second, func() { cancel(stop) })
				}
				_, err := client.Generate(ctx, hello)
				require.ErrorIs(t, err, stop)
				require.LessOrEqual(t, time.Since(start), 2*time.Second)
				require.LessOrEqual(t, len(w.seen()), 1)
				var failed *llm.Error
				require.NotErrorAs(t, err, &failed, "an end of ours is no failure of the model")
			})
		})
	}
}
