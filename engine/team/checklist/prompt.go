package checklist

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/config"
	"conclave/engine/llm"
)

// Instructions returns the checklist section of a system prompt: the criteria and the order
// of the calls. It is empty for a step without a checklist.
func (p Policy) Instructions() string {
	if !p.Open() {
		return ""
	}
	p = p.normal()
	var b strings.Builder
	fmt.Fprintf(&b, "# The checklist\n\nBefore you end your turn, score %s by these criteria, each from 0 (not at all) to 10 (nothing left to wish for):\n\n", p.subject())
	b.WriteString(List(p.Criteria))
	b.WriteString("\nScore by your own checks, not by claims: read it all, run it, recompute it. A score that is too kind costs the team a better answer.\n\nThe order:\n\n")
	for i, call := range p.order() {
		fmt.Fprintf(&b, "%d. %s\n", i+1, call)
	}
	return strings.TrimSpace(b.String())
}

// List returns the criteria as a list for a prompt, numbered E1 to En.
func List(criteria config.Criteria) string {
	var b strings.Builder
	for i, c := range criteria {
		b.WriteString("- " + describe(c, id(i)))
	}
	return b.String()
}

// describe returns the text of the criterion in the prompt.
func describe(c config.Criterion, name string) string {
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
	for _, score := range slices.SortedFunc(maps.Keys(c.ScoreAnchors), byNumber) {
		fmt.Fprintf(&b, "  A score of %s: %v\n", score, c.ScoreAnchors[score])
	}
	return b.String()
}

// byNumber compares texts as decimal numbers; a text that is not a number counts as 0.
func byNumber(x, y string) int {
	a, _ := strconv.ParseFloat(x, 64)
	b, _ := strconv.ParseFloat(y, 64)
	return cmp.Or(cmp.Compare(a, b), strings.Compare(x, y))
}

// subject returns the words for the work to score.
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

// order returns the steps of the work in their order.
func (p Policy) order() []string {
	first := "Check " + p.subject()
	if p.Own == "" {
		first = "Work, then check " + p.subject()
	}
	if p.Packet != "" {
		first += " with the findings of " + p.Packet + ", which is the report_path of your checklist"
	}
	calls := []string{
		strings.TrimSuffix(first, ",") + ".",
		fmt.Sprintf("Call `submit_checklist`, as %s, with %s. %s When it is refused with an error, correct the scores and call it again; that does not count.", p.form(), p.extent(), p.quota()),
	}
	if p.Own != "" {
		calls = append(calls, fmt.Sprintf("If the verdict is `%s`, call `%s` and you are done.", p.Terminal, p.Terminal))
	}
	calls = append(
		calls,
		"If the verdict is `new_answer`, call `propose_improvements`: for each failed criterion your plan, at least one of them structural or transformative, and under `preserve` the good parts that must stay. A criterion that has plateaued needs another approach, not more of the same.",
		"Do the tasks that it returns, and check each. They are your plan: `get_task_plan` shows it, and `update_task` records the status of a task.",
		"Submit the result with `new_answer`.",
	)
	if !p.Decomposition {
		return append(calls, "If newer answers reach you after your checklist, score them with one more `submit_checklist`; your other scores still count.")
	}
	return append(calls, "If newer work of the others reaches you after your checklist, score your part once more.")
}

// extent returns the words for the criteria to score.
func (p Policy) extent() string {
	if len(p.Criteria) == 1 {
		return "a score for " + id(0)
	}
	return fmt.Sprintf("all of %s to %s", id(0), id(len(p.Criteria)-1))
}

func (p Policy) quota() string {
	if p.CallsPerRound == 1 {
		return "One is accepted in this turn."
	}
	return fmt.Sprintf("Up to %d are accepted in this turn.", p.CallsPerRound)
}

// The names of the tools, and examples of arguments, which models copy.
const (
	submitChecklist     = "submit_checklist"
	proposeImprovements = "propose_improvements"
	improvementsForm    = `{"E1": [{"plan": "what to change", "sources": ["agent2.1"], "impact": "structural"}]}`
	preserveForm        = `{"E2": {"what": "what is good", "source": "agent1.1"}}`
)

// reportForm describes report_path.
func (p Policy) reportForm() string {
	if p.Packet != "" {
		return "The file with the findings: " + p.Packet + ", or one of your own in the workspace."
	}
	return "The file of your workspace with your findings, if you wrote one. Write it before this call."
}

// Offers reports whether the step has a checklist and tool is one of its two.
func (p Policy) Offers(tool string) bool {
	return p.Open() && (tool == submitChecklist || tool == proposeImprovements)
}

// Tools returns the two tools of the checklist, or nil for a step without one.
func (p Policy) Tools() []llm.Tool {
	if !p.Open() {
		return nil
	}
	return []llm.Tool{
		llm.NewTool(submitChecklist, "Score the work by the criteria of the checklist. You are told whether to end your turn or to improve first.", map[string]llm.Property{
			"scores":      {Type: "object", Description: "A score from 0 to 10 for every criterion. The arguments look like " + p.normal().form() + "."},
			"report_path": {Type: "string", Description: p.reportForm()},
		}, "scores"),
		llm.NewTool(proposeImprovements, "Say how you will make the failed criteria of your checklist pass. You get a list of tasks back.", map[string]llm.Property{
			"improvements": {Type: "object", Description: "For each failed criterion a list: " + improvementsForm + ". The impact is incremental, structural or transformative."},
			"preserve":     {Type: "object", Description: "What is good and must stay, by criterion: " + preserveForm + "."},
		}, "improvements", "preserve"),
	}
}
