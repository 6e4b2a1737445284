//go:build bench

package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// call is a tool call with which a model replies.
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

// script is what the model of each name replies in one session. A server plays
// it again and again, for sessions one after the other.
type script map[string][]call

// threeRounds is the session of the protocol's example: nine steps, and in each
// of its three waves every agent has one.
var threeRounds = script{
	"model-a": {write("plan.md", "# Plan A\n"), answer("Answer A."), vote("agent2"), vote("agent3")},
	"model-b": {answer("Answer B."), vote("agent2"), vote("agent3")},
	"model-c": {answer("Answer C."), answer("Answer C, improved."), vote("agent3")},
}

const (
	steps = 9 // of threeRounds
	waves = 3
	// callsInARow is how many model calls of threeRounds wait for one another.
	callsInARow = 4
)

// alone is the shortest session: one agent answers and votes for itself.
var alone = script{"model-a": {answer("Answer A."), vote("agent1")}}

// modelServer is a Chat Completions server that replies by a script, each time
// after the same delay.
type modelServer struct {
	*httptest.Server
	script script
	delay  time.Duration
	// asked gets the time of the first call after it was emptied.
	asked chan time.Time

	mu    sync.Mutex
	calls map[string]int
}

func newModelServer(b *testing.B, s script, delay time.Duration) *modelServer {
	b.Helper()
	m := &modelServer{script: s, delay: delay, asked: make(chan time.Time, 1), calls: map[string]int{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	b.Cleanup(m.Close)
	return m
}

func (m *modelServer) serve(w http.ResponseWriter, r *http.Request) {
	received := time.Now()
	select {
	case m.asked <- received:
	default:
	}
	var request struct {
		Model string `json:"model"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(m.script[request.Model]) == 0 {
		http.Error(w, "no such model", http.StatusBadRequest)
		return
	}
	reply, number := m.next(request.Model)
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
	time.Sleep(m.delay - time.Since(received))
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

func (m *modelServer) next(model string) (call, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.calls[model]
	m.calls[model]++
	replies := m.script[model]
	return replies[n%len(replies)], n
}

// setting is the environment variable with which agents find the server.
func (m *modelServer) setting() string { return "OPENAI_BASE_URL=" + m.URL + "/v1" }

// team is a team file with one agent for each model of the script.
func (m *modelServer) team() string {
	agents := []any{}
	for model := range m.script {
		agents = append(agents, map[string]any{
			"id":      "agent_" + model[len("model-"):],
			"backend": map[string]any{"type": "openai", "model": model},
		})
	}
	// Told of nothing while they work: a script's replies come in its order,
	// whoever is faster.
	data, _ := json.MarshalIndent(map[string]any{
		"agents": agents, "orchestrator": map[string]any{"disable_injection": true},
	}, "", "  ")
	return string(data)
}
