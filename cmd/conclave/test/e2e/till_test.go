//go:build e2e

package e2e

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"conclave/engine/llm"
)

// till is a model server that records the paid cost by model. No two calls use the same number of
// tokens.
type till struct {
	*modelServer

	mu    sync.Mutex
	calls int
	spent map[string]llm.Usage
}

func newTill(t *testing.T, script map[string][]reply) *till {
	t.Helper()
	m := &till{modelServer: newModelServer(t, script), spent: map[string]llm.Usage{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.sell))
	t.Cleanup(m.Close)
	return m
}

// sell adds usage and price to the script's replies. A client that has disconnected is not charged.
func (m *till) sell(w http.ResponseWriter, r *http.Request) {
	scripted := httptest.NewRecorder()
	m.serve(scripted, r)
	var body map[string]any
	if scripted.Code == http.StatusOK && json.Unmarshal(scripted.Body.Bytes(), &body) == nil && r.Context().Err() == nil {
		model, _ := body["model"].(string)
		body["usage"] = m.charge(model)
	}
	maps.Copy(w.Header(), scripted.Header())
	w.WriteHeader(scripted.Code)
	if body == nil {
		_, _ = w.Write(scripted.Body.Bytes())
		return
	}
	_ = json.NewEncoder(w).Encode(body)
}

func (m *till) charge(model string) map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	n := m.calls
	usd := float64(n) / 1024 // sums of these are exact
	m.spent[model] = m.spent[model].Add(llm.Usage{
		InputTokens: int64(1000 + n), CachedInputTokens: int64(100 + n), OutputTokens: int64(50 + n), ReasoningTokens: int64(10 + n),
		TotalUSD: &usd, ModelCalls: 1,
	})
	return map[string]any{
		"prompt_tokens": 1000 + n, "completion_tokens": 50 + n, "total_tokens": 1050 + 2*n, "cost": usd,
		"prompt_tokens_details":     map[string]any{"cached_tokens": 100 + n},
		"completion_tokens_details": map[string]any{"reasoning_tokens": 10 + n},
	}
}

// of returns the cost of a model's calls.
func (m *till) of(model string) llm.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent[model]
}

// all returns the cost of the calls of all models.
func (m *till) all() llm.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum llm.Usage
	for _, u := range m.spent {
		sum = sum.Add(u)
	}
	return sum
}
