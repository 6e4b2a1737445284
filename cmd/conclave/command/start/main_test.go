package start

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
)

// shell is a shell for steps.
type shell struct{ stage.Shell }

func newStepShell(t *testing.T) shell {
	t.Helper()
	return shell{newShell(t)}
}

// said is a scripted reply: a tool call, or a failure with this status.
type said struct {
	tool      string
	arguments map[string]string
	status    int
	during    func(r *http.Request) // while the model thinks; nil for nothing
}

func answers(text string) said {
	return said{tool: "new_answer", arguments: map[string]string{"content": text}}
}

func votes(label string) said {
	return said{tool: "vote", arguments: map[string]string{"agent_id": label, "reason": "It is right."}}
}

func writes(path, content string) said {
	return said{tool: "write_file", arguments: map[string]string{"path": path, "content": content}}
}

func refusesStep(status int) said { return said{status: status} }

func (s said) while(f func(*http.Request)) said { s.during = f; return s }

// scripted is a Chat Completions server. The name of the model is the ID of the agent;
// a script that is used up repeats its last line.
type scripted struct {
	*httptest.Server
	mu     sync.Mutex
	script map[string][]said
	asked  map[string][]string
}

func newScripted(t *testing.T, script map[string][]said) *scripted {
	t.Helper()
	m := &scripted{script: script, asked: map[string][]string{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

func (m *scripted) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var request struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(body, &request)
	m.mu.Lock()
	m.asked[request.Model] = append(m.asked[request.Model], string(body))
	n, lines := len(m.asked[request.Model]), m.script[request.Model]
	m.mu.Unlock()
	line := lines[min(n, len(lines))-1]
	if line.during != nil {
		line.during(r)
	}
	w.Header().Set("Content-Type", "application/json")
	if line.status != 0 {
		w.WriteHeader(line.status)
		fmt.Fprint(w, `{"error": {"message": "scripted"}}`)
		return
	}
	arguments, _ := json.Marshal(line.arguments)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "r", "object": "chat.completion", "model": request.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "tool_calls", "message": map[string]any{
			"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": fmt.Sprintf("call_%d", n), "type": "function",
				"function": map[string]any{"name": line.tool, "arguments": string(arguments)},
			}},
		}}},
		"usage": map[string]any{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
	})
}

// calls is the number of requests to the agent's model, prompt the body of the last.
func (m *scripted) calls(agent string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.asked[agent])
}

func (m *scripted) prompt(agent string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := m.asked[agent]
	return asked[len(asked)-1]
}

// system is the system message of the last request to the agent's model.
func (m *scripted) system(agent string) string {
	var request struct {
		Messages []struct{ Content string }
	}
	if json.Unmarshal([]byte(m.prompt(agent)), &request) != nil || len(request.Messages) == 0 {
		return ""
	}
	return request.Messages[0].Content
}

// agent writes the configuration of an agent with this model, and more keys.
func (s shell) agent(m *scripted, id, more string) string {
	s.T.Helper()
	s.File(id+".yaml", fmt.Sprintf("agent: {id: %s, backend: {model: %s, base_url: %q}}\n%s\n", id, id, m.URL+"/v1", more))
	return id + ".yaml"
}

// steps runs one step of an agent in the directory d, and decodes the last line of its
// output.
func (s shell) steps(config string, more ...string) (code int, last artifact.LastAction, stderr string) {
	s.T.Helper()
	line := append([]string{"step", "--automation", "--session-dir", "d", "--config", config}, more...)
	code, stdout, stderr := s.Run(append(line, "Which of us is right?")...)
	if code != cli.ExitUsage {
		require.NoError(s.T, json.Unmarshal([]byte(stdout), &last), stdout+stderr)
	}
	return code, last, stderr
}

// read decodes a file of the directory d.
func (s shell) read(name string, into any) {
	s.T.Helper()
	data, err := os.ReadFile(filepath.Join(s.Home, "d", name))
	require.NoError(s.T, err)
	require.NoError(s.T, json.Unmarshal(data, into), name)
}

// working is the workspace of the running step in this temporary directory.
func working(temporary string) string {
	found, _ := filepath.Glob(filepath.Join(temporary, "conclave-worker-*", "conclave-step-*", "files"))
	if len(found) != 1 {
		return ""
	}
	return found[0]
}
