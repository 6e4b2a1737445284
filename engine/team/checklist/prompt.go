package checklist

import (
	"fmt"
	"strings"
)

// Instructions is the section about the checklist for a system prompt: the
// criteria, and the order of the calls. It is empty where the step has no
// checklist, and where it is not, the criteria need not be shown elsewhere.
func Instructions(p Policy) string {
	if !p.Open() {
		return ""
	}
	p = p.normal()
	var b strings.Builder
	fmt.Fprintf(&b, "# The checklist\n\nBefore you end your turn, score %s by these criteria, each from 0 (not at all) to 10 (nothing left to wish for):\n\n", p.subject())
	for i, c := range p.Criteria {
		b.WriteString("- " + c.describe(id(i)))
	}
	b.WriteString("\nScore what you have checked, not what is claimed: read it all, run it, recompute it. A score that is too kind costs the team a better answer.\n\nThe order:\n\n")
	for i, call := range p.order() {
		fmt.Fprintf(&b, "%d. %s\n", i+1, call)
	}
	return strings.TrimSpace(b.String())
}

// describe is the criterion as the agent reads it.
func (c Criterion) describe(name string) string {
	var b strings.Builder
	b.WriteString(name)
	if c.Category != "" {
		b.WriteString(" [" + c.Category + "]")
	}
	b.WriteString(": " + c.Text + "\n")
	if c.VerifyBy != "" {
		b.WriteString("  To verify: " + c.VerifyBy + "\n")
	}
	for _, pattern := range c.AntiPatterns {
		b.WriteString("  To avoid: " + pattern + "\n")
	}
	return b.String()
}

// subject is what is scored.
func (p Policy) subject() string {
	switch {
	case p.Decomposition:
		return "your own part of the work, as it stands beside the others' newest,"
	case p.Own == "":
		return "your draft"
	case len(p.Labels) == 1:
		return "the answer shown"
	}
	return "every answer shown"
}

// order is what to do, step by step.
func (p Policy) order() []string {
	first := "Check " + p.subject()
	if p.Own == "" {
		first = "Work, then check " + p.subject()
	}
	calls := []string{
		strings.TrimSuffix(first, ",") + ".",
		fmt.Sprintf("Call `submit_checklist`, as %s, with all of %s to %s. %s When it is refused with an error, mend the scores and call it again; that does not count.", p.form(), id(0), id(len(p.Criteria)-1), p.quota()),
	}
	if p.Own != "" {
		calls = append(calls, fmt.Sprintf("If the verdict is `%s`, call `%s` and you are done.", p.Terminal, p.Terminal))
	}
	calls = append(
		calls,
		"If the verdict is `new_answer`, call `propose_improvements`: for each failed criterion what you will do, at least one thing of all being structural or transformative, and under `preserve` what is good and must stay. A criterion that has plateaued needs another approach, not more of the same.",
		"Do the tasks that it returns, and check each.",
		"Submit the result with `new_answer`.",
	)
	if !p.Decomposition {
		return append(calls, "If newer answers reach you after your checklist, score them with one more `submit_checklist`; your other scores still count.")
	}
	return append(calls, "If newer work of the others reaches you after your checklist, score your part once more.")
}

func (p Policy) quota() string {
	if p.CallsPerRound == 1 {
		return "One is accepted in this turn."
	}
	return fmt.Sprintf("Up to %d are accepted in this turn.", p.CallsPerRound)
}
