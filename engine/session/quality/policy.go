package quality

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/text"
)

// Defaults of the policy's numbers.
const (
	defaultAnswerLimit = 5
	defaultCalls       = 1
)

// Policy configures the checklist of one step, that is, of one round of the agent.
type Policy struct {
	Criteria      config.Criteria     // numbered E1 to En; empty means the default ones
	Terminal      coordination.Action // ending verdict, vote or stop; empty means stop in decomposition, else vote
	Answers       int                 // accepted answers of the agent
	AnswerLimit   int                 // limit of the agent's answers; 0 stands for 5
	CallsPerRound int                 // checklists accepted in the step, rechecks aside; 0 stands for 1
	FirstAnswer   bool                // allows a checklist to an agent without an answer
	Decomposition bool                // scores the agent's own part instead of all answers
	Subtask       string              // the agent's part in decomposition, for the default criteria
	Labels        []string            // labels of the newest answers shown, one of each agent, its own included, in the order shown
	Own           string              // label of the agent's own newest answer, never shown to the model; empty without one

	// Past are the agent's last accepted checklists from earlier steps, at most PastNeeded, the oldest first.
	Past []Scores

	// Packet is the path of an evaluation of the answer, and PacketText its text, which
	// serves as the report of every checklist. Both are empty without an evaluation.
	Packet, PacketText string

	// Read returns the content of a file of the agent's workspace. It is nil for an agent without files.
	Read func(path string) ([]byte, error)
}

// Scores are the scores of the answer that decided a checklist, by criterion.
type Scores map[string]float64

// PastNeeded is the number of earlier checklists needed to detect a plateau.
const PastNeeded = 2

// Judged returns the criteria that the policy judges by.
func (p Policy) Judged() config.Criteria { return p.withDefaults().Criteria }

// Open reports whether the step has a checklist: the agent has an answer, or FirstAnswer is set.
func (p Policy) Open() bool { return p.Own != "" || p.FirstAnswer }

// withDefaults returns p with defaults. The copy shares no memory that changes later.
func (p Policy) withDefaults() Policy {
	ending := coordination.Vote
	if p.Decomposition {
		ending = coordination.Stop
	}
	p.Terminal = cmp.Or(p.Terminal, ending)
	p.AnswerLimit = cmp.Or(p.AnswerLimit, defaultAnswerLimit)
	p.CallsPerRound = cmp.Or(p.CallsPerRound, defaultCalls)
	if len(p.Criteria) == 0 {
		p.Criteria = p.defaultCriteria()
	}
	p.Labels = slices.Clone(p.Labels)
	if p.Own != "" && !slices.Contains(p.Labels, p.Own) {
		p.Labels = append(p.Labels, p.Own)
	}
	return p
}

func criterionID(index int) string { return fmt.Sprintf("E%d", index+1) }

func agentOf(label string) string {
	name, _, _ := strings.Cut(label, ".")
	return name
}

// maxScope truncates the subtask inside a default criterion, in bytes.
const maxScope = 140

// Defaults returns the criteria of a team that has configured none and does not divide its work.
func Defaults() config.Criteria { return Policy{}.defaultCriteria() }

// defaultCriteria returns the criteria of a team that has configured none.
func (p Policy) defaultCriteria() config.Criteria {
	texts := []string{
		"It does all that the task asks for, stated or plainly meant, and nothing that the task rules out.",
		"What it says is true and what it delivers works: facts, sums, code and sources were checked, not assumed.",
		"It is thorough where the task is hard: edge cases, trade-offs and likely questions are dealt with, not passed over.",
		"Whoever asked can use it as it is: it is clear, in good order, and complete without further explanation.",
		"It shows care: the choices fit this task, and nothing is generic, padded or left half done.",
	}
	if p.Decomposition {
		scope := text.Truncate(text.OneLine(p.Subtask), maxScope)
		if scope == "" {
			scope = "as assigned"
		}
		texts = []string{
			"The owned part is carried forward to where it should be. The part: " + scope,
			"What the other parts have produced is taken in where this part touches it, and fits together with it.",
			"It keeps to the owned part: work that belongs to others is left to them.",
			"Nothing that worked before is broken, and a check was run that shows it.",
			"It is a real step beyond the last version, not other words or small polish.",
		}
	}
	criteria := make(config.Criteria, len(texts))
	for i, t := range texts {
		criteria[i] = config.Criterion{Text: t, Category: "standard"}
	}
	return criteria
}

// threshold is the voting threshold before it is adjusted to the number of answers left.
const threshold = 5

// passingScore returns the lowest score that passes, which is lower if fewer answers are left.
func (p Policy) passingScore() int {
	effective, left := threshold, max(0, p.AnswerLimit-p.Answers)
	ratio := float64(left) / float64(p.AnswerLimit)
	switch {
	case left <= 2:
		effective += 2
	case ratio <= 0.4:
		effective++
	}
	if ratio >= 0.7 {
		effective--
	}
	return (20 - effective) / 2
}

func (p Policy) scoresExample() string {
	scores := `{"E1": 7, "E2": 5}`
	if len(p.Criteria) == 1 {
		scores = `{"E1": 7}`
	}
	if p.Decomposition || p.Own == "" || len(p.Labels) < 2 {
		return fmt.Sprintf(`{"scores": %s}`, scores)
	}
	return fmt.Sprintf(`{"scores": {%q: %s, %q: %s}}`, p.Labels[0], scores, p.Labels[1], scores)
}

// Instructions returns the checklist section of a system prompt: the criteria and the order
// of the calls. It is empty for a step without a checklist.
func (p Policy) Instructions() string {
	if !p.Open() {
		return ""
	}
	p = p.withDefaults()
	var b strings.Builder
	fmt.Fprintf(&b, "# The checklist\n\nBefore you end your turn, score %s by these criteria, each from 0 (not at all) to 10 (nothing left to wish for):\n\n", p.scoredWork())
	b.WriteString(List(p.Criteria))
	b.WriteString("\nScore by your own checks, not by claims: read it all, run it, recompute it. A score that is too kind costs the team a better answer.\n\nThe order:\n\n")
	for i, call := range p.callOrder() {
		fmt.Fprintf(&b, "%d. %s\n", i+1, call)
	}
	return strings.TrimSpace(b.String())
}

// List returns the criteria as a list for a prompt, numbered E1 to En.
func List(criteria config.Criteria) string {
	var b strings.Builder
	for i, c := range criteria {
		b.WriteString("- " + describeCriterion(c, criterionID(i)))
	}
	return b.String()
}

func describeCriterion(c config.Criterion, name string) string {
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

func (p Policy) scoredWork() string {
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

func (p Policy) callOrder() []string {
	first := "Check " + p.scoredWork()
	if p.Own == "" {
		first = "Work, then check " + p.scoredWork()
	}
	if p.Packet != "" {
		first += " with the findings of " + p.Packet + ", which is the report_path of your checklist"
	}
	calls := []string{
		strings.TrimSuffix(first, ",") + ".",
		fmt.Sprintf("Call `submit_checklist`, as %s, with %s. %s When it is refused with an error, correct the scores and call it again; that does not count.", p.scoresExample(), p.scoreExtent(), p.quotaSentence()),
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

func (p Policy) scoreExtent() string {
	if len(p.Criteria) == 1 {
		return "a score for " + criterionID(0)
	}
	return fmt.Sprintf("all of %s to %s", criterionID(0), criterionID(len(p.Criteria)-1))
}

func (p Policy) quotaSentence() string {
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
			"scores":      {Type: "object", Description: "A score from 0 to 10 for every criterion. The arguments look like " + p.withDefaults().scoresExample() + "."},
			"report_path": {Type: "string", Description: p.reportForm()},
		}, "scores"),
		llm.NewTool(proposeImprovements, "Say how you will make the failed criteria of your checklist pass. You get a list of tasks back.", map[string]llm.Property{
			"improvements": {Type: "object", Description: "For each failed criterion a list: " + improvementsForm + ". The impact is incremental, structural or transformative."},
			"preserve":     {Type: "object", Description: "What is good and must stay, by criterion: " + preserveForm + "."},
		}, "improvements", "preserve"),
	}
}
