//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// reply is one scripted reply of the model: a tool call, or a failure.
type reply struct {
	tool      string
	arguments map[string]any

	status int    // an HTTP error instead
	body   string // a body of its own instead, with status 200
	before func()
	after  int // seconds of a Retry-After header
}

func answer(text string) reply {
	return reply{tool: "new_answer", arguments: map[string]any{"content": text}}
}

func vote(label, reason string) reply {
	return reply{tool: "vote", arguments: map[string]any{"agent_id": label, "reason": reason}}
}

func write(path, content string) reply {
	return reply{tool: "write_file", arguments: map[string]any{"path": path, "content": content}}
}

func fails(status int) reply { return reply{status: status} }

// limited is a rate limit that the step waits out between two attempts.
func limited() reply { return reply{status: http.StatusTooManyRequests, after: 3600} }

// garbage is a reply without content.
func garbage() reply { return reply{body: `{"id":"x","object":"chat.completion","choices":[]}`} }

// during runs f while the model thinks about this reply.
func (r reply) during(f func()) reply { r.before = f; return r }

// modelServer is a Chat Completions server that follows a script for each model name, and so for
// each agent.
type modelServer struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	script map[string][]reply
	asked  map[string][]string // request bodies by model
	keys   map[string]int      // requests by the header Authorization
}

func newModelServer(t *testing.T, script map[string][]reply) *modelServer {
	t.Helper()
	m := &modelServer{t: t, script: script, asked: map[string][]string{}, keys: map[string]int{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

func (m *modelServer) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var request struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(body, &request)
	m.mu.Lock()
	m.keys[r.Header.Get("Authorization")]++
	m.mu.Unlock()
	next, number := m.next(request.Model, string(body))
	if next.before != nil {
		next.before()
	}
	native := strings.HasSuffix(r.URL.Path, "/v1/messages") || strings.HasSuffix(r.URL.Path, "/v1/responses")
	if !native && !strings.HasSuffix(r.URL.Path, "/chat/completions") || next.status != 0 {
		status := cmp.Or(next.status, http.StatusNotFound)
		w.Header().Set("Content-Type", "application/json")
		if next.after > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(next.after))
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":"scripted failure %d","type":"server_error"}}`, status)
		return
	}
	if next.body != "" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, next.body)
		return
	}
	arguments, _ := json.Marshal(next.arguments)
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/v1/responses") {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"object": "response", "status": "completed", "usage": map[string]any{"input_tokens": 100, "output_tokens": 20},
			"output": []any{
				map[string]any{"type": "reasoning", "id": "rs_1", "summary": []any{}, "encrypted_content": fmt.Sprintf("sealed%d", number)},
				map[string]any{"type": "function_call", "call_id": fmt.Sprintf("call_%d", number), "name": next.tool, "arguments": string(arguments)},
			},
		})
		return
	}
	if native {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"type": "message", "role": "assistant", "stop_reason": "tool_use", "usage": map[string]any{"input_tokens": 30, "cache_read_input_tokens": 70, "output_tokens": 20},
			"content": []any{
				map[string]any{"type": "thinking", "thinking": "Hm.", "signature": fmt.Sprintf("sig%d", number)},
				map[string]any{"type": "tool_use", "id": fmt.Sprintf("call_%d", number), "name": next.tool, "input": json.RawMessage(arguments)},
			},
		})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": fmt.Sprintf("r%d", number), "object": "chat.completion", "model": request.Model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "tool_calls",
			"message": map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": fmt.Sprintf("call_%d", number), "type": "function",
				"function": map[string]any{"name": next.tool, "arguments": string(arguments)},
			}}},
		}},
		"usage": map[string]any{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
	})
}

func (m *modelServer) next(model, body string) (reply, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[model] = append(m.asked[model], body)
	n := len(m.asked[model])
	if n > len(m.script[model]) {
		// The session ends with a plain error that names the gap in the script.
		return fails(http.StatusBadRequest), n
	}
	return m.script[model][n-1], n
}

// request returns the n-th request, from 1, to the model of that name.
func (m *modelServer) request(model string, n int) string {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	require.GreaterOrEqual(m.t, len(m.asked[model]), n, "requests of %s", model)
	return m.asked[model][n-1]
}

// calls returns the number of requests to the model of that name.
func (m *modelServer) calls(model string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.asked[model])
}

// prompts returns the requests to all models.
func (m *modelServer) prompts() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, bodies := range m.asked {
		for _, body := range bodies {
			b.WriteString(body)
		}
	}
	return b.String()
}

// team is a team file whose agents use this server; agent_x has the model model-x. News does not
// interrupt their steps, so that the replies follow the script in any timing.
func (m *modelServer) team(agents ...string) string {
	m.t.Helper()
	return m.teamWith(orchestrator(map[string]any{"disable_injection": true}), agents...)
}

// teamWith is a team with further sections, such as orchestrator; the section subtasks sets the
// agents' subtasks by ID.
func (m *modelServer) teamWith(sections map[string]any, agents ...string) string {
	m.t.Helper()
	team := map[string]any{"agents": []any{}}
	subtasks, _ := sections["subtasks"].(map[string]string)
	for _, id := range agents {
		agent := map[string]any{
			"id": id,
			"backend": map[string]any{
				"type": "openai", "model": strings.Replace(id, "agent_", "model-", 1), "base_url": m.URL + "/v1",
			},
		}
		if subtasks[id] != "" {
			agent["subtask"] = subtasks[id]
		}
		team["agents"] = append(team["agents"].([]any), agent)
	}
	for key, section := range sections {
		if key != "subtasks" {
			team[key] = section
		}
	}
	data, err := json.MarshalIndent(team, "", "  ")
	require.NoError(m.t, err)
	return string(data)
}

// threeRounds is the example session of the protocol: all agents answer; two vote for agent_b while
// agent_c answers again, which makes both votes stale; all agents vote for agent_c.
func threeRounds() map[string][]reply {
	return map[string][]reply{
		"model-a": {write("plan.md", "# Plan A\n"), answer("Answer A."), vote("agent2", "B is thorough."), vote("agent3", "C is better now.")},
		"model-b": {answer("Answer B."), vote("agent2.1", "Mine holds."), vote("agent3.2", "C wins.")},
		"model-c": {answer("Answer C."), answer("Answer C, improved."), vote("agent3", "It is complete.")},
	}
}
