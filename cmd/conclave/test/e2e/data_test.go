//go:build e2e

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// A team gives an answer as data: one agent is refused twice, and the service of another refuses the
// schema, so that it writes a block. Equal data decide, and every command has them.
func TestAnswerAsData(t *testing.T) {
	t.Parallel()
	give := func(data map[string]any) reply {
		return reply{tool: "new_answer", arguments: map[string]any{"data": data}}
	}
	model := newModelServer(t, map[string][]reply{
		"model-a": {give(map[string]any{"choice": "both"}), answer("tabs"), give(map[string]any{"choice": "tabs", "why": "They are short.", "at": "2026-11-24"})},
		"model-b": {
			{body: `{"error":{"code":400,"type":"invalid_request_error","message":"Invalid schema for function 'new_answer'"}}`},
			plain("model-b", "Mine:\n```json\n{\"at\": \"2026-11-24\", \"why\": \"Habit.\", \"choice\": \"tabs\"}\n```"),
		},
	})
	c := newCLI(t)
	schema := c.file("schema.json", `{"type": "object", "properties": {
		"why": {"type": "string", "x-conclave-ignore": true}, "choice": {"enum": ["tabs", "spaces"]}, "at": {"type": "string", "format": "date"}}, "required": ["choice", "at"]}`)
	config := c.file("team.yaml", model.teamWith(orchestrator(map[string]any{"early_agreement": true}), "agent_a", "agent_b"))

	out := c.conclave("run", "--automation", "--config", config, "--session-id", "s1", "--schema", schema, "Tabs or spaces?")
	require.Equal(t, 0, out.code, out.stderr)
	result := out.result(t, "consensus")
	require.Equal(t, "agreement", string(result.DecidedBy))
	require.JSONEq(t, `{"choice": "tabs", "why": "They are short.", "at": "2026-11-24"}`, string(result.Data))
	require.Contains(t, model.request("model-a", 2), "at /choice: value must be one of 'tabs', 'spaces'")
	require.Contains(t, model.request("model-a", 2), "missing property 'at'")
	require.NotContains(t, model.request("model-a", 1), "x-conclave")
	require.NotContains(t, model.request("model-b", 2), `"name":"new_answer"`)
	require.Contains(t, model.request("model-b", 2), "You have no tool new_answer.")

	require.Equal(t, string(result.Data)+"\n", c.conclave("result", "--data", "s1").stdout)
	require.Contains(t, c.conclave("result", "--json", "s1").stdout, `"data"`)
	dir := filepath.Join(c.home, "pulled")
	require.Equal(t, 0, c.conclave("pull", "s1", dir).code)
	var pulled artifact.Answer
	readFile(t, filepath.Join(dir, "final", "agent_a", "answer.json"), &pulled)
	require.JSONEq(t, string(result.Data), string(pulled.Data))
	require.Equal(t, 0, c.conclave("pull", "--verify", "s1", dir).code)

	simple := c.file("simple.json", `{"type": "object", "properties": {"choice": {"enum": ["tabs", "spaces"]}}, "required": ["choice"]}`)
	offline := c.conclave("run", "--offline", "--automation", "--session-id", "s3", "--schema", simple, "Tabs or spaces?")
	require.Equal(t, 0, offline.code, offline.stderr)
	require.NotEmpty(t, offline.result(t, "consensus").Data)

	text := c.conclave("run", "--offline", "--automation", "--session-id", "s4", "Tabs or spaces?")
	require.Equal(t, 0, text.code)
	none := c.conclave("result", "--data", "s4")
	require.Equal(t, 2, none.code)
	require.Contains(t, none.stderr, "has no data")
}

// A schema that cannot be read starts nothing, and what is not checked is named.
func TestAnswerSchema_isChecked(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for content, want := range map[string]string{
		`{"type": "strng"}`:      "it is not a JSON Schema: at /type",
		`{"$ref": "other.json"}`: "it refers to another document, other.json",
		`{"type": `:              "it is not JSON",
		strings.Repeat("[", 40) + "1" + strings.Repeat("]", 40): "nested more than 32 levels deep",
	} {
		out := c.conclave("run", "--offline", "--schema", c.file("bad.json", content), "Why?")
		require.Equal(t, 1, out.code)
		require.Contains(t, out.stderr, want)
	}
	team := c.file("team.yaml", `agents: [{id: a, backend: {type: offline}}]
answer_schema: {type: object, properties: {host: {type: string, format: hostname}, word: {pattern: "(?=a)"}}}
`)
	out := c.conclave("config", "validate", team)
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, out.stderr, "what is not checked: format hostname, pattern (?=a)")
}

// A question of a megabyte reaches the agents whole, and its session is recorded and checked like any
// other.
func TestServe_longText(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{"model-a": {answer("Tabs."), vote("agent1", "Mine.")}})
	c := newCLI(t)
	s := c.serve("--config", c.file("team.json", model.team("agent_a")))
	asked := s.ask(`{"model":"conclave","metadata":{"session_id":"long"},"messages":[{"role":"user","content":"` + strings.Repeat("word ", 200_000) + `Tabs or spaces?"}]}`)
	require.Equal(t, 200, asked.status, asked.Error.Message)
	require.Equal(t, "Tabs.", *asked.Choices[0].Message.Content)
	require.Contains(t, model.request("model-a", 1), "word word Tabs or spaces?")
	dir := filepath.Join(c.home, "pulled")
	require.Equal(t, 0, c.conclave("pull", "long", dir).code)
	require.Equal(t, 0, c.conclave("pull", "--verify", "long", dir).code)
	var recorded artifact.Session
	readFile(t, filepath.Join(dir, "session.json"), &recorded)
	require.True(t, strings.HasSuffix(recorded.Query, "word Tabs or spaces?"))
	require.Less(t, len(c.conclave("status", "--json", "long").stdout), 50<<10)
	require.Equal(t, 400, s.ask(`{"model":"conclave","messages":[{"role":"user","content":"`+strings.Repeat("word ", 1_000_000)+`"}]}`).status)
}
