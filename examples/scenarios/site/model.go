package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// request contains the parts of a request on which the reply depends.
type request struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

// call is a tool call.
type call struct {
	tool      string
	arguments map[string]any
}

// conversation summarizes a request.
type conversation struct {
	task    string   // the first request
	replies int      // number of the model's replies
	results []string // results of its tool calls, in order
}

func (r request) readConversation() conversation {
	var c conversation
	for _, m := range r.Messages {
		text := ""
		_ = json.Unmarshal(m.Content, &text) // only messages with images come in parts
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

// findInTask returns the first group of a pattern's match in the task.
func (c conversation) findInTask(pattern string) string {
	m := regexp.MustCompile(pattern).FindStringSubmatch(c.task)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(m[1])
}

// completeChat serves the Chat Completions API. Every reply contains one tool call.
func completeChat(w http.ResponseWriter, r *http.Request) {
	var asked request
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		http.Error(w, `{"error":{"message":"not a request of the Chat Completions API"}}`, http.StatusBadRequest)
		return
	}
	c := asked.readConversation()
	next := c.nextCall()
	arguments, _ := json.Marshal(next.arguments) // encoding of strings cannot fail
	in, out := len(body)/4, len(arguments)/4
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // fails if the reader has gone
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

// scene is the script for a step: a page to open, calls on the page, and an expected text.
type scene struct {
	path   string
	calls  []call
	expect string
}

func (c conversation) scriptedScenes() map[string]scene {
	user, password := c.findInTask(`(?m)^- User: (.+)$`), c.findInTask(`(?m)^- Password: (.+)$`)
	empty := browserCall("click", "element", "Empty the basket", "target", "#empty")
	buy := browserCall("click", "element", "Put in the basket", "target", "#buy")
	return map[string]scene{
		"buy/01":     {"/?customer=grace", []call{empty}, "Lamps in your basket: 0"},
		"buy/02":     {"/?customer=grace", []call{buy}, "Lamps in your basket: 1"},
		"buy/03":     {"/?customer=grace", nil, "Lamps in your basket: 1"},
		"sign-in/01": {"/sign-in", signIn(user, password), "Welcome, Ada."},
		"sign-in/02": {"/sign-in", signIn(user, "darkness"), "That is not your password."},
	}
}

func browserCall(tool string, pairs ...string) call {
	arguments := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		arguments[pairs[i]] = pairs[i+1]
	}
	return call{"mcp__playwright__browser_" + tool, arguments}
}

func signIn(user, password string) []call {
	return []call{
		browserCall("type", "element", "User", "target", "input[name=user]", "text", user),
		browserCall("type", "element", "Password", "target", "input[name=password]", "text", password),
		browserCall("click", "element", "Sign in", "target", "#sign-in"),
	}
}

func (c conversation) nextCall() call {
	name := c.findInTask(`scenario ([a-z0-9-]+)\.`) + "/" + c.findInTask(`Execute step (\d\d)`)
	base := c.findInTask(`(http://[^\s/]+)`)
	s, ok := c.scriptedScenes()[name]
	if !ok {
		return reportCall("fail", nil, "the script does not know the step "+name)
	}
	calls := slices.Concat([]call{browserCall("navigate", "url", base+s.path)}, evidenceCalls("before"), s.calls)
	looked := len(calls)
	calls = slices.Concat(calls, []call{browserCall("snapshot")}, evidenceCalls("after"))
	if c.replies < len(calls) {
		return calls[c.replies]
	}
	return c.judgePage(s, looked)
}

// evidenceCalls takes a screenshot, which is saved in the workspace, and records it as evidence.
func evidenceCalls(name string) []call {
	file := name + ".png"
	return []call{
		browserCall("take_screenshot", "type", "png", "filename", file),
		{"record_evidence", map[string]any{"name": name, "type": "screenshot", "path": file}},
	}
}

var recorded = regexp.MustCompile(`step-\d\d/evidence/\S+`)

// judgePage reports whether the page showed the expected text.
func (c conversation) judgePage(s scene, looked int) call {
	paths := []string{}
	for _, result := range c.results {
		if path := recorded.FindString(result); path != "" {
			paths = append(paths, path)
		}
	}
	page := ""
	if looked < len(c.results) {
		page = c.results[looked]
	}
	if strings.Contains(page, s.expect) {
		return reportCall("pass", paths, "")
	}
	shown := regexp.MustCompile(`Lamps in your basket: \d+`).FindString(page)
	if shown == "" {
		shown = "it is not there"
	}
	return reportCall("fail", paths, fmt.Sprintf("expected %q on the page, found: %s", s.expect, shown))
}

func reportCall(status string, paths []string, problem string) call {
	arguments := map[string]any{"status": status, "evidence_paths": append([]string{}, paths...), "error": nil, "summary": "The page showed the expected text."}
	if problem != "" {
		arguments["error"], arguments["summary"] = problem, "The page did not show the expected text."
	}
	return call{"report_result", arguments}
}
