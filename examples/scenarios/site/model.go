package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// request is the part of a request that the reply depends on.
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
	replies int      // of the model
	results []string // of its tool calls, in order
}

func (r request) conversation() conversation {
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

// found returns the first group of a pattern in the task.
func (c conversation) found(pattern string) string {
	m := regexp.MustCompile(pattern).FindStringSubmatch(c.task)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(m[1])
}

// complete serves the Chat Completions API with one tool call in every reply.
func complete(w http.ResponseWriter, r *http.Request) {
	var asked request
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		http.Error(w, `{"error":{"message":"not a request of the Chat Completions API"}}`, http.StatusBadRequest)
		return
	}
	c := asked.conversation()
	next := c.next()
	arguments, _ := json.Marshal(next.arguments) // strings cannot fail
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

// scene is the script of a step: a page to open, acts on it, and an expected text.
type scene struct {
	path   string
	acts   func(conversation) []call
	expect string
}

// scenes returns the scenes by scenario and step.
func scenes() map[string]scene {
	return map[string]scene{
		"buy/01":     {path: "/?customer=grace", acts: presses("Empty the basket", "#empty"), expect: "Lamps in your basket: 0"},
		"buy/02":     {path: "/?customer=grace", acts: presses("Put in the basket", "#buy"), expect: "Lamps in your basket: 1"},
		"buy/03":     {path: "/?customer=grace", expect: "Lamps in your basket: 1"},
		"sign-in/01": {path: "/sign-in", acts: signsIn, expect: "Welcome, Ada."},
		"sign-in/02": {path: "/sign-in", acts: mistypes, expect: "That is not your password."},
	}
}

func browser(tool string, arguments map[string]any) call {
	return call{"mcp__playwright__browser_" + tool, arguments}
}

func presses(button, target string) func(conversation) []call {
	return func(conversation) []call {
		return []call{browser("click", map[string]any{"element": button, "target": target})}
	}
}

// signsIn finds the credentials in the step's request, which asked for them.
func signsIn(c conversation) []call {
	return enters(c.found(`(?m)^- User: (.+)$`), c.found(`(?m)^- Password: (.+)$`))
}

func mistypes(c conversation) []call { return enters(c.found(`(?m)^- User: (.+)$`), "darkness") }

func enters(user, password string) []call {
	return []call{
		browser("type", map[string]any{"element": "User", "target": "input[name=user]", "text": user}),
		browser("type", map[string]any{"element": "Password", "target": "input[name=password]", "text": password}),
		browser("click", map[string]any{"element": "Sign in", "target": "#sign-in"}),
	}
}

// next returns the call of the next reply.
func (c conversation) next() call {
	name := c.found(`scenario ([a-z0-9-]+)\.`) + "/" + c.found(`Execute step (\d\d)`)
	base := c.found(`(http://[^\s/]+)`)
	s, ok := scenes()[name]
	if !ok {
		return report("fail", nil, "the script does not know the step "+name)
	}
	calls := append(
		[]call{browser("navigate", map[string]any{"url": base + s.path})},
		evidence("before")...,
	)
	if s.acts != nil {
		calls = append(calls, s.acts(c)...)
	}
	looked := len(calls)
	calls = append(calls, browser("snapshot", map[string]any{}))
	calls = append(calls, evidence("after")...)
	if c.replies < len(calls) {
		return calls[c.replies]
	}
	return c.judge(s, looked)
}

// evidence takes a screenshot, which appears in the workspace, and records it.
func evidence(name string) []call {
	file := name + ".png"
	return []call{
		browser("take_screenshot", map[string]any{"type": "png", "filename": file}),
		{"record_evidence", map[string]any{"name": name, "type": "screenshot", "path": file}},
	}
}

var recorded = regexp.MustCompile(`step-\d\d/evidence/\S+`)

// judge reports whether the page showed the expected text.
func (c conversation) judge(s scene, looked int) call {
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
		return report("pass", paths, "")
	}
	shown := regexp.MustCompile(`Lamps in your basket: \d+`).FindString(page)
	if shown == "" {
		shown = "it is not there"
	}
	return report("fail", paths, fmt.Sprintf("expected %q on the page, found: %s", s.expect, shown))
}

func report(status string, paths []string, problem string) call {
	arguments := map[string]any{"status": status, "evidence_paths": append([]string{}, paths...), "error": nil, "summary": "The page showed the expected text."}
	if problem != "" {
		arguments["error"], arguments["summary"] = problem, "The page did not show the expected text."
	}
	return call{"report_result", arguments}
}
