//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// thinking is a model that reads its requests. It calls the tool look, or write_file for a question
// about a file, then answers, and votes when it may. It holds the reply to a question that is to be
// retried until the connection has broken.
type thinking struct {
	*modelServer
	asked  sync.Map // by the question: a channel that is closed when the model is asked
	broken sync.Map // by the question: a channel that is closed when the connection has broken
	once   sync.Map // by the question: the function that closes asked
}

const toBeRetried = "Retried, "

func newThinking(t *testing.T) *thinking {
	t.Helper()
	m := &thinking{modelServer: newModelServer(t, nil)}
	m.Server.Config.Handler = http.HandlerFunc(m.think)
	return m
}

func signal(of *sync.Map, question string) chan struct{} {
	c, _ := of.LoadOrStore(question, make(chan struct{}))
	return c.(chan struct{})
}

// hold reports that the model was asked, and waits until the connection has broken.
func (m *thinking) hold(question string) {
	m.once.LoadOrStore(question, sync.OnceFunc(func() { close(signal(&m.asked, question)) }))
	tell, _ := m.once.Load(question)
	tell.(func())()
	<-signal(&m.broken, question)
}

func (m *thinking) think(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	text := string(body)
	offered := func(tool string) bool { return strings.Contains(text, `"name":"`+tool+`"`) }
	shell, ran := "echo by a team > hello.txt", strings.Contains(text, `"role":"tool"`) || strings.Contains(text, "call: Bash")
	next := answer("The answer is 42.")
	switch {
	case offered("client__Bash") && !ran: // of Claude Code
		next = reply{tool: "client__Bash", arguments: map[string]any{"command": shell}}
	case offered("client__exec_command") && !ran: // of Codex
		next = reply{tool: "client__exec_command", arguments: map[string]any{"cmd": shell}}
	case strings.Contains(text, `"properties":{"data":`) && !offered("vote"):
		next = reply{tool: "new_answer", arguments: map[string]any{"data": map[string]any{"choice": "tabs", "risks": []string{}}}}
	case offered("client__vote"): // of a team that asks this one
		next = reply{tool: "client__vote", arguments: map[string]any{"agent_id": "agent1", "reason": "A team has looked."}}
	case offered("client__new_answer"):
		next = reply{tool: "client__new_answer", arguments: map[string]any{"content": "A team's answer."}}
	case offered("vote"):
		next = vote("agent1", "It is right.")
	case strings.Contains(text, "a cat"):
		next = answer("It is a cat.")
	case offered("client__look"):
		next = reply{tool: "client__look", arguments: map[string]any{"at": "door"}}
	case strings.Contains(text, "Mend the file.") && !strings.Contains(text, `"role":"tool"`):
		next = write("a.txt", "mended\n")
	}
	if strings.Contains(text, "Hold the vote.") && offered("vote") {
		m.hold("vote")
	}
	if _, program, held := strings.Cut(text, "Hold the result of "); held && strings.Contains(text, `"role":"tool"`) {
		program, _, _ = strings.Cut(program, ".")
		m.hold(program)
	}
	if _, rest, retried := strings.Cut(text, toBeRetried); retried && !offered("vote") {
		question, _, _ := strings.Cut(rest, "?")
		m.hold(question)
	}
	m.mu.Lock()
	m.script = map[string][]reply{"model-a": append(m.script["model-a"], next)}
	m.mu.Unlock()
	m.serve(w, r)
}

// breaking is a proxy that breaks the first connection of a question to be retried while the model
// thinks about it.
func (m *thinking) breaking(t *testing.T, to string) string {
	t.Helper()
	target, err := url.Parse(to)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		_, rest, retried := strings.Cut(string(body), toBeRetried)
		if !retried || r.Header.Get("X-Stainless-Retry-Count") != "0" {
			r.Host = target.Host
			proxy.ServeHTTP(w, r)
			return
		}
		question, _, _ := strings.Cut(rest, "?")
		ctx, breaks := context.WithCancel(r.Context())
		go func() {
			<-signal(&m.asked, question)
			breaks()
		}()
		req, _ := http.NewRequestWithContext(ctx, r.Method, to+r.URL.Path, bytes.NewReader(body))
		req.Header = r.Header.Clone()
		_, err := http.DefaultClient.Do(req)
		t.Logf("the connection of %s broke: %v", question, err)
		close(signal(&m.broken, question))
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.Close()
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// clients returns a directory with the scripts of testdata/clients and the packages of .ci/clients,
// and skips the test if the packages are missing.
func clients(t *testing.T) string {
	t.Helper()
	installed := os.Getenv("CONCLAVE_CLIENTS")
	if _, err := os.Stat(filepath.Join(installed, "node_modules", "openai")); installed == "" || err != nil {
		t.Skip("CONCLAVE_CLIENTS does not name a directory with the packages of .ci/clients")
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/clients")))
	require.NoError(t, os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(dir, "node_modules")))
	if _, err := os.Stat(filepath.Join(installed, "python")); err == nil {
		require.NoError(t, os.Symlink(filepath.Join(installed, "python"), filepath.Join(dir, "python")))
	}
	return dir
}

// Clients by other authors use one server: the official ones of OpenAI, those of the Model Context
// Protocol, evaluation harnesses, and curl as in the documentation.
func TestClients(t *testing.T) {
	t.Parallel()
	dir := clients(t)
	model := newThinking(t)
	c := newCLI(t)
	team := c.file("team.json", model.team("agent_a"))
	s := c.serve("--config", team)
	at := model.breaking(t, s.base)
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "a.txt"), []byte("broken\n"), 0o600))
	inspector := filepath.Join(dir, "node_modules", ".bin", "mcp-inspector-cli")
	inspect := []string{"-m", "inspect_ai", "eval", "inspect_task.py", "--model", "openai-api/conclave/conclave", "--display", "plain", "--log-format", "json", "--max-retries", "2", "--fail-on-error"}

	t.Run("group", func(t *testing.T) { // ends before the server does
		for name, tc := range map[string]struct {
			says string
			line []string
		}{
			"openai-python":    {"", []string{"python/bin/python", "openai_client.py", at}},
			"openai-node":      {"", []string{"node", "openai_client.mjs", at}},
			"mcp-typescript":   {"", []string{"node", "mcp_client.mjs", at, root, binary(t, "CONCLAVE_BIN"), "mcp", "--config", team}},
			"inspector, tools": {`"session_result"`, []string{inspector, "--cli", at + "/mcp", "--transport", "http", "--method", "tools/list"}},
			"inspector, ask": {"The answer is 42.", []string{
				inspector, "--cli", at + "/mcp", "--transport", "http", "--method", "tools/call", "--tool-name", "ask_team", "--tool-arg", "question=Asks the inspector?",
			}},
			"promptfoo":  {"2 passed", []string{"node_modules/.bin/promptfoo", "eval", "--no-cache", "--no-write", "--no-table"}},
			"inspect_ai": {"accuracy  1.000", append([]string{"python/bin/python"}, inspect...)},
			"curl": {`"The answer is 42."`, []string{
				"sh", "-c", documented(t, "```\ncurl http://", at),
			}},
			"curl, streamed":    {`"content":"The answer is 42."`, []string{"sh", "-c", documented(t, "```\ncurl -N http://", at)}},
			"documented sample": {"The answer is 42.", []string{"python/bin/python", "-c", documented(t, "```python\n", at)}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if _, err := os.Stat(filepath.Join(dir, "python")); strings.HasPrefix(tc.line[0], "python") && err != nil {
					t.Skip("python3 cannot install the packages of .ci/clients/requirements.txt here")
				}
				own := &e2eCLI{t: t, home: dir, env: append(c.env,
					"BASE_URL="+at, "CONCLAVE_BASE_URL="+at+"/v1", "CONCLAVE_API_KEY=any", "INSPECT_LOG_DIR="+t.TempDir(),
					"PROMPTFOO_CONFIG_DIR="+t.TempDir(), "PROMPTFOO_DISABLE_TELEMETRY=1", "PROMPTFOO_DISABLE_UPDATE=1", "PROMPTFOO_DISABLE_REMOTE_GENERATION=1")}
				out := own.run(tc.line[0], tc.line[1:]...)
				require.Zero(t, out.code)
				require.Contains(t, out.stdout, tc.says)
			})
		}
	})
	sessions := c.conclave("list", "--json")
	var listed []struct{ Query, Status string }
	require.NoError(t, json.Unmarshal([]byte(sessions.stdout), &listed))
	asked := map[string]int{}
	for _, l := range listed {
		require.Equal(t, "consensus", l.Status, l.Query)
		asked[l.Query]++
	}
	for _, once := range []string{"What is the answer, asks Python?", "What is the answer, asks Node?", "Retried, Python?", "Retried, Node?"} {
		require.Equal(t, 1, asked[once], "%s in %v", once, asked)
	}
}

// documented returns a block of docs/calling.md with the address of the server replaced.
func documented(t *testing.T, begins, at string) string {
	t.Helper()
	data, err := os.ReadFile("../../../../docs/calling.md")
	require.NoError(t, err)
	from := strings.Index(string(data), begins)
	require.NotEqual(t, -1, from, "no block begins with %q", begins)
	_, block, _ := strings.Cut(string(data[from:]), "\n")
	block, _, _ = strings.Cut(block, "```")
	return strings.ReplaceAll(block, "http://127.0.0.1:8333", at)
}

// The skill's commands do as it says, in their order.
func TestSkill(t *testing.T) {
	t.Parallel()
	model := newThinking(t)
	c := newCLI(t)
	require.NoError(t, os.Mkdir(filepath.Join(c.home, "project"), 0o700))
	team := c.file("project/conclave.yaml", model.team("agent_a"))
	require.Zero(t, c.conclave("config", "trust", team).code)
	c.serve("--config", team)
	c.file("project/a.txt", "broken\n")
	page, err := os.ReadFile("../../../../examples/skill/SKILL.md")
	require.NoError(t, err)
	parts := strings.Split(string(page), "```")
	require.Len(t, parts, 9, "four blocks of commands")
	c.env = append(c.env, "PATH="+filepath.Dir(binary(t, "CONCLAVE_BIN"))+":"+os.Getenv("PATH"))
	shell := func(block int, after string) string {
		t.Helper()
		out := c.run("sh", "-euc", "cd project\n"+parts[2*block-1]+after)
		require.Zero(t, out.code)
		return out.stdout
	}
	c.file("project/question.md", "What is the answer?")
	var result struct{ Answer, Status string }
	require.NoError(t, json.Unmarshal([]byte(shell(1, "")), &result))
	require.Equal(t, "The answer is 42.", result.Answer)

	c.file("project/question.md", "Mend the file. Hold the vote.")
	started := shell(2, "\necho \"id=$id\"")
	require.Contains(t, started, `"phase"`)
	_, id, _ := strings.Cut(strings.TrimSpace(started), "\nid=")
	c.env = append(c.env, "id="+id)
	<-signal(&model.asked, "vote")
	shell(3, "")
	close(signal(&model.broken, "vote"))
	require.Contains(t, shell(4, ""), "The answer is 42.")
	require.Contains(t, c.conclave("status", id).stdout, "finished")
	require.Zero(t, c.conclave("apply", id).code)
	mended, err := os.ReadFile(filepath.Join(c.home, "project", "a.txt"))
	require.NoError(t, err)
	require.Equal(t, "mended\n", string(mended))
}

// A team becomes a member of another team by its address alone; its usage counts once, as the
// member's.
func TestTeamInATeam(t *testing.T) {
	t.Parallel()
	model := newThinking(t)
	c := newCLI(t)
	s := c.serve("--config", c.file("inner.json", model.team("agent_a")))
	outer := c.file("outer.json", `{"agents":[{"id":"agent_a","backend":{"type":"openai","model":"conclave","base_url":"`+s.base+`/v1"}}]}`)
	out := c.conclave("run", "--automation", "--config", outer, "--session-id", "outer", "Tabs or spaces?")
	require.Zero(t, out.code)
	var result struct {
		Answer string
		Cost   struct {
			InputTokens  int64 `json:"input_tokens"`
			OutputTokens int64 `json:"output_tokens"`
		}
	}
	out.lastLine(t, &result)
	require.Equal(t, "A team's answer.", result.Answer)
	require.Equal(t, 2, model.allCalls())
	require.EqualValues(t, 2*100, result.Cost.InputTokens)
	require.EqualValues(t, 2*20, result.Cost.OutputTokens)
}

// A team that asks itself stops at the maximum depth, and no level asks twice.
func TestTeamThatAsksItself(t *testing.T) {
	t.Parallel()
	at := freeAddress(t)
	c := newCLI(t)
	s := c.serveOn(at, "--config", c.file("self.json", `{"agents":[{"id":"agent_a","backend":{"type":"openai","model":"conclave","base_url":"http://`+at+`/v1"}}]}`))
	refused := s.ask(question("Tabs or spaces?"))
	require.Equal(t, http.StatusInternalServerError, refused.status)
	require.Equal(t, "session_failed", refused.Error.Code)
	require.Contains(t, refused.Error.Message, "the team has no answer: this request is 4 levels of teams deep")
	require.NotContains(t, refused.Error.Message, "base_url")
	var sessions []struct{ Status string }
	require.NoError(t, json.Unmarshal([]byte(c.conclave("list", "--json").stdout), &sessions))
	require.Len(t, sessions, 4, "the caller's, and three below it")
}
