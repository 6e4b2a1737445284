package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// request is what the model is asked, as far as its reply depends on it.
type request struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	} `json:"messages"`
}

// call is a tool call.
type call struct {
	tool      string
	arguments map[string]any
}

// conversation is a step's so far.
type conversation struct {
	task    string   // what the step was told
	replies int      // that the model has given
	results []string // of its calls, in order
}

func (r request) conversation() conversation {
	var c conversation
	for _, m := range r.Messages {
		text := textOf(m.Content)
		switch m.Role {
		case "user":
			if c.task == "" {
				c.task = text
			}
		case "assistant":
			c.replies++
		case "tool":
			c.results = append(c.results, text)
		}
	}
	return c
}

// textOf is the text of a message, which may come in parts.
func textOf(content any) string {
	switch content := content.(type) {
	case string:
		return content
	case []any:
		var b strings.Builder
		for _, part := range content {
			if part, ok := part.(map[string]any); ok {
				text, _ := part["text"].(string)
				b.WriteString(text)
			}
		}
		return b.String()
	}
	return ""
}

// found is the first group of a pattern in what the step was told.
func (c conversation) found(pattern string) string {
	m := regexp.MustCompile(pattern).FindStringSubmatch(c.task)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(m[1])
}

// complete is the Chat Completions API: one tool call in every reply.
func complete(w http.ResponseWriter, r *http.Request) {
	var asked request
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		http.Error(w, `{"error":{"message":"no request of the Chat Completions API"}}`, http.StatusBadRequest)
		return
	}
	c := asked.conversation()
	next := c.next()
	arguments, _ := json.Marshal(next.arguments) // text and lists of it
	in, out := len(body)/4, len(arguments)/4
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // the reader has gone
		"id": fmt.Sprintf("reply-%d", c.replies+1), "object": "chat.completion", "model": asked.Model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "tool_calls",
			"message": map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": fmt.Sprintf("call_%d", c.replies+1), "type": "function",
				"function": map[string]any{"name": next.tool, "arguments": string(arguments)},
			}}},
		}},
		"usage": map[string]any{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out},
	})
}
