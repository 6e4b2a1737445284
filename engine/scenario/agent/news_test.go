package agent

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	"conclave/engine/step"
)

// learn passes an update to the rules as an entry.
func (r *rules) learn(t *testing.T, u loop.Update) {
	t.Helper()
	require.NoError(t, r.Learn(t.Context(), loop.Entry{Kind: loop.Updated, Messages: u.Messages, Note: u.Note}))
}

// A message reaches the step between two calls, and withdraws a report once.
func TestUpdates_messages(t *testing.T) {
	t.Parallel()
	said := []step.Message{{Number: 4, Text: "The shop has moved."}}
	r := &rules{heard: 3, step: Step{News: func(_ context.Context, after int) ([]step.Message, error) {
		if after >= said[len(said)-1].Number {
			return nil, nil
		}
		return said[after-3:], nil
	}}}
	u, err := r.Updates(t.Context())
	require.NoError(t, err)
	require.Contains(t, u.Messages[0].Content, "The shop has moved.")
	r.learn(t, u)
	u, err = r.Updates(t.Context())
	require.NoError(t, err)
	require.Empty(t, u)

	report := *r.acceptReport(report{Status: scenario.Pass})
	for _, late := range []bool{true, false} {
		said = append(said, step.Message{Number: said[len(said)-1].Number + 1, Text: "Stop."})
		u, err = r.Confirm(t.Context(), report)
		require.NoError(t, err)
		require.Equal(t, late, len(u.Messages) == 1)
		r.learn(t, u)
	}
}

func TestUpdates_moneyIsSpent(t *testing.T) {
	t.Parallel()
	r := &rules{step: Step{Launch: scenario.Launch{Limits: scenario.Limits{CostUSD: 0.5}}}}
	pay := func() error {
		require.NoError(t, r.Learn(t.Context(), loop.Entry{Kind: loop.Reply, Usage: &llm.Usage{ModelCalls: 1, TotalUSD: new(0.3)}}))
		_, err := r.Updates(t.Context())
		return err
	}
	require.NoError(t, pay())
	var ended *loop.EndedError
	require.ErrorAs(t, pay(), &ended)
	require.NoError(t, r.Learn(t.Context(), loop.Entry{Kind: loop.Resumed}))
	require.NoError(t, pay(), "a later launch has what is left")
}

// A report counts the tool calls of the step, except record_evidence.
func TestLearn_countsTools(t *testing.T) {
	t.Parallel()
	r := &rules{tools: []string{"list_files", scenario.EvidenceTool}}
	reply := calls("list_files", "{}", "mcp__playwright__browser_click", "{}", scenario.EvidenceTool, "{}", "rm", "{}", reportTool, good)
	require.NoError(t, r.Learn(t.Context(), loop.Entry{Kind: loop.Reply, Messages: []llm.Message{reply}}))
	var got report
	require.NoError(t, json.Unmarshal(r.acceptReport(report{}).Payload, &got))
	require.Equal(t, 2, got.Used)
}

// A report says that no tool of a server ever worked, with the first failure, until one works or the
// step begins again.
func TestLearn_brokenServers(t *testing.T) {
	t.Parallel()
	r := &rules{tools: []string{"mcp__pw__browser_navigate", "list_files"}}
	call := func(id, tool, result string, failed bool) {
		for _, e := range []loop.Entry{
			{Kind: loop.Reply, Messages: []llm.Message{{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: id, Name: tool, Arguments: "{}"}}}}},
			{Kind: loop.Results, Messages: []llm.Message{{Role: llm.ToolRole, ToolCallID: id, Content: result}}, Outcomes: []loop.Outcome{{Call: id, Failed: failed}}},
		} {
			require.NoError(t, r.Learn(t.Context(), e))
		}
	}
	reported := func() (got report) {
		require.NoError(t, json.Unmarshal(r.acceptReport(report{}).Payload, &got))
		return got
	}
	call("c1", "list_files", "nothing", true)
	require.Empty(t, reported().Broken, "no server was asked")
	call("c2", "mcp__pw__browser_navigate", "error: ### Error\nChromium sandboxing failed!\nat launch", true)
	call("c3", "mcp__pw__browser_click", "no page", true)
	require.Equal(t, "all 2 calls of pw failed: Chromium sandboxing failed!", reported().Broken)
	require.True(t, reported().Browser)
	call("c4", "mcp__pw__browser_snapshot", "a page", false)
	call("c5", "mcp__pw__browser_click", "no such element", true)
	require.Empty(t, reported().Broken)
	require.NoError(t, r.Learn(t.Context(), loop.Entry{Kind: loop.BegunAgain}))
	call("c6", "mcp__pw__browser_click", "", true)
	require.Equal(t, "the only call of pw failed: no reason given", reported().Broken)
}

// If the agent has a browser, the opening says how to use it and names its tools.
func TestOpening_browser(t *testing.T) {
	t.Parallel()
	s := Step{Scenario: "buy", Content: "Buy."}
	require.NotContains(t, s.openingMessages([]llm.Tool{{Name: "mcp__db__query"}})[0].Content, "browser")
	tools := []llm.Tool{{Name: "mcp__chrome__browser_snapshot"}, {Name: "mcp__chrome__browser_take_screenshot"}}
	system := s.openingMessages(tools)[0].Content
	for _, want := range []string{
		"a screenshot (mcp__chrome__browser_take_screenshot) before and after each action", `"press-buy-before"`,
		"Look at the page (mcp__chrome__browser_snapshot) before you click", "never for a number of seconds", "with its wait tool",
	} {
		require.Contains(t, system, want)
	}
	require.NotContains(t, s.openingMessages(tools)[1].Content, "## Browser")
	s.Browser = Renewed
	require.Contains(t, s.openingMessages(tools)[1].Content, "## Browser\n\nThe browser of the steps before is gone")
}
