package agent

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
)

// toolsStep runs a tools step that makes the calls uses. stop sets on_tool_error to fail.
func toolsStep(t *testing.T, stop bool, uses ...ToolUse) (*desk, pipeline.Ended) {
	t.Helper()
	d := newDesk(t)
	l := launch("lint", 0)
	l.Kind = pipeline.Tools
	s := d.step(l, "run-l1")
	s.Agent, s.StopAtFailure = "", stop
	spec, err := s.Spec(t.Context(), d.store)
	require.NoError(t, err)
	return d, d.outcome(d.perform(spec, Calls(uses)))
}

func use(tool, args string) ToolUse { return ToolUse{Tool: tool, Args: json.RawMessage(args)} }

func TestToolsStep_failedCalls(t *testing.T) {
	t.Parallel()
	missing, writing := use("read_file", `{"path":"none.md"}`), use("write_file", `{"path":"a.md","content":"a frog"}`)
	_, o := toolsStep(t, false, missing, writing)
	require.Equal(t, pipeline.Completed, o.Status)
	require.True(t, o.Failed)
	require.Nil(t, o.Cause)
	require.NotEmpty(t, o.Workspace, "the other call is made")

	d, o := toolsStep(t, true, writing, missing, writing)
	require.Equal(t, pipeline.Failed, o.Status)
	require.Equal(t, "ToolFailed", o.Cause.Type)
	require.Contains(t, o.Cause.Message, `read_file: error: `)
	require.NotEmpty(t, o.Workspace, "its files are kept")
	require.True(t, o.Said)
	require.Contains(t, o.Text, notCalled(t, d))

	_, o = toolsStep(t, true, writing)
	require.Equal(t, pipeline.Completed, o.Status)
	require.False(t, o.Failed)
}

// notCalled returns the result of the third call.
func notCalled(t *testing.T, d *desk) string {
	t.Helper()
	require.Contains(t, string(d.get("steps/001-lint/transcript.jsonl")), `"outcomes":[{"call":"call_2","failed":true}]`)
	return "write_file:\n[not called: an earlier call failed]"
}

func TestResults_add(t *testing.T) {
	t.Parallel()
	var r results
	one, zero, three := 1, 0, 3
	conv := loop.Conversation{}
	conv.Add(loop.Entry{Messages: []llm.Message{
		says("", call("b", "run_command", "{}")),
		{Role: llm.ToolRole, ToolCallID: "b", Content: "exit code 1"},
	}})
	r.addOutcomes(conv, []loop.Outcome{{Call: "a", ExitCode: &zero}, {Call: "b", Failed: true, ExitCode: &one}, {Call: "c", Failed: true, ExitCode: &three}})
	require.Equal(t, results{ExitCode: &one, Failed: true, Why: "run_command: exit code 1"}, r)
}

// The commands of an agent do not affect the outcome of its step.
func TestAgentStep_hasNoResults(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r, _ := d.run(d.step(launch("main", 0), "run-l1"), uses("read_file", map[string]string{"path": "none.md"}), says("Written."))
	require.False(t, d.outcome(r).Failed)
}

// The step ends after the call that spends the rest of its allowance.
func TestUpdates_endAtTheAllowance(t *testing.T) {
	t.Parallel()
	rules := newRules(task{Kind: pipeline.Agent, Most: 9, CostUSD: 0.5})
	told := 0
	learn := func(kind loop.EntryKind, usd float64) error {
		require.NoError(t, rules.Learn(t.Context(), loop.Entry{Kind: kind, Usage: &llm.Usage{ModelCalls: 1, TotalUSD: &usd}}))
		u, err := rules.Updates(t.Context())
		if len(u.Messages) > 0 {
			told++
			require.Contains(t, u.Messages[0].Content, "$0.4000 of its $0.5000")
			require.NoError(t, rules.Learn(t.Context(), loop.Entry{Kind: loop.Updated, Messages: u.Messages, Note: u.Note}))
		}
		return err
	}
	require.NoError(t, learn(loop.Reply, 0.3))
	require.Equal(t, 0, told)
	require.NoError(t, learn(loop.Reply, 0.1))
	require.NoError(t, learn(loop.Reply, 0))
	require.Equal(t, 1, told, "it is asked once to finish")
	require.EqualError(t, learn(loop.Wasted, 0.2), "the step spent $0.6000 of its allowance of $0.5000 before it ended")
	require.NoError(t, learn(loop.Resumed, 0), "a later launch has an allowance of its own")
}

func TestCallStep_closedDestinations(t *testing.T) {
	t.Parallel()
	closed := writing
	closed.Closed = []string{"lint"}
	_, rules, a, err := runRules(t, closed, says("", to("a", callTool, "lint")), says("", to("b", callTool, "export")))
	require.NoError(t, err)
	require.Equal(t, "export", payloadOf(t, a).To)
	require.Contains(t, rules.conv.Messages[3].Content, "lint was entered as often as max_visits allows")
	require.NotContains(t, string(rules.Offer()[1].Parameters), "lint")
	require.Contains(t, string(rules.Offer()[0].Parameters), "lint", "a jump leads to the step that takes its place")
	closed.Closed = []string{"lint", "export"}
	require.Len(t, newRules(closed).Offer(), 1)
}

// Later steps are told how earlier ones failed or were cut short.
func TestHistory_notes(t *testing.T) {
	t.Parallel()
	shown := writing
	shown.History = []earlier{{Step: "main", Text: "half", Note: "main used up its model calls and was stopped"}, {Step: "lint", Note: "lint failed, Network: no line"}}
	require.Contains(t, shown.quoteHistory(), "===== main\nhalf\n[main used up its model calls and was stopped]\n===== lint\n[lint failed, Network: no line]\n=====")
}
