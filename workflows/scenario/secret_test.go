package scenario_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/scenario"
	"conclave/engine/llm"
	"conclave/workflows"
	scenarioflow "conclave/workflows/scenario"
	"conclave/workflows/stagetest"
)

// "Credentials of prd.md never appear in evidence metadata, results or events"; a
// resumed step has them again.
func TestScenario_CredentialsAreNowhere(t *testing.T) {
	t.Parallel()
	leak := "signed in as alice@example.com with hunter2!"
	s := newScenario(t, ends("pass"),
		stagetest.Call("write_file", map[string]string{"path": "notes.txt", "content": leak}),
		stagetest.Call("read_file", map[string]string{"path": "notes.txt"}),
		records("hunter2!", "stdout", "x"), records("log", "stdout", leak), records("page", "html_snapshot", leak), records("answer", "custom", `{"password":"hunter2!"}`),
		&llm.Error{Kind: llm.Network, Message: "cut off"},
		llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{
			ID: "r", Name: "report_result",
			Arguments: `{"status":"fail","evidence_paths":["step-02/evidence/hunter2!.txt"],"error":"hunter2! was refused","summary":"` + leak + `"}`,
		}}},
	)
	var sent llm.Request
	s.Cast["agent_a"].Saw = func(n int, req llm.Request) {
		if n == 9 {
			sent = req
		}
	}
	result := runScenario(t, s, journey("r1", 3))
	require.Equal(t, "fail pass fail skipped", statuses(result))
	require.Equal(t, "[redacted] was refused", *result.Error)
	require.Contains(t, result.Steps[1].Summary, "[redacted]")
	require.Len(t, result.Steps[1].EvidencePaths, 3)

	require.Contains(t, sent.Messages[1].Content, "- Password: hunter2!", "after a retry, too")
	var read []string
	for _, m := range sent.Messages {
		read = append(read, m.Content)
	}
	require.Contains(t, strings.Join(read[2:], "\n"), leak, "the file's content is unchanged")
	holdsNo(t, s, "scenarios/", "hunter2!", "alice@example.com")

	events, err := s.QueryWorkflow(workflows.TimelineQuery)
	require.NoError(t, err)
	var all json.RawMessage
	require.NoError(t, events.Get(&all))
	require.NotContains(t, string(all), "hunter2!")
}

// A stored prd.md is not in the input: histories lack it, and the step that signs in
// has it.
func TestScenario_CredentialsAreNotInTheInput(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ends("pass"), ends("pass"))
	in := journey("r1", 2)
	require.NoError(t, s.Store.Put(t.Context(), acts.PRDKey("buy", "r1"), strings.NewReader(in.PRD)))
	in.PRD, in.PRDHash = "", acts.PRDHash(in.PRD)
	var sent llm.Request
	s.Cast["agent_a"].Saw = func(n int, req llm.Request) {
		if n == 2 {
			sent = req
		}
	}
	require.Equal(t, "pass pass pass", statuses(runScenario(t, s, in)))
	require.Contains(t, sent.Messages[1].Content, "- Password: hunter2!")
	holdsNo(t, s, "scenarios/", "hunter2!", "alice@example.com")

	kept, err := s.Store.Get(t.Context(), acts.PRDKey("buy", "r1"))
	require.NoError(t, err)
	require.Equal(t, aboutShop, string(kept))
}

// The stored prd.md must be the one that the run was started with.
func TestScenario_AnotherPRD(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ends("pass"))
	in := journey("r1", 1)
	require.NoError(t, s.Store.Put(t.Context(), acts.PRDKey("buy", "r1"), strings.NewReader("## Base URL\n\nhttp://example.org\n")))
	in.PRD, in.PRDHash = "", acts.PRDHash(in.PRD)
	s.ExecuteWorkflow(scenarioflow.Type, in)
	require.ErrorContains(t, s.GetWorkflowError(), "has changed since run r1 was started")
}

// A server's message about a refused request may quote the request.
func TestScenario_CredentialsInErrors(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ends("pass"), &llm.Error{Kind: llm.BadRequest, Message: "bad content: Password: hunter2!"})
	result := runScenario(t, s, journey("r1", 2))
	require.Contains(t, *result.Error, "[redacted]")
	holdsNo(t, s, "scenarios/", "hunter2!")
}

// Credentials that are words of our own documents.
func TestScenario_OddCredentials(t *testing.T) {
	t.Parallel()
	in := journey("r1", 2)
	in.PRD = "## Credentials\n\n- User: user\n- Password: pass\n- PIN: 2026\n- token: reply\n"
	s := newScenario(t, ends("pass"), stagetest.Call("list_files", nil), &llm.Error{Kind: llm.Network, Message: "cut off"}, ends("pass"))
	require.Equal(t, "pass pass pass", statuses(runScenario(t, s, in)))
}

// holdsNo requires that no object below a prefix, except the definition and the
// agent's own files, has the text.
func holdsNo(t *testing.T, s *stagetest.Stage, prefix string, secrets ...string) {
	t.Helper()
	for key, err := range s.Store.List(t.Context(), prefix) {
		require.NoError(t, err)
		if strings.HasSuffix(key, "/definition/prd.md") || strings.Contains(key, "/workspace/") {
			continue
		}
		body, err := s.Store.Get(t.Context(), key)
		require.NoError(t, err)
		for _, secret := range secrets {
			if strings.Contains(key, "/blobs/") && !strings.Contains(string(body), `"kind"`) {
				continue // a file of the agent's
			}
			require.NotContains(t, string(body), secret, key)
			require.NotContains(t, key, secret)
		}
	}
}
