package doctor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
)

const (
	usage = `,"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":64}}`
	call  = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"report","arguments":"{\"sentence\":\"Rayleigh.\"}"}}]}`
)

func newServer(t *testing.T) (url string, requests map[string]int) {
	t.Helper()
	requests = map[string]int{}
	replies := map[string]string{
		"native":    call + "}]" + usage,
		"uncounted": call + "}]",
		"text":      `{"role":"assistant","content":"{\"name\": \"report\", \"arguments\": {\"sentence\": \"Rayleigh.\"}}"}}]` + usage,
		"misnamed":  `{"role":"assistant","content":"{\"name\": \"sky\", \"arguments\": {\"sentence\": \"Blue.\"}}"}}]` + usage,
		"other":     strings.ReplaceAll(call, `"report"`, `"google:search"`) + "}]" + usage,
		"none":      `{"role":"assistant","content":"The sky is blue because of Rayleigh."}}]` + usage,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"data":[{"id":"native","max_model_len":2048},{"id":"text","meta":{"n_ctx":8192}}]}`)
			return
		}
		var request struct {
			Model string            `json:"model"`
			Tools []json.RawMessage `json:"tools"`
		}
		_ = json.NewDecoder(r.Body).Decode(&request)
		requests[request.Model]++ // the models of one server are asked one after the other
		w.Header().Set("Content-Type", "application/json")
		reply, known := replies[request.Model]
		if !known || len(request.Tools) != 1 {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":{"message":"no such model"}}`))
			return
		}
		fmt.Fprintf(w, `{"choices":[{"finish_reason":"stop","message":%s}`, reply)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", requests
}

func TestCheck(t *testing.T) {
	s := newShell(t)
	url, requests := newServer(t)
	s.File("team.yaml", strings.ReplaceAll(`
agents:
  - {id: agent_a, backend: {type: llamacpp, base_url: URL, model: native, context_window: 4096}}
  - {id: agent_b, backend: {type: llamacpp, base_url: URL, model: native, context_window: 4096}}
  - {id: agent_c, backend: {base_url: URL, model: uncounted}}
  - {id: agent_d, backend: {base_url: URL, model: text}}
  - {id: agent_e, backend: {type: vllm, base_url: URL, model: none}}
  - {id: agent_f, backend: {base_url: URL, model: unknown}}
  - {id: agent_g, backend: {type: ollama, base_url: "http://127.0.0.1:1/v1", model: gone}}
  - {id: agent_h, backend: {type: anthropic, model: keyless}}
  - {id: agent_i, backend: {provider: house, model: elsewhere}}
  - {id: agent_j, backend: {type: offline}}
`, "URL", url))
	code, stdout, _ := s.Run("models", "check", "--config", "team.yaml", "--json")
	require.Equal(t, cli.ExitUsage, code)
	var got ModelsReport
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.False(t, got.OK)
	require.Len(t, got.Models, 9)
	require.Equal(t, map[string]int{"native": 1, "uncounted": 1, "text": 1, "none": 1, "unknown": 1}, requests, "one call each, without a retry")

	a := got.Models[0]
	require.Equal(t, []string{"agent_a", "agent_b"}, a.Agents)
	require.True(t, a.OK && a.Reachable && a.Usage)
	require.Equal(t, native, a.Calls)
	require.Equal(t, 4096, *a.ContextWindow)
	require.Equal(t, "configuration", *a.WindowSource)
	require.Equal(t, []int64{100, 64, 20}, []int64{a.InputTokens, a.CachedInputTokens, a.OutputTokens})
	require.Zero(t, *a.TotalUSD)
	require.Positive(t, *a.TokensPerSecond)
	require.Empty(t, a.Detail)

	for i, want := range []struct {
		calls     calls
		ok, there bool
		says      string
	}{
		{native, true, true, ""},
		{native, true, true, ""},
		{asText, true, true, ""},
		{none, true, true, `it called no tool but wrote "The sky is blue because of Rayleigh.", so its agents can only answer and vote in plain text (orchestrator.text_answers); start the server with --enable-auto-tool-choice`},
		{"", false, true, "no such model"},
		{"", false, false, "check that base_url is right and the server is running"},
		{"", false, false, "the environment variable ANTHROPIC_API_KEY, which holds the key, is not set"},
		{"", false, false, `this worker has no provider "house"`},
		{native, true, true, ""},
	} {
		m := got.Models[i]
		require.Equal(t, want.calls, m.Calls, m.Model)
		require.Equal(t, want.ok, m.OK, m.Model)
		require.Equal(t, want.there, m.Reachable, m.Model)
		if want.says == "" {
			require.Empty(t, m.Detail, m.Model)
		}
		require.Contains(t, m.Detail, want.says)
	}
	require.Equal(t, 2048, *a.ServedWindow)
	require.Equal(t, 8192, *got.Models[2].ServedWindow)
	require.Nil(t, got.Models[1].ServedWindow)
	require.Nil(t, got.Models[1].ContextWindow)
	require.Nil(t, got.Models[1].WindowSource)
	require.False(t, got.Models[1].Usage)
	require.Nil(t, got.Models[1].TokensPerSecond)
}

// A model that calls no tool, or the wrong one, can take part if plain text counts.
func TestCheck_withoutCalls(t *testing.T) {
	s := newShell(t)
	url, _ := newServer(t)
	for orchestrator, ok := range map[string]bool{
		"{}":                                 true,
		"{text_answers: always}":             true,
		"{text_answers: never}":              false,
		"{coordination_mode: decomposition}": false,
		"{voting_sensitivity: checklist_gated, coordination: {orchestrator_managed_round_evaluator: true, round_evaluator_before_checklist: true}}": false,
	} {
		s.File("team.yaml", fmt.Sprintf(`
agents:
  - {id: agent_a, backend: {base_url: %q, model: none}}
  - {id: agent_b, backend: {base_url: %[1]q, model: other}}
  - {id: agent_c, backend: {base_url: %[1]q, model: misnamed}}
orchestrator: %s
`, url, orchestrator))
		code, stdout, stderr := s.Run("models", "check", "--config", "team.yaml")
		mark, want := "·", cli.ExitOK
		if !ok {
			mark, want = "✗", cli.ExitUsage
		}
		require.Equal(t, want, code, "%s: %s%s", orchestrator, stdout, stderr)
		require.Contains(t, stdout, mark+" agent_a: model none at", stderr)
		require.Contains(t, stdout, `it called the tool "google:search", but only report was offered`)
		require.Contains(t, stdout, `it tried to call a tool in text but wrote "{\"name\": \"sky\"`)
		require.Contains(t, stdout, "which cannot be read as a call of report; check again")
		require.Equal(t, ok, strings.Contains(stdout, "can only answer and vote in plain text"), orchestrator)
		require.Equal(t, !ok, strings.Contains(stdout, "this team takes no plain text"), orchestrator)
	}
}

// A model that called nothing is quoted in one short line, without its thoughts.
func TestInstead(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"":                                   "",
		" \n":                                "",
		"<think>A tool?</think>":             "",
		"<think>A tool?</think>\nThe\n sky.": ` but wrote "The sky."`,
		"\x1b[31mThe sky.":                   ` but wrote "The sky."`,
		strings.Repeat("sky ", 40):           ` but wrote "` + strings.Repeat("sky ", 24) + `s…"`,
	} {
		require.Equal(t, want, quoteInstead(said), said)
	}
}

// The text output is a table, followed by every fault once, with its agents.
func TestCheck_table(t *testing.T) {
	s := newShell(t)
	url, _ := newServer(t)
	s.File("good.yaml", fmt.Sprintf("agent: {backend: {type: llamacpp, base_url: %q, model: native, context_window: 4096}}\n", url))
	code, stdout, stderr := s.Run("models", "check", "--config", "good.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Regexp(t, `^MODEL +SERVER +AGENTS +CALLS +WINDOW +TOKENS \(CACHED\) +TOKENS/S
native +127\.0\.0\.1:\d+ +– +native +4096 \(configured\) +100 \(64\) \+ 20 +[\d.]+

· its context window of 4096 tokens is configured, but the server states 2048; set context_window: 2048 of the backend
$`, stdout)
	require.Equal(t, "asking 1 model of good.yaml\n", stderr)

	s.File("worker.yaml", fmt.Sprintf(`
providers: {house: {base_url: %q}}
teams: {mixed: {agents: [{id: agent_a, backend: {provider: house, model: uncounted}}, {id: agent_b, backend: {provider: house, model: none}}]}}
`, url))
	code, stdout, _ = s.Run("models", "check", "--worker-config", "worker.yaml", "--team", "mixed")
	require.Equal(t, cli.ExitOK, code)
	for _, want := range []string{
		"· agent_b: model none at 127.0.0.1:",
		"· unknown context window: agent_a, agent_b;",
		"· tokens not counted by the server: agent_a;",
	} {
		require.Contains(t, stdout, want)
	}
}

func TestCheck_usage(t *testing.T) {
	s := newShell(t)
	for line, says := range map[string]string{
		"models chek":                       "did you mean `conclave models check`?",
		"models check x":                    "models check",
		"models check --timeout 0s":         "positive duration",
		"models check --team x":             `there is no team "x"`,
		"models check --config no.yaml":     "no.yaml",
		"models check --team x --config no": "leave one out",
	} {
		code, stdout, stderr := s.Run(strings.Fields(line)...)
		require.Equal(t, cli.ExitUsage, code, line)
		require.Empty(t, stdout, line)
		require.Contains(t, stderr, says, line)
	}
}

// The models of a server, in the form that --model takes, and as JSON.
func TestModelsList(t *testing.T) {
	s := newShell(t)
	url, _ := newServer(t)
	t.Setenv("OPENAI_BASE_URL", url)
	code, stdout, stderr := s.Run("models", "list", "openai")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, "openai:native\nopenai:text\n", stdout)
	code, stdout, _ = s.Run("models", "list", "--json", "openai")
	require.Equal(t, cli.ExitOK, code)
	require.JSONEq(t, `{"models":[{"type":"openai","model":"native","context_window":2048},{"type":"openai","model":"text","context_window":8192}]}`, stdout)
	code, stdout, _ = s.Run("models", "list")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "openai:native\n", "the only service that can be reached")
	code, stdout, stderr = s.Run("models", "check", "--model", "native,text", "--json")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, `"model": "text"`)

	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
	for says, args := range map[string][]string{
		`"olama" is no kind whose models can be listed; did you mean ollama? There are openai, anthropic`: {"olama"},
		`"azure" is no kind`: {"azure"},
		"ANTHROPIC_API_KEY is not set; it holds the API key of anthropic": {"anthropic"},
		"list the models of 127.0.0.1:1: no response":                     {"openai"},
	} {
		code, stdout, stderr = s.Run(append([]string{"models", "list"}, args...)...)
		require.Equal(t, cli.ExitUsage, code, args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, says)
	}

	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"object": "list", "data": []}`))
	}))
	t.Cleanup(empty.Close)
	t.Setenv("OPENAI_BASE_URL", empty.URL+"/v1")
	code, _, stderr = s.Run("models", "list", "openai")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "list the models of openai: its server has none")
	s.StartedNothing()
}
