package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	"conclave/engine/text"
)

// reportTool ends a step.
const reportTool = "report_result"

// kindReported is the kind of the loop.Action that ends a step.
const kindReported = "reported"

// Bounds of a report.
const (
	maxReported = 2000 // characters of an error or a summary
	maxPaths    = 200  // most evidence paths
)

// report is a step's verdict: the arguments of report_result, and the commit's payload.
type report struct {
	Status        scenario.Status `json:"status"`
	EvidencePaths []string        `json:"evidence_paths"`
	Error         *string         `json:"error"`
	Summary       string          `json:"summary"`

	// Used counts the calls of tools other than record_evidence.
	Used int `json:"tool_calls"`
}

// The reasons of rejections, which journals contain.
const (
	noReport       = "no_report"
	invalidReport  = "invalid_report"
	severalReports = "several_reports"
	unknownTool    = "unknown_tool"
)

// Words returns the fixed strings of this package in journals and commits.
func Words() []string {
	return []string{
		reportTool, kindReported, string(scenario.Pass), string(scenario.Fail), noReport, invalidReport, severalReports, unknownTool,
	}
}

const instructions = `You carry out one step of a user-journey test, with the tools you have, and report your findings. You are a tester: a step passes only if you saw its expected outcome yourself.

1. Follow the step as a user would. Do nothing that belongs to other steps.
2. Record evidence with record_evidence: before you begin (name "before") and when you are done (name "after"), a screenshot if there is something to see. Other evidence gets a name of its own: lower-case letters, digits, hyphens, such as "console" or "db-orders". Large output belongs into evidence, not into your report.
3. End with report_result, once: status "pass" or "fail", the paths that record_evidence gave you, the error if it failed (the expected and the actual outcome; else null), and a summary of one or two sentences.

Never put passwords or other credentials into evidence names, errors or summaries.`

// opening returns the first messages of the conversation of an agent with these tools.
func (s Step) opening(tools []llm.Tool) []llm.Message {
	instructions := instructions + browserGuide(tools)
	system := instructions
	if s.System != "" {
		system = s.System + "\n\n" + instructions
	}
	previous := "first step"
	if p := s.Launch.Previous; p != nil {
		previous = fmt.Sprintf("step %s: %s", p.ID, p.Status)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Execute step %s of scenario %s.\n", s.Launch.Step.ID, s.Scenario)
	for _, part := range []struct{ heading, text string }{
		{"Step content", s.Content}, {"Project context", cmp.Or(s.Project, "(not described)")}, {"Previous step", previous}, {"Browser", s.browserState()},
	} {
		if part.text == "" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", part.heading, strings.TrimSpace(part.text))
	}
	return []llm.Message{{Role: llm.System, Content: system}, {Role: llm.User, Content: b.String()}}
}

// rules judge one step, whose conversation starts with Step.opening.
type rules struct {
	tools []string // names of the ordinary tools, with record_evidence
	step  Step

	used     int // calls of tools other than record_evidence
	usage    llm.Usage
	heard    int  // number of the last message of a person
	delayed  bool // a report was withdrawn for messages
	reminded bool // a report was withdrawn for its lack of evidence
}

var _ loop.Rules = (*rules)(nil)

// Offer implements loop.Rules with report_result.
func (*rules) Offer() []llm.Tool {
	return []llm.Tool{{
		Name:        reportTool,
		Description: "End the step and report your findings.",
		Parameters: json.RawMessage(`{"type":"object","required":["status","evidence_paths","error","summary"],"properties":{` +
			`"status":{"type":"string","enum":["pass","fail"]},` +
			`"evidence_paths":{"type":"array","items":{"type":"string"},"description":"The paths that record_evidence gave you."},` +
			`"error":{"type":["string","null"],"description":"The expected and the actual outcome; null if the step passed."},` +
			`"summary":{"type":"string","description":"One or two sentences."}},"additionalProperties":false}`),
	}}
}

// Judge implements loop.Rules. A reply that is only the JSON object also counts as a report,
// because some models reply that way.
func (r *rules) Judge(reply llm.Message) loop.Ruling {
	if len(reply.ToolCalls) == 0 {
		report, problem := parse(strings.TrimSpace(reply.Content))
		if problem != "" {
			return loop.Ruling{Rejected: noReport, Say: "That is not a report. End the step by calling " + reportTool + "."}
		}
		return loop.Ruling{Action: r.accept(report), Withdrawn: withdrawn}
	}
	results := map[string]string{}
	var reports []llm.ToolCall
	for _, call := range reply.ToolCalls {
		switch {
		case call.Name == reportTool:
			reports = append(reports, call)
		case !r.knows(call.Name):
			results[call.ID] = fmt.Sprintf("error: there is no tool %.64q; the tools are %s", call.Name, strings.Join(append([]string{reportTool}, r.tools...), ", "))
		}
	}
	switch len(reports) {
	case 0:
		if len(results) == len(reply.ToolCalls) {
			return loop.Ruling{Rejected: unknownTool, Results: results}
		}
		return loop.Ruling{Results: results}
	case 1:
	default:
		for _, call := range reports {
			results[call.ID] = "error: " + reportTool + " was called several times in one reply: none of them counts, call it once"
		}
		return loop.Ruling{Rejected: severalReports, Results: results}
	}
	report, problem := parse(reports[0].Arguments)
	if problem != "" {
		results[reports[0].ID] = "error: " + problem
		return loop.Ruling{Rejected: invalidReport, Results: results}
	}
	results[reports[0].ID] = "reported"
	return loop.Ruling{Results: results, Action: r.accept(report), Withdrawn: withdrawn}
}

// withdrawn is the result of a withdrawn report.
const withdrawn = "Not reported yet: read the next message, then report again."

// knows reports whether the agent has an ordinary tool with this name. The tools of MCP
// servers can change during a step.
func (r *rules) knows(tool string) bool {
	return slices.Contains(r.tools, tool) || strings.HasPrefix(tool, serverPrefix)
}

func (r *rules) accept(report report) *loop.Action {
	report.Used = r.used
	payload, _ := json.Marshal(report) // encoding of strings cannot fail
	return &loop.Action{Kind: kindReported, Payload: payload}
}

// parse returns a report, or a description of its fault for the model.
func parse(arguments string) (report, string) {
	var fields struct {
		Status        scenario.Status `json:"status"`
		EvidencePaths *[]string       `json:"evidence_paths"`
		Camel         *[]string       `json:"evidencePaths"` // the spelling of some agents
		Error         *string         `json:"error"`
		Summary       string          `json:"summary"`
	}
	if err := json.Unmarshal([]byte(arguments), &fields); err != nil {
		return report{}, "the report is not a JSON object with status, evidence_paths, error and summary: " + err.Error()
	}
	r := report{Status: fields.Status, EvidencePaths: []string{}, Summary: text.HeadRunes(strings.TrimSpace(fields.Summary), maxReported)}
	if paths := cmp.Or(fields.EvidencePaths, fields.Camel); paths != nil {
		r.EvidencePaths = (*paths)[:min(len(*paths), maxPaths)]
	}
	if fields.Error != nil && strings.TrimSpace(*fields.Error) != "" {
		problem := text.HeadRunes(strings.TrimSpace(*fields.Error), maxReported)
		r.Error = &problem
	}
	switch {
	case r.Status != scenario.Pass && r.Status != scenario.Fail:
		return report{}, `status is neither "pass" nor "fail"`
	case r.Status == scenario.Fail && r.Error == nil:
		return report{}, "the step failed, and error does not say why: give the expected and the actual outcome"
	case r.Status == scenario.Pass && r.Error != nil:
		return report{}, `there is an error, but the status is "pass": decide for one of them, and leave error null if the step passed`
	}
	return r, ""
}
