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

// Calls is the model of a tools step: its first reply makes the configured calls and its second has their
// results. Like any other step a tools step is journaled, fenced and resumed. It costs nothing.
type Calls []ToolUse

var _ loop.Model = Calls(nil)

// Generate implements loop.Model. The reply depends only on the conversation.
func (c Calls) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	reply := llm.Message{Role: llm.Assistant}
	results := c.callResults(req.Messages)
	if len(results) == 0 {
		for i, use := range c {
			reply.ToolCalls = append(reply.ToolCalls, llm.ToolCall{ID: callID(i), Name: use.Tool, Arguments: string(use.Args)})
		}
		return llm.Reply{Message: reply}, nil
	}
	reply.Content = strings.Join(results, "\n\n")
	return llm.Reply{Message: reply}, nil
}

func (c Calls) callResults(messages []llm.Message) []string {
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

// results summarizes the calls of a tools step.
type results struct {
	ExitCode *int   `json:"exit_code,omitempty"` // the first of its commands' exit codes other than 0, else 0; nil without a command
	Failed   bool   `json:"failed,omitempty"`
	Why      string `json:"why,omitempty"` // the first call that failed, in a sentence
}

func (r *results) addOutcomes(conv loop.Conversation, outcomes []loop.Outcome) {
	for _, o := range outcomes {
		if o.ExitCode != nil && (r.ExitCode == nil || *r.ExitCode == 0) {
			r.ExitCode = o.ExitCode
		}
		if o.Failed && !r.Failed {
			r.Failed, r.Why = true, describeFailure(conv.Messages, o)
		}
	}
}

// describeFailure describes a failed call by its exit code, or by the beginning of its result.
func describeFailure(messages []llm.Message, o loop.Outcome) string {
	tool, result := "a call", ""
	for _, m := range messages {
		for _, call := range m.ToolCalls {
			if call.ID == o.Call {
				tool = call.Name
			}
		}
		if m.ToolCallID == o.Call {
			result = m.Content
		}
	}
	if o.ExitCode != nil {
		return fmt.Sprintf("%s: exit code %d", tool, *o.ExitCode)
	}
	return fmt.Sprintf("%s: %.200s", tool, result)
}
