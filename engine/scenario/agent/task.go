package agent

import (
	"fmt"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/scenario"
)

// Task is everything that a step's agent is told.
type Task struct {
	Scenario string // slug
	Step     scenario.StepRef
	Content  string // of the step's file
	Project  string // the summary
	Previous *scenario.Previous

	// System is the agent's own system message; empty for none.
	System string

	// Tools are the names of the ordinary tools, record_evidence among them.
	Tools []string
}

const instructions = `You carry out one step of a user-journey test, with the tools you have, and report what you found. You are a tester: a step passes only if you saw its expected outcome yourself.

1. Do what the step says, as a user would. Do nothing that belongs to other steps.
2. Record evidence with record_evidence: before you begin (name "before") and when you are done (name "after"), a screenshot if there is something to see. What else matters gets a name of its own: lower-case letters, digits, hyphens, such as "console" or "db-orders". Large output belongs into evidence, not into your report.
3. End with report_result, once: status "pass" or "fail", the paths that record_evidence gave you, the error if it failed (what you expected, and what happened instead; else null), and a summary of one or two sentences.

Never put passwords or other credentials into evidence names, errors or summaries.`

// Opening is the conversation that the step begins with.
func (t Task) Opening() []llm.Message {
	system := instructions
	if t.System != "" {
		system = t.System + "\n\n" + instructions
	}
	previous := "first step"
	if t.Previous != nil {
		previous = fmt.Sprintf("step %s: %s", t.Previous.ID, t.Previous.Status)
	}
	project := t.Project
	if project == "" {
		project = "(nothing is known of it)"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Execute step %s of scenario %s.\n", t.Step.ID, t.Scenario)
	for _, part := range []struct{ heading, text string }{
		{"Step content", t.Content}, {"Project context", project}, {"Previous step", previous},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", part.heading, strings.TrimSpace(part.text))
	}
	return []llm.Message{{Role: llm.System, Content: system}, {Role: llm.User, Content: b.String()}}
}
