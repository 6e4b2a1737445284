//go:build bench

package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// call is a tool call in a model's reply.
type call struct {
	tool      string
	arguments map[string]string
}

func answer(text string) call { return call{"new_answer", map[string]string{"content": text}} }

func vote(label string) call {
	return call{"vote", map[string]string{"agent_id": label, "reason": "It is the most complete one."}}
}

func write(path, content string) call {
	return call{"write_file", map[string]string{"path": path, "content": content}}
}

// request is the part of a request on which replies depend.
type request struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"` // none in a message of tool calls
	} `json:"messages"`
}

// said are the texts of one role, in order.
func (r request) said(role string) []string {
	var texts []string
	for _, m := range r.Messages {
		if m.Role == role {
			texts = append(texts, m.Content)
		}
	}
	return texts
}

// think is a model: it returns the reply and its delay.
type think func(request) (call, time.Duration)

// minds are the models of a team by name.
type minds map[string]think

// modelServer is a Chat Completions server for a team's models.
type modelServer struct {
	*httptest.Server
	minds minds

	mu    sync.Mutex
	asked []time.Time // when each call arrived
}

func newModelServer(b *testing.B, m minds) *modelServer {
	b.Helper()
	s := &modelServer{minds: m}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	b.Cleanup(s.Close)
	return s
}

func (m *modelServer) serve(w http.ResponseWriter, r *http.Request) {
	received := time.Now()
	var request request
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || m.minds[request.Model] == nil {
		http.Error(w, "no such model", http.StatusBadRequest)
		return
	}
	number := m.note(received)
	reply, delay := m.minds[request.Model](request)
	arguments, _ := json.Marshal(reply.arguments)
	body, _ := json.Marshal(map[string]any{
		"id": fmt.Sprintf("r%d", number), "object": "chat.completion", "model": request.Model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "tool_calls",
			"message": map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": fmt.Sprintf("call_%d", number), "type": "function",
				"function": map[string]any{"name": reply.tool, "arguments": string(arguments)},
			}}},
		}},
		"usage": map[string]any{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
	})
	time.Sleep(delay - time.Since(received))
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// note records a call.
func (m *modelServer) note(received time.Time) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, received)
	return len(m.asked)
}

// callsSince are the times of the calls after t, in order.
func (m *modelServer) callsSince(t time.Time) []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := slices.DeleteFunc(slices.Clone(m.asked), func(at time.Time) bool { return at.Before(t) })
	slices.SortFunc(calls, time.Time.Compare)
	return calls
}

// setting is the environment variable with which agents find the server.
func (m *modelServer) setting() string { return "OPENAI_BASE_URL=" + m.URL + "/v1" }

// team is a team with one agent for each model, and the given settings of its
// orchestrator.
func (m *modelServer) team(orchestrator map[string]any) string {
	agents := []any{}
	for _, model := range slices.Sorted(maps.Keys(m.minds)) {
		agents = append(agents, map[string]any{
			"id":      "agent_" + model[len("model-"):],
			"backend": map[string]any{"type": "openai", "model": model},
		})
	}
	data, _ := json.MarshalIndent(map[string]any{"agents": agents, "orchestrator": orchestrator}, "", "  ")
	return string(data)
}

// deaf are orchestrator settings without updates during a step, so that the replies of
// a script do not depend on speed.
var deaf = map[string]any{"disable_injection": true}
