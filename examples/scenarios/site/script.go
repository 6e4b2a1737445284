package main

import (
	"fmt"
	"regexp"
	"strings"
)

// scene is how the script carries out a step: it opens a page, does something, and
// looks for a text. It knows the page as a tester does who has been here before.
type scene struct {
	path   string
	acts   func(conversation) []call
	expect string
}

// scenes are the steps of the example's scenarios.
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

// signsIn uses what the step was told of the project: only steps that sign in are
// told of credentials.
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

// next is what comes after the replies so far.
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

// evidence is a screenshot, which the browser leaves in the workspace, and its
// record.
func evidence(name string) []call {
	file := name + ".png"
	return []call{
		browser("take_screenshot", map[string]any{"type": "png", "filename": file}),
		{"record_evidence", map[string]any{"name": name, "type": "screenshot", "path": file}},
	}
}

var recorded = regexp.MustCompile(`step-\d\d/evidence/\S+`)

// judge compares what the page showed with what the step expects.
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
	arguments := map[string]any{"status": status, "evidence_paths": append([]string{}, paths...), "error": nil, "summary": "The page showed what the step expects."}
	if problem != "" {
		arguments["error"], arguments["summary"] = problem, "The page did not show what the step expects."
	}
	return call{"report_result", arguments}
}
