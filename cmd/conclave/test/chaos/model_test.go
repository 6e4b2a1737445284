//go:build e2e

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// faultyModel is a Chat Completions server that limits, refuses, breaks off or delays a few percent
// of its calls each. It identifies workers by their keys.
type faultyModel struct {
	*httptest.Server

	mu      sync.Mutex
	calls   int            // accepted: paid for, even if nobody waits for the reply
	byRun   map[string]int // likewise
	faults  map[string]int // by kind
	open    map[int]string // the worker of each call that is not answered yet
	windows map[*window]struct{}
	exposed map[int]bool // calls that were open during a window
}

// window is a fault under way, which can cost the replies to some workers.
type window struct{ workers []string }

func newFaultyModel(t *testing.T) *faultyModel {
	t.Helper()
	m := &faultyModel{byRun: map[string]int{}, faults: map[string]int{}, open: map[int]string{}, windows: map[*window]struct{}{}, exposed: map[int]bool{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(func() {
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

// during notes the calls of workers that are open at any time until the returned function is called.
func (m *faultyModel) during(workers ...string) (over func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &window{workers: workers}
	m.windows[w] = struct{}{}
	for call, worker := range m.open {
		if slices.Contains(workers, worker) {
			m.exposed[call] = true
		}
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.windows, w)
	}
}

// paid returns the number of accepted calls, and how many of them a fault could have doubled.
func (m *faultyModel) paid() (calls, exposed int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls, len(m.exposed)
}

// begin accepts a call or selects a fault.
func (m *faultyModel) begin(worker, run string) (call int, fault string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch n := rand.IntN(100); {
	case n < 4:
		fault = "limited (429)"
	case n < 8:
		fault = "failed (500)"
	case n < 11:
		fault = "broken off"
	case n < 14:
		fault = "slow (4 s)"
	}
	if fault != "" {
		m.faults[fault]++
	}
	switch fault {
	case "limited (429)", "failed (500)":
		return 0, fault
	}
	m.calls++
	m.byRun[run]++ // a reply that breaks off is paid for, too
	m.open[m.calls] = worker
	for w := range m.windows {
		if slices.Contains(w.workers, worker) {
			m.exposed[m.calls] = true
		}
	}
	return m.calls, fault
}

func (m *faultyModel) end(call int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, call)
}

func (m *faultyModel) serve(w http.ResponseWriter, r *http.Request) {
	var q question
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	call, fault := m.begin(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), string(runID.Find(body)))
	defer m.end(call)
	w.Header().Set("Content-Type", "application/json")
	switch fault {
	case "limited (429)":
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error":{"message":"slow down","type":"rate_limit_error"}}`)
		return
	case "failed (500)":
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"error":{"message":"an internal error","type":"server_error"}}`)
		return
	case "broken off":
		breakOff(w)
		return
	case "slow (4 s)":
		m.think(r.Context(), 4*time.Second)
	default:
		m.think(r.Context(), 300*time.Millisecond+rand.N(900*time.Millisecond))
	}
	_ = json.NewEncoder(w).Encode(q.completion(call))
}

// breakOff sends a part of a reply and closes the connection.
func breakOff(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // HTTP/1.1 connections can be taken over
	}
	fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{\"id\":\"x\",\"object\":\"chat.comp")
	_ = conn.Close()
}

// think waits, unless the worker disconnects.
func (m *faultyModel) think(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// question is the part of a request on which the reply depends.
type question struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Tools    []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

type message struct {
	Role string `json:"role"`
}

// runID matches the ID that every run has in its query, request or project.
var runID = regexp.MustCompile(`(session|pipeline|scenario)-\d{3}`)

// page is the evidence of every scenario's step.
const page = "The page has a title and three links.\n"

func (q question) offers(tool string) bool {
	for _, t := range q.Tools {
		if t.Function.Name == tool {
			return true
		}
	}
	return false
}

// reply is a tool with its arguments, or a text without a tool. The first call of a step writes a file or
// records evidence.
func (q question) reply() (tool string, arguments map[string]any) {
	first := !slices.ContainsFunc(q.Messages, func(m message) bool { return m.Role == "tool" })
	switch {
	case q.offers("report_result") && first:
		return "record_evidence", map[string]any{"name": "page", "type": "console_log", "data": page}
	case q.offers("report_result"):
		return "report_result", map[string]any{"status": "pass", "evidence_paths": []string{}, "error": nil, "summary": "The page is as it should be."}
	case q.offers("vote"):
		return "vote", map[string]any{"agent_id": "agent1", "reason": "It is complete."}
	case first && q.offers("write_file"):
		return "write_file", map[string]any{"path": "plan.md", "content": strings.Repeat("A line of the plan of "+q.Model+".\n", 40)}
	case q.offers("new_answer"):
		return "new_answer", map[string]any{"content": "The answer of " + q.Model + " is in plan.md."}
	case q.offers("jump_to_step"):
		return "jump_to_step", map[string]any{"step_name": "export"}
	}
	return "", nil
}

func (q question) completion(call int) map[string]any {
	tool, arguments := q.reply()
	said := map[string]any{"role": "assistant", "content": "It is done."}
	finish := "stop"
	if tool != "" {
		data, _ := json.Marshal(arguments)
		said = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
			"id": fmt.Sprintf("call_%d", call), "type": "function", "function": map[string]any{"name": tool, "arguments": string(data)},
		}}}
		finish = "tool_calls"
	}
	return map[string]any{
		"id": fmt.Sprintf("r%d", call), "object": "chat.completion", "model": q.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": finish, "message": said}},
		"usage": map[string]any{
			"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "prompt_tokens_details": map[string]any{"cached_tokens": 40},
		},
	}
}

// busy reports whether a worker waits for a reply.
func (m *faultyModel) busy(worker string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.open {
		if w == worker {
			return true
		}
	}
	return false
}
