package openai_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// startOllama serves the model that copies its calls from the prompt.
func startOllama(t *testing.T, env ...string) (baseURL string) {
	t.Helper()
	binary := program(t, "OLLAMA_BIN")
	home, at := t.TempDir(), address(t)
	env = append(env, "HOME="+home, "OLLAMA_HOST="+at, "OLLAMA_MODELS="+filepath.Join(home, "models"), "OLLAMA_NOPRUNE=1")
	run(t, "http://"+at+"/api/version", env, binary, "serve")

	small := filepath.Join(home, "Modelfile")
	require.NoError(t, os.WriteFile(small, []byte("FROM toolcopy\nPARAMETER num_ctx 256\n"), 0o600))
	plain := filepath.Join(home, "Plainfile") // its template has no tools
	require.NoError(t, os.WriteFile(plain, []byte("FROM toolcopy\nTEMPLATE \"\"\"<|im_start|>user\n{{ .Prompt }}<|im_end|>\n<|im_start|>assistant\n\"\"\"\n"), 0o600))
	for _, model := range [][]string{{"toolcopy", weights(t, "Modelfile")}, {"small", small}, {"plain", plain}} {
		create := exec.CommandContext(t.Context(), binary, "create", model[0], "-f", model[1])
		create.Env = append(create.Environ(), env...)
		create.Dir = filepath.Dir(weights(t, "toolcopy.gguf"))
		said, err := create.CombinedOutput()
		require.NoError(t, err, "%s", said)
	}
	return "http://" + at + "/v1"
}

func ollamaClient(t *testing.T, base, model string, params map[string]any) *openai.Client {
	t.Helper()
	// This endpoint defaults to 1 and ignores the Modelfile.
	all := map[string]any{"temperature": 0}
	maps.Copy(all, params)
	client, err := openai.New(openai.Options{BaseURL: base, Model: model, Params: all})
	require.NoError(t, err)
	return client
}

func TestOllama(t *testing.T) {
	t.Parallel()
	base := startOllama(t)

	t.Run("conversation, streamed", func(t *testing.T) { converse(t, ollamaClient(t, base, "toolcopy", nil)) })
	t.Run("conversation, not streamed", func(t *testing.T) {
		converse(t, ollamaClient(t, base, "toolcopy", map[string]any{"stream": false}))
	})
	for name, stream := range map[string]bool{"streamed": true, "not streamed": false} {
		t.Run("cut off, "+name, func(t *testing.T) {
			client := ollamaClient(t, base, "toolcopy", map[string]any{"stream": stream, "max_tokens": 4})
			reply, err := client.Generate(t.Context(), asks(`CALL get_weather {"city":"Paris"}`))
			failed, ok := errors.AsType[*llm.Error](err)
			require.True(t, ok, "%v", err)
			require.Contains(t, failed.Message, "raise max_tokens")
			require.Equal(t, int64(1), reply.Usage.ModelCalls)
			require.Positive(t, reply.Usage.InputTokens)
		})
	}
	t.Run("unknown model", func(t *testing.T) {
		_, err := ollamaClient(t, base, "nobody", nil).Generate(t.Context(), hello)
		failed, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, llm.BadRequest, failed.Kind)
		require.Contains(t, failed.Message, `model "nobody" not found`)
	})
	for name, stream := range map[string]bool{"streamed": true, "not streamed": false} {
		t.Run("a model without tools is asked without them, "+name, func(t *testing.T) {
			transport := &counting{}
			client, err := openai.New(openai.Options{
				BaseURL: base, Model: "plain", HTTPClient: transport.client(),
				Params: map[string]any{"stream": stream, "max_tokens": 64, "temperature": 0},
			})
			require.NoError(t, err)
			for range 2 {
				reply, err := client.Generate(t.Context(), asks(`SAY hello`))
				require.NoError(t, err)
				require.Empty(t, reply.Message.ToolCalls)
				require.NotEmpty(t, reply.Message.Content)
			}
			require.Equal(t, 1, transport.of(400), "the refusal is remembered")
			require.Equal(t, 2, transport.of(200))
		})
	}
	t.Run("an image is passed over by this server in silence", func(t *testing.T) {
		reply, err := ollamaClient(t, base, "toolcopy", nil).Generate(t.Context(), pictured)
		require.NoError(t, err)
		require.NotEmpty(t, reply.Message.Content)
	})
	t.Run("a prompt that is too long is cut by this server in silence", func(t *testing.T) {
		client := ollamaClient(t, base, "small", map[string]any{"max_tokens": 1})
		reply, _ := client.Generate(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Content: strings.Repeat("word ", 300)}}})
		require.Equal(t, int64(256), reply.Usage.InputTokens, "num_ctx: the usage is all that shows it")
	})
}

// With a queue of one, other requests are refused with 503 and no Retry-After, and
// succeed when retried.
func TestOllama_overload(t *testing.T) {
	t.Parallel()
	base := startOllama(t, "OLLAMA_MAX_QUEUE=1", "OLLAMA_NUM_PARALLEL=1")
	transport := &counting{}
	client, err := openai.New(openai.Options{
		BaseURL: base, Model: "toolcopy", Params: map[string]any{"max_tokens": 64, "temperature": 0}, HTTPClient: transport.client(),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	failures := make([]error, 8)
	for i := range failures {
		all.Go(func() { _, failures[i] = client.Generate(ctx, asks(`SAY hello`)) })
	}
	all.Wait()
	for _, err := range failures {
		require.NoError(t, err)
	}
	require.Positive(t, transport.of(503), "the server was overloaded")
	require.Equal(t, 8, transport.of(200))
}
