package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// ToolUse is one configured tool call.
type ToolUse struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// Calls carry out a step without a model: in the place of one they make the
// configured calls, in one reply, and then say what came of them. That way such a
// step is journaled, fenced and resumed like every other one. It costs nothing.
type Calls []ToolUse

var _ loop.Model = Calls(nil)

// Generate implements loop.Model. What it replies depends on the conversation only.
func (c Calls) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	reply := llm.Message{Role: llm.Assistant}
	results := c.results(req.Messages)
	if len(results) == 0 {
		for i, use := range c {
			reply.ToolCalls = append(reply.ToolCalls, llm.ToolCall{ID: callID(i), Name: use.Tool, Arguments: string(use.Args)})
		}
		return llm.Reply{Message: reply}, nil
	}
	reply.Content = strings.Join(results, "\n\n")
	return llm.Reply{Message: reply}, nil
}

// results are what the calls came to, in their order; none before they were made.
func (c Calls) results(messages []llm.Message) []string {
	told := map[string]string{}
	for _, m := range messages {
		if m.Role == llm.ToolRole {
			told[m.ToolCallID] = m.Content
		}
	}
	if len(told) == 0 {
		return nil
	}
	var results []string
	for i, use := range c {
		text := told[callID(i)]
		if len(c) > 1 {
			text = fmt.Sprintf("%s:\n%s", use.Tool, text)
		}
		results = append(results, text)
	}
	return results
}

func callID(i int) string { return fmt.Sprintf("call_%d", i+1) }
