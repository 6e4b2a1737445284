package openai_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/activities/tools"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// answering is rules with the single action new_answer.
type answering struct{}

func (answering) Offer() []llm.Tool {
	return []llm.Tool{{
		Name: "new_answer", Description: "Give your answer.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"content":{"type":"string"}},"required":["content"]}`),
	}}
}

func (answering) Judge(reply llm.Message) loop.Ruling {
	for _, call := range reply.ToolCalls {
		if call.Name == "new_answer" {
			return loop.Ruling{
				Action:  &loop.Action{Kind: "new_answer", Payload: json.RawMessage(call.Arguments)},
				Results: map[string]string{call.ID: "Your answer is accepted."},
			}
		}
	}
	if len(reply.ToolCalls) == 0 {
		return loop.Ruling{Rejected: "plain_text", Say: "Call a tool."}
	}
	return loop.Ruling{}
}

func (answering) Updates(context.Context) (loop.Update, error) { return loop.Update{}, nil }

func (answering) Confirm(context.Context, loop.Action) (loop.Update, error) {
	return loop.Update{}, nil
}
func (answering) Learn(context.Context, loop.Entry) error { return nil }

// entries is a journal in memory.
type entries []loop.Entry

func (e *entries) Append(_ context.Context, entry loop.Entry) error {
	*e = append(*e, entry)
	return nil
}

// converse runs steps of a model that copies its calls from the prompt, with the
// real file tools: calls in sequence, then in parallel.
func converse(t *testing.T, client *openai.Client) {
	t.Helper()
	conv := work(t, client, `CALL write_file {"path":"notes.txt","content":"hello world"} THEN CALL read_file {"path":"notes.txt"} `+
		`THEN CALL new_answer {"content":"the file is written"}`, map[string]string{"notes.txt": "hello world"})
	require.Equal(t, 3, conv.Replies, "each call was made once")
	require.Contains(t, conv.Messages[5].Content, "hello world", "the file was read")

	conv = work(t, client, `CALL write_file {"path":"one.txt","content":"first"} AND CALL write_file {"path":"two.txt","content":"second"} `+
		`THEN CALL new_answer {"content":"the file is written"}`, map[string]string{"one.txt": "first", "two.txt": "second"})
	require.Equal(t, 2, conv.Replies)
	require.Len(t, conv.Messages[2].ToolCalls, 2, "in parallel")
}

// work runs one step and checks its files.
func work(t *testing.T, client *openai.Client, prompt string, left map[string]string) *loop.Conversation {
	t.Helper()
	workspace := t.TempDir()
	files, err := tools.Open(t.Context(), workspace, tools.Set{Files: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })

	conv := &loop.Conversation{}
	conv.Add(loop.Entry{Kind: loop.Opening, Messages: []llm.Message{
		{Role: llm.System, Content: "You are an agent."}, {Role: llm.User, Content: prompt},
	}})
	action, err := loop.Loop{Model: client, Tools: files, Journal: (&entries{}).Append}.Run(t.Context(), conv, answering{})
	require.NoError(t, err, "%+v", conv.Messages)
	require.JSONEq(t, `{"content":"the file is written"}`, string(action.Payload))
	for name, want := range left {
		got, err := os.ReadFile(filepath.Join(workspace, name))
		require.NoError(t, err)
		require.Equal(t, want, strings.TrimSpace(string(got)))
	}
	require.Equal(t, int64(conv.Replies), conv.Usage.ModelCalls)
	require.Positive(t, conv.Usage.InputTokens)
	require.Positive(t, conv.Usage.OutputTokens)
	return conv
}
