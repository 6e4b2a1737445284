package worker

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/llm"
)

// asked is a request to an API server.
type asked struct {
	path, authorization, apiKey string

	body map[string]any
}

// newAPI returns an API server that abstains and counts tokens, and the last request to
// it.
func newAPI(t *testing.T) (url string, last *asked) {
	t.Helper()
	last = &asked{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*last = asked{path: r.URL.Path, authorization: r.Header.Get("Authorization"), apiKey: r.Header.Get("Api-Key")}
		_ = json.NewDecoder(r.Body).Decode(&last.body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop",
			"message":{"role":"assistant","content":"yes"}}],
			"usage":{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_tokens_details":{"cached_tokens":400}}}`))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", last
}

func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func agent(b config.Backend) config.Agent {
	b.Type = "openai"
	return config.Agent{ID: "agent_a", Backend: b}
}

func number(f float64) *float64 { return &f }

func ask(t *testing.T, m Models, b config.Backend) llm.Usage {
	t.Helper()
	model, err := m.Model(agent(b))
	require.NoError(t, err)
	reply, err := model.Generate(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "well?"}}})
	require.NoError(t, err)
	return reply.Usage
}

func TestModel_ofAProviderHasItsAddressKeyAndPrice(t *testing.T) {
	t.Parallel()
	url, last := newAPI(t)
	m := Models{
		Getenv: environment(map[string]string{"HOUSE_KEY": "the-house-key", KeyVariable: "another-key", baseURLVariable: "http://127.0.0.1:1"}),
		Providers: newProviders(map[string]Provider{"house": {
			BaseURL: url, APIKeyEnv: "HOUSE_KEY", Params: map[string]any{"temperature": 0.5, "seed": 1},
			Price: config.Price{Input: number(2), CachedInput: number(0.5), Output: number(10)},
		}}),
	}
	own := map[string]any{"temperature": 0.9}
	usage := ask(t, m, config.Backend{Provider: "house", Model: "m", Params: own})

	require.Equal(t, "/v1/chat/completions", last.path)
	require.Equal(t, "Bearer the-house-key", last.authorization)
	require.InDelta(t, 0.9, last.body["temperature"], 0, "an agent's parameters come before the provider's")
	require.InDelta(t, 1, last.body["seed"], 0)
	require.Equal(t, map[string]any{"temperature": 0.9}, own, "the team is not changed")
	require.NotNil(t, usage.TotalUSD)
	require.InDelta(t, (600*2+400*0.5+100*10)/1e6, *usage.TotalUSD, 1e-12)
}

func TestModel_ofAProviderWithoutKeyOrPrice(t *testing.T) {
	t.Parallel()
	url, last := newAPI(t)
	m := Models{
		Getenv:    environment(map[string]string{KeyVariable: "not-for-this-server"}),
		Providers: newProviders(map[string]Provider{"open": {BaseURL: url}}),
	}
	usage := ask(t, m, config.Backend{Provider: "open", Model: "m"})
	require.Empty(t, last.authorization, "a key goes only where it is configured to go")
	require.Nil(t, usage.TotalUSD, "an unknown price is not 0")
}

func TestModel_sessionCannotChangeAProvidersAddress(t *testing.T) {
	t.Parallel()
	url, last := newAPI(t)
	m := Models{
		Getenv:    environment(map[string]string{"HOUSE_KEY": "the-house-key", "STOLEN_KEY": "stolen"}),
		Providers: newProviders(map[string]Provider{"house": {BaseURL: url, APIKeyEnv: "HOUSE_KEY"}}),
	}
	// No input has an address beside a provider, because parsing refuses it. Here the address has
	// no effect either.
	ask(t, m, config.Backend{Provider: "house", Model: "m", BaseURL: "http://127.0.0.1:1", APIKeyEnv: "STOLEN_KEY"})
	require.Equal(t, "Bearer the-house-key", last.authorization)
}

func TestModel_lacks(t *testing.T) {
	t.Parallel()
	m := Models{Getenv: environment(nil), Providers: newProviders(map[string]Provider{
		"b": {BaseURL: "http://h/v1", APIKeyEnv: "B_KEY"}, "a": {BaseURL: "http://h/v1"},
	})}
	_, err := m.Model(agent(config.Backend{Provider: "c", Model: "m"}))
	require.EqualError(t, err, `this worker has no provider "c"; it has: a, b`)
	require.True(t, activities.Lacks(err, activities.NoProvider))
	_, err = Models{}.Model(agent(config.Backend{Provider: "c", Model: "m"}))
	require.EqualError(t, err, `this worker has no provider "c"; it has none; an operator defines providers in the file of --worker-config`)

	_, err = m.Model(agent(config.Backend{Provider: "b", Model: "m"}))
	require.True(t, activities.Lacks(err, activities.MissingKey))
	require.ErrorContains(t, err, "needs the environment variable B_KEY")

	team := config.Team{Agents: []config.Agent{agent(config.Backend{Provider: "a"}), agent(config.Backend{Provider: "b"}), agent(config.Backend{})}}
	require.Equal(t, map[string][]string{"B_KEY": {"agent_a"}, KeyVariable: {"agent_a"}}, m.MissingKeys(team))
	require.Empty(t, m.MissingKeys(team.Offline()))
	require.NoError(t, m.CheckProviders(team))
	require.True(t, activities.Lacks(Models{}.CheckProviders(team), activities.NoProvider))
}

// The data set of a model of known skill is found from any working directory.
func TestModel_ofKnownSkill(t *testing.T) {
	t.Parallel()
	m := Models{Getenv: environment(nil)}
	given := config.Backend{Type: config.Offline, Params: map[string]any{"skill": 0.5, config.Targets: "testdata/questions.jsonl"}}
	b := m.Resolve(given)
	require.True(t, filepath.IsAbs(b.Params[config.Targets].(string)))
	require.Equal(t, "testdata/questions.jsonl", given.Params[config.Targets], "the given backend is unchanged")
	require.Equal(t, b, m.Resolve(b))

	_, err := m.Model(config.Agent{ID: "agent_a", Backend: b})
	require.ErrorContains(t, err, "name a readable data set")
	_, err = m.Model(config.Agent{ID: "agent_a", Backend: config.Backend{Type: config.Offline, Params: map[string]any{"temperature": 1}}})
	require.NoError(t, err, "parameters of other models have no effect")
}

// A type stands for an address and the variable of its key, which is sent to no other
// address.
func TestResolve(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		variables map[string]string
		backend   config.Backend
		url, key  string
	}{
		"openai":                       {nil, config.Backend{Type: "openai"}, "https://api.openai.com/v1", "OPENAI_API_KEY"},
		"openai elsewhere":             {map[string]string{"OPENAI_BASE_URL": "http://h/v1"}, config.Backend{Type: "openai"}, "http://h/v1", ""},
		"openai elsewhere, with a key": {map[string]string{"OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": "k"}, config.Backend{Type: "openai"}, "http://h/v1", "OPENAI_API_KEY"},
		"anthropic":                    {map[string]string{"OPENAI_BASE_URL": "http://h/v1"}, config.Backend{Type: "anthropic"}, "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"},
		"gemini":                       {nil, config.Backend{Type: "gemini"}, "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"},
		"gemini, another variable":     {map[string]string{"GOOGLE_API_KEY": "k"}, config.Backend{Type: "gemini"}, "https://generativelanguage.googleapis.com/v1beta/openai", "GOOGLE_API_KEY"},
		"gemini, the named variable":   {map[string]string{"GOOGLE_API_KEY": "k"}, config.Backend{Type: "gemini", APIKeyEnv: "MY_KEY"}, "https://generativelanguage.googleapis.com/v1beta/openai", "MY_KEY"},
		"ollama":                       {map[string]string{"OPENAI_API_KEY": "k"}, config.Backend{Type: "ollama"}, "http://127.0.0.1:11434/v1", ""},
		"a type at another address":    {map[string]string{"ANTHROPIC_API_KEY": "k"}, config.Backend{Type: "anthropic", BaseURL: "http://h/v1"}, "http://h/v1", ""},
		"a provider":                   {map[string]string{"ANTHROPIC_API_KEY": "k"}, config.Backend{Type: "anthropic", Provider: "house"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := Models{Getenv: environment(tt.variables)}
			b := m.Resolve(tt.backend)
			require.Equal(t, tt.url, b.BaseURL)
			require.Equal(t, tt.key, b.APIKeyEnv)
			require.Equal(t, b, Models{Getenv: environment(nil)}.Resolve(b), "the second time changes nothing")
		})
	}
}

// Requests follow the known peculiarities of a type, even at a provider's address.
func TestModel_hasThePeculiaritiesOfItsType(t *testing.T) {
	t.Parallel()
	url, last := newAPI(t)
	m := Models{
		Getenv:    environment(map[string]string{"HOUSE_KEY": "the-house-key"}),
		Providers: newProviders(map[string]Provider{"house": {BaseURL: url, APIKeyEnv: "HOUSE_KEY"}}),
	}
	ask := func(kind string) {
		model, err := m.Model(config.Agent{ID: "a", Backend: config.Backend{Type: kind, Provider: "house", Model: "m"}})
		require.NoError(t, err)
		_, err = model.Generate(t.Context(), llm.Request{Messages: []llm.Message{
			{Role: llm.User, Content: "well?"},
			{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "look", Arguments: "{}"}, {ID: "abcDEF123", Name: "look", Arguments: "{}"}}},
			llm.ToolCall{ID: "call_1"}.Result("nothing"), llm.ToolCall{ID: "abcDEF123"}.Result("nothing"),
		}})
		require.NoError(t, err)
	}
	sent := func(message int) map[string]any { return last.body["messages"].([]any)[message].(map[string]any) }

	ask("openai")
	require.Contains(t, last.body, "stream_options")
	require.Equal(t, "call_1", sent(2)["tool_call_id"])

	ask("mistral")
	require.NotContains(t, last.body, "stream_options")
	require.Equal(t, "Bearer the-house-key", last.authorization)
	require.Regexp(t, "^[a-z0-9]{9}$", sent(2)["tool_call_id"])
	require.Equal(t, "abcDEF123", sent(3)["tool_call_id"])
	require.Equal(t, sent(2)["tool_call_id"], sent(1)["tool_calls"].([]any)[0].(map[string]any)["id"])

	ask("azure")
	require.Equal(t, "the-house-key", last.apiKey)
	require.Empty(t, last.authorization)
}

func TestNoCalls(t *testing.T) {
	t.Parallel()
	m := Models{
		Getenv:    environment(nil),
		Providers: newProviders(map[string]Provider{"house": {BaseURL: "http://h:1/v1"}}),
	}
	for want, b := range map[string]config.Backend{
		"127.0.0.1:8080 called no tool in any reply of this step (`conclave models check` tests it); start the server with --jinja and a model whose chat template has tools": {Type: "llamacpp", Model: "q"},
		"api.openai.com called no tool in any reply of this step (`conclave models check` tests it); choose a model that can call tools":                                      {Type: "openai", Model: "q"},
		"h:1 called no tool in any reply of this step (`conclave models check` tests it); check that its server passes tools on (llama.cpp: --jinja and a template with tools; " +
			"vLLM: --enable-auto-tool-choice; Ollama: a model with the capability tools)": {Type: "openai", Model: "q", Provider: "house"},
	} {
		none, unread := m.NoCalls(config.Agent{ID: "a", Backend: b})
		require.Equal(t, "model q at "+want, none)
		require.Contains(t, unread, " tried to call a tool in text, which cannot be read as a call of an offered tool (`conclave models check` tests it); choose a larger model")
	}
	none, unread := m.NoCalls(config.Agent{ID: "a", Backend: config.Backend{Type: config.Offline}})
	require.Empty(t, none+unread)
}

// Every step builds its own model, but shares connections and known refusals of the
// server with earlier steps.
func TestModels_shareConnectionsAndRefusals(t *testing.T) {
	t.Parallel()
	for name, provider := range map[string]string{"a provider's": "house", "without a provider": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests, connections atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				body, _ := io.ReadAll(r.Body)
				w.Header().Set("Content-Type", "application/json")
				if strings.Contains(string(body), "stream_options") {
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(w, `{"error":{"param":"stream_options"}}`)
					return
				}
				_, _ = io.WriteString(w, `{"choices":[{"finish_reason":"stop","message":{"content":"yes"}}]}`)
			}))
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connections.Add(1)
				}
			}
			s.Start()
			t.Cleanup(s.Close)
			m := Models{
				Getenv: environment(nil), servers: newServers(),
				Providers: newProviders(map[string]Provider{"house": {BaseURL: s.URL}}),
			}
			backend := config.Backend{Provider: provider, Model: "m"}
			if provider == "" {
				backend.BaseURL = s.URL
			}
			for range 3 {
				ask(t, m, backend)
			}
			require.EqualValues(t, 4, requests.Load(), "one was refused")
			require.EqualValues(t, 1, connections.Load())
		})
	}
}

func TestConfigure_keepsExistingValues(t *testing.T) {
	t.Parallel()
	file := Settings{
		Teams:              map[string]config.Team{"default": config.Default(), "other": config.Default()},
		MaxConcurrentSteps: 8,
	}
	var c Config
	c.Configure(file)
	require.Equal(t, 8, c.MaxConcurrentSteps)
	require.Equal(t, file.Teams, c.Teams.Named)

	c = Config{MaxConcurrentSteps: 2, Teams: activities.Teams{Named: map[string]config.Team{"default": config.Default().Offline()}}}
	c.Configure(file)
	require.Equal(t, 2, c.MaxConcurrentSteps)
	require.Equal(t, config.Default().Offline(), c.Teams.Named["default"])
	require.Equal(t, config.Default(), c.Teams.Named["other"])
	c.Models.Getenv = environment(nil)
	require.Equal(t, []string{
		"the environment variable OPENAI_API_KEY is not set; in sessions of the team other, agent_a, agent_b, agent_c will wait for a worker that has it",
	}, c.Missing(t.Context()))
}

// Keys from a file are used where the environment has none, for keys alone, and they are redacted.
func TestModels_keys(t *testing.T) {
	t.Parallel()
	url, last := newAPI(t)
	m := Models{
		Getenv: environment(map[string]string{"GROQ_API_KEY": "of-the-user"}),
		Keys:   map[string]string{"MY_KEY": "of-the-project", "GROQ_API_KEY": "unused", baseURLVariable: "http://127.0.0.1:1"},
	}
	ask(t, m, config.Backend{Model: "m", BaseURL: url, APIKeyEnv: "MY_KEY"})
	require.Equal(t, "Bearer of-the-project", last.authorization)
	ask(t, m, config.Backend{Model: "m", BaseURL: url, APIKeyEnv: "GROQ_API_KEY"})
	require.Equal(t, "Bearer of-the-user", last.authorization)
	require.Equal(t, "https://api.openai.com/v1", m.Resolve(config.Backend{Type: config.OpenAI}).BaseURL)
	require.Equal(t, "groq", m.UsualType())

	c := Config{Models: m, Tools: NewTools(DefaultSettings())}
	require.Equal(t, "x [redacted]", string(c.secretRemover()([]byte("x of-the-project"))))
	local, err := OpenLocal(m, c.Tools)
	require.NoError(t, err)
	t.Cleanup(local.Close)
	ports, err := local.Ports(agent(config.Backend{Model: "m", BaseURL: url}))
	require.NoError(t, err)
	require.Equal(t, "x [redacted]", string(ports.Redact([]byte("x of-the-project"))))
}

// A model that is named without a service is of the only one that can be used.
func TestModels_UsualType(t *testing.T) {
	t.Parallel()
	for want, environments := range map[string][]map[string]string{
		"openai": {
			{},
			{"OPENAI_API_KEY": "k"},
			{"OPENAI_API_KEY": "k", "GROQ_API_KEY": "k"},
			{"GROQ_API_KEY": "k", "XAI_API_KEY": "k"},
			{"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"},
			{"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "GROQ_API_KEY": "k"},
			{"AZURE_OPENAI_API_KEY": "k"},
		},
		"groq":   {{"GROQ_API_KEY": "k"}, {"GROQ_API_KEY": "k", "AZURE_OPENAI_API_KEY": "k"}},
		"gemini": {{"GOOGLE_API_KEY": "k"}, {"GEMINI_API_KEY": "k", "GOOGLE_API_KEY": "k"}},
	} {
		for _, variables := range environments {
			require.Equal(t, want, Models{Getenv: environment(variables)}.UsualType(), variables)
		}
	}
}
