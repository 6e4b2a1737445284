package agent

import (
	"fmt"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/text"
)

// Names of the tools of browser servers such as Playwright's.
const (
	serverPrefix  = "mcp__"
	browserPrefix = "__browser_"
)

// browserGuide returns the instructions for the tools of a browser, or "" if tools has no browser.
func browserGuide(tools []llm.Tool) string {
	offered, prefix := map[string]bool{}, ""
	for _, tool := range tools {
		server, name, found := strings.Cut(tool.Name, browserPrefix)
		if found && strings.HasPrefix(server, serverPrefix) {
			prefix = server + browserPrefix
			offered[name] = true
		}
	}
	if prefix == "" {
		return ""
	}
	name := func(tool, otherwise string) string {
		if offered[tool] {
			return prefix + tool
		}
		return otherwise
	}
	return fmt.Sprintf(`

You have a browser:

- Take a screenshot (%s) before and after each action that changes the page, and record both with record_evidence, type "screenshot", named for the action: "press-buy-before", "press-buy-after".
- Look at the page (%s) before you click or type, and use what it shows. Never guess an element.
- Wait for the text or element that you expect (%s), never for a number of seconds.
- If the page does not show what the step expects, look once more, then report "fail" with what it shows instead.`,
		name("take_screenshot", "with its screenshot tool"), name("snapshot", "with its snapshot tool"), name("wait_for", "with its wait tool"))
}

// browserState describes to a step the browser that the run's steps share. It is empty if
// each step has its own.
func (s Step) browserState() string {
	switch s.Browser {
	case Continued:
		return "The browser is the one that the steps before used, as they left it: look at its page first."
	case Renewed:
		return "The browser of the steps before is gone: this one is new and empty. If the step needs their page, open it, and sign in again if the page asks for it."
	case OwnBrowser:
	}
	return ""
}

// Browser is the state in which a step finds its browser.
type Browser int

// The states of a step's browser.
const (
	OwnBrowser Browser = iota // started for this step, or this is the first step of the run
	Continued                 // already used by earlier steps
	Renewed                   // started again, because the browser of earlier steps is gone
)

// OpensPages reports whether a tool opens pages in a browser.
func OpensPages(tool string) bool {
	return strings.HasPrefix(tool, serverPrefix) && strings.HasSuffix(tool, browserPrefix+"navigate")
}

// ServerOf returns the name of the server of a tool.
func ServerOf(tool string) string {
	server, _, _ := strings.Cut(strings.TrimPrefix(tool, serverPrefix), "__")
	return server
}

// FailureLine returns the first line of a server's failure that is no heading.
func FailureLine(failure string) string {
	for line := range strings.Lines(strings.TrimPrefix(failure, "error: ")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return text.TruncateRunes(line, maxReported/2)
		}
	}
	return "no reason given"
}

// serverCalls are the calls of the servers' tools in a step.
type serverCalls struct {
	running map[string]string // tools of the calls without a result, by ID
	failed  int
	worked  bool
	first   string // the first failure
}

func (s *serverCalls) learnCall(call llm.ToolCall) {
	if !strings.HasPrefix(call.Name, serverPrefix) {
		return
	}
	if s.running == nil {
		s.running = map[string]string{}
	}
	s.running[call.ID] = call.Name
}

func (s *serverCalls) learnResults(e loop.Entry) {
	for _, m := range e.Messages {
		tool, ran := s.running[m.ToolCallID]
		if m.Role != llm.ToolRole || !ran {
			continue
		}
		delete(s.running, m.ToolCallID)
		if !slices.ContainsFunc(e.Outcomes, func(o loop.Outcome) bool { return o.Call == m.ToolCallID && o.Failed }) {
			s.worked = true
		} else if s.failed++; s.first == "" {
			s.first = ServerOf(tool) + " failed: " + FailureLine(m.Content)
		}
	}
}

// failure says that all calls failed, and why the first one did, or returns "".
func (s *serverCalls) failure() string {
	if s.worked || s.failed == 0 {
		return ""
	}
	if s.failed == 1 {
		return "the only call of " + s.first
	}
	return fmt.Sprintf("all %d calls of %s", s.failed, s.first)
}
