package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	"conclave/engine/text"
)

// ReportTool ends a step.
const ReportTool = "report_result"

// KindReported is the kind of the loop.Action that a step ends with.
const KindReported = "reported"

// Bounds of a report.
const (
	maxReported = 2000 // characters of an error or a summary that are kept
	maxPaths    = 200  // evidence paths
)

// Report is what a step's agent came to: the arguments of report_result, and the
// payload of the action.
type Report struct {
	Status        scenario.Status `json:"status"`
	EvidencePaths []string        `json:"evidence_paths"`
	Error         *string         `json:"error"`
	Summary       string          `json:"summary"`
}

// The reasons of rejections. They are stable: they go into journals.
const (
	NoReport       = "no_report"
	InvalidReport  = "invalid_report"
	SeveralReports = "several_reports"
	UnknownTool    = "unknown_tool"
)

// Rules are the rules of one step.
type Rules struct{ task Task }

var _ loop.Rules = Rules{}

// NewRules returns the rules of a step on task, which begins with task.Opening.
func NewRules(task Task) Rules { return Rules{task} }

// Offer returns report_result.
func (Rules) Offer() []llm.Tool {
	return []llm.Tool{{
		Name:        ReportTool,
		Description: "End the step and report what you found.",
		Parameters: json.RawMessage(`{"type":"object","required":["status","evidence_paths","error","summary"],"properties":{` +
			`"status":{"type":"string","enum":["pass","fail"]},` +
			`"evidence_paths":{"type":"array","items":{"type":"string"},"description":"The paths that record_evidence gave you."},` +
			`"error":{"type":["string","null"],"description":"What was expected and what happened instead; null if the step passed."},` +
			`"summary":{"type":"string","description":"One or two sentences."}},"additionalProperties":false}`),
	}}
}

// Updates implements loop.Rules: nothing reaches a step.
func (Rules) Updates(context.Context) (loop.Update, error) { return loop.Update{}, nil }

// Confirm implements loop.Rules.
func (Rules) Confirm(context.Context, loop.Action) (loop.Update, error) { return loop.Update{}, nil }

// Learn implements loop.Rules: a reply is judged by itself.
func (Rules) Learn(context.Context, loop.Entry) error { return nil }

// Judge decides what a reply means. A reply that is nothing but the object is a
// report, too: agents that were told of one return it so.
func (r Rules) Judge(reply llm.Message) loop.Ruling {
	if len(reply.ToolCalls) == 0 {
		report, problem := read(strings.TrimSpace(reply.Content))
		if problem != "" {
			return loop.Ruling{Rejected: NoReport, Say: "That is no report. End the step by calling " + ReportTool + "."}
		}
		return loop.Ruling{Action: accepted(report)}
	}
	told := map[string]string{}
	var reports []llm.ToolCall
	for _, call := range reply.ToolCalls {
		switch {
		case call.Name == ReportTool:
			reports = append(reports, call)
		case !slices.Contains(r.task.Tools, call.Name) && !strings.HasPrefix(call.Name, "mcp__"):
			told[call.ID] = fmt.Sprintf("error: there is no tool %.64q; the tools are %s", call.Name, strings.Join(append([]string{ReportTool}, r.task.Tools...), ", "))
		}
	}
	switch len(reports) {
	case 0:
		if len(told) == len(reply.ToolCalls) {
			return loop.Ruling{Rejected: UnknownTool, Told: told}
		}
		return loop.Ruling{Told: told}
	case 1:
	default:
		for _, call := range reports {
			told[call.ID] = "error: " + ReportTool + " was called several times in one reply: none of them counts, call it once"
		}
		return loop.Ruling{Rejected: SeveralReports, Told: told}
	}
	report, problem := read(reports[0].Arguments)
	if problem != "" {
		told[reports[0].ID] = "error: " + problem
		return loop.Ruling{Rejected: InvalidReport, Told: told}
	}
	told[reports[0].ID] = "reported"
	return loop.Ruling{Told: told, Action: accepted(report)}
}

func accepted(r Report) *loop.Action {
	payload, _ := json.Marshal(r) // text and a list of it always can be written
	return &loop.Action{Kind: KindReported, Payload: payload}
}

// read reads a report, and says what is wrong with it in words for the model.
func read(arguments string) (Report, string) {
	var given struct {
		Status        scenario.Status `json:"status"`
		EvidencePaths *[]string       `json:"evidence_paths"`
		Camel         *[]string       `json:"evidencePaths"` // as seed 004 writes it
		Error         *string         `json:"error"`
		Summary       string          `json:"summary"`
	}
	if err := json.Unmarshal([]byte(arguments), &given); err != nil {
		return Report{}, "the report is no JSON object with status, evidence_paths, error and summary: " + err.Error()
	}
	report := Report{Status: given.Status, EvidencePaths: []string{}, Summary: text.HeadRunes(strings.TrimSpace(given.Summary), maxReported)}
	if paths := firstOf(given.EvidencePaths, given.Camel); paths != nil {
		report.EvidencePaths = (*paths)[:min(len(*paths), maxPaths)]
	}
	if given.Error != nil && strings.TrimSpace(*given.Error) != "" {
		problem := text.HeadRunes(strings.TrimSpace(*given.Error), maxReported)
		report.Error = &problem
	}
	switch {
	case report.Status != scenario.Pass && report.Status != scenario.Fail:
		return Report{}, `status is neither "pass" nor "fail"`
	case report.Status == scenario.Fail && report.Error == nil:
		return Report{}, "the step failed, and error does not say why: what was expected, and what happened instead"
	case report.Status == scenario.Pass && report.Error != nil:
		return Report{}, `there is an error, but the status is "pass": decide for one of them, and leave error null if the step passed`
	}
	return report, ""
}

func firstOf(a, b *[]string) *[]string {
	if a != nil {
		return a
	}
	return b
}
