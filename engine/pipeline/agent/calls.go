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

// Calls is the model of a tools step: its first reply makes the configured calls and its
// second has their results. Like any other step a tools step is journaled, fenced and
// resumed. It costs nothing.
type Calls []ToolUse

var _ loop.Model = Calls(nil)

// Generate implements loop.Model. The reply depends only on the conversation.
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

// results returns the results of the calls in their order, or nil before the calls are made.
func (c Calls) results(messages []llm.Message) []string {
	byCall := map[string]string{}
	for _, m := range messages {
		if m.Role == llm.ToolRole {
			byCall[m.ToolCallID] = m.Content
		}
	}
	if len(byCall) == 0 {
		return nil
	}
	var results []string
	for i, use := range c {
		result := byCall[callID(i)]
		if len(c) > 1 {
			result = fmt.Sprintf("%s:\n%s", use.Tool, result)
		}
		results = append(results, result)
	}
	return results
}

func callID(i int) string { return fmt.Sprintf("call_%d", i+1) }
