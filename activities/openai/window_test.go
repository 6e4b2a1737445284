package openai_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
)

// Servers state the context window under different keys of their list of models.
func TestClient_Window(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		list string
		want int
	}{
		"vLLM":           {`{"data":[{"id":"other","max_model_len":1},{"id":"m","max_model_len":32768}]}`, 32768},
		"OpenRouter":     {`{"data":[{"id":"m","context_length":400000}]}`, 400000},
		"Groq":           {`{"object":"list","data":[{"id":"m","context_window":131072}]}`, 131072},
		"Mistral":        {`{"data":[{"id":"m","max_context_length":128000}]}`, 128000},
		"llama.cpp":      {`{"data":[{"id":"m","meta":{"n_ctx":4096,"n_ctx_train":32768}}]}`, 4096},
		"not stated":     {`{"data":[{"id":"m"}]}`, 0},
		"another model":  {`{"data":[{"id":"other","max_model_len":32768}]}`, 0},
		"another type":   {`{"data":[{"id":"m","context_length":"large"}]}`, 0},
		"no list":        {`{"error":{"message":"not found"}}`, 0},
		"not even JSON":  {`<html>`, 0},
		"an empty reply": {``, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "/v1/models", r.URL.Path)
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, tt.list)
			}))
			t.Cleanup(s.Close)
			c, err := openai.New(openai.Options{BaseURL: s.URL + "/v1", Model: "m"})
			require.NoError(t, err)
			require.Equal(t, tt.want, c.Window(t.Context()))
		})
	}
}

// A list has the names as the server orders them. Anthropic's own API takes its key in another header.
func TestClient_List(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		native bool
		reply  string
		want   []openai.Listed
		query  string
	}{
		"a list":       {reply: `{"object":"list","data":[{"id":"b","max_model_len":8},{"id":"a"}]}`, want: []openai.Listed{{ID: "b", MaxModelLen: 8}, {ID: "a"}}},
		"a bare array": {reply: `[{"id":"a","context_length":4}]`, want: []openai.Listed{{ID: "a", ContextLength: 4}}},
		"an empty one": {reply: `{"data":[]}`, want: []openai.Listed{}},
		"Anthropic":    {native: true, reply: `{"data":[{"type":"model","id":"claude"}],"has_more":false}`, want: []openai.Listed{{ID: "claude"}}, query: "limit=1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "/v1/models", r.URL.Path)
				assert.Equal(t, tt.query, r.URL.RawQuery)
				if tt.native {
					assert.Equal(t, []string{"the-key"}, r.Header["X-Api-Key"])
					assert.Equal(t, []string{"2023-06-01"}, r.Header["Anthropic-Version"])
					assert.Empty(t, r.Header["Authorization"])
				} else {
					assert.Equal(t, "Bearer the-key", r.Header.Get("Authorization"))
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, tt.reply)
			}))
			t.Cleanup(s.Close)
			c, err := openai.New(openai.Options{BaseURL: s.URL + "/v1", Model: "m", APIKey: "the-key", NativeList: tt.native})
			require.NoError(t, err)
			got, err := c.List(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestClient_List_problems(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status      int
		reply, says string
	}{
		"a refused key": {401, `{"error":{"message":"invalid key the-key"}}`, "the key or the account was refused (HTTP 401): invalid key [redacted]"},
		"no such path":  {404, "not found", "HTTP 404): not found"},
		"another page":  {200, "<html>", "its reply is no list of models"},
		"a redirect":    {302, "", "its reply is no list of models"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://elsewhere.example/")
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.reply)
			}))
			t.Cleanup(s.Close)
			c, err := openai.New(openai.Options{BaseURL: s.URL + "/v1", Model: "m", APIKey: "the-key"})
			require.NoError(t, err)
			_, err = c.List(t.Context())
			require.ErrorContains(t, err, "list the models of "+s.Listener.Addr().String()+": ")
			require.ErrorContains(t, err, tt.says)
		})
	}
	c, err := openai.New(openai.Options{BaseURL: "http://127.0.0.1:1/v1", Model: "m"})
	require.NoError(t, err)
	_, err = c.List(t.Context())
	require.ErrorContains(t, err, "list the models of 127.0.0.1:1: no response: ")
}
