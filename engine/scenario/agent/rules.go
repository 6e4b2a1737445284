package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	"conclave/engine/step"
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

	// Broken says that every call of the servers' tools failed, with the first line of the first
	// failure; empty if one succeeded or none was made. Browser reports whether they had a browser.
	Broken  string `json:"broken,omitempty"`
	Browser bool   `json:"browser,omitempty"`
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

func (s Step) openingMessages(tools []llm.Tool) []llm.Message {
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

// rules judge one step, whose conversation starts with Step.openingMessages.
type rules struct {
	tools []string // names of the ordinary tools, with record_evidence
	step  Step

	used     int // calls of tools other than record_evidence
	servers  serverCalls
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
		report, problem := parseReport(strings.TrimSpace(reply.Content))
		if problem != "" {
			return loop.Ruling{Rejected: noReport, Say: "That is not a report. End the step by calling " + reportTool + "."}
		}
		return loop.Ruling{Action: r.acceptReport(report), Withdrawn: withdrawn}
	}
	results := map[string]string{}
	var reports []llm.ToolCall
	for _, call := range reply.ToolCalls {
		switch {
		case call.Name == reportTool:
			reports = append(reports, call)
		case !r.knowsTool(call.Name):
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
	report, problem := parseReport(reports[0].Arguments)
	if problem != "" {
		results[reports[0].ID] = "error: " + problem
		return loop.Ruling{Rejected: invalidReport, Results: results}
	}
	results[reports[0].ID] = "reported"
	return loop.Ruling{Results: results, Action: r.acceptReport(report), Withdrawn: withdrawn}
}

// withdrawn is the result of a withdrawn report.
const withdrawn = "Not reported yet: read the next message, then report again."

// knowsTool reports whether the agent has an ordinary tool with this name. The tools of MCP
// servers can change during a step.
func (r *rules) knowsTool(tool string) bool {
	return slices.Contains(r.tools, tool) || strings.HasPrefix(tool, serverPrefix)
}

func (r *rules) acceptReport(report report) *loop.Action {
	report.Used, report.Broken, report.Browser = r.used, r.servers.failure(), slices.ContainsFunc(r.tools, OpensPages)
	payload, _ := json.Marshal(report) // encoding of strings cannot fail
	return &loop.Action{Kind: kindReported, Payload: payload}
}

// parseReport returns a report, or a description of its fault for the model.
func parseReport(arguments string) (report, string) {
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

// memory is the journaled note of an update.
type memory struct {
	Heard    int  `json:"heard,omitempty"`
	Late     bool `json:"late,omitempty"`     // messages withdrew a report
	Evidence bool `json:"evidence,omitempty"` // the lack of evidence withdrew a report
}

// Updates implements loop.Rules. It returns people's messages, and ends a step that has spent its allowance.
func (r *rules) Updates(ctx context.Context) (loop.Update, error) {
	if limit := r.step.Launch.Limits.CostUSD; limit > 0 && r.usage.AtLeastUSD() >= limit {
		return loop.Update{}, &loop.EndedError{Why: loop.EndAllowance}
	}
	return r.readNews(ctx, false)
}

// Confirm implements loop.Rules. It withdraws a report at most once because of new messages,
// and at most once because of missing evidence.
func (r *rules) Confirm(ctx context.Context, a loop.Action) (loop.Update, error) {
	if !r.delayed {
		if update, err := r.readNews(ctx, true); err != nil || len(update.Messages) > 0 {
			return update, err
		}
	}
	return r.missingEvidence(ctx, a)
}

func (r *rules) readNews(ctx context.Context, late bool) (loop.Update, error) {
	if r.step.News == nil {
		return loop.Update{}, nil
	}
	messages, err := r.step.News(ctx, r.heard)
	if err != nil {
		return loop.Update{}, fmt.Errorf("read the messages of people: %w", err)
	}
	if len(messages) == 0 {
		return loop.Update{}, nil
	}
	return messageUpdate(step.Quote(messages), memory{Heard: messages[len(messages)-1].Number, Late: late})
}

func (r *rules) missingEvidence(ctx context.Context, a loop.Action) (loop.Update, error) {
	var reported report
	if err := json.Unmarshal(a.Payload, &reported); err != nil {
		return loop.Update{}, fmt.Errorf("read a report: %w", err)
	}
	if r.step.Pieces == nil || r.reminded || reported.Status != scenario.Pass {
		return loop.Update{}, nil
	}
	kept, err := r.step.Pieces(ctx)
	if err != nil || kept > 0 {
		return loop.Update{}, err
	}
	return messageUpdate(llm.Message{
		Role:    llm.User,
		Content: "This step passes only with evidence, and none is recorded. Record what shows the outcome with " + scenario.EvidenceTool + ", then report again.",
	}, memory{Evidence: true})
}

func messageUpdate(message llm.Message, m memory) (loop.Update, error) {
	note, err := json.Marshal(m)
	return loop.Update{Messages: []llm.Message{message}, Note: note}, err
}

func (r *rules) Learn(_ context.Context, e loop.Entry) error {
	if e.Usage != nil {
		r.usage = r.usage.Add(*e.Usage)
	}
	switch e.Kind {
	case loop.Resumed:
		r.usage = llm.Usage{} // Launch.Limits are already reduced by the usage of earlier launches
	case loop.BegunAgain:
		r.used, r.servers = 0, serverCalls{}
	case loop.Results:
		r.servers.learnResults(e)
	case loop.Reply:
		for _, m := range e.Messages {
			for _, call := range m.ToolCalls {
				if call.Name != scenario.EvidenceTool && call.Name != reportTool && r.knowsTool(call.Name) {
					r.used++
				}
				r.servers.learnCall(call)
			}
		}
	case loop.Updated:
		if len(e.Note) == 0 {
			return nil
		}
		var m memory
		if err := json.Unmarshal(e.Note, &m); err != nil {
			return fmt.Errorf("read the note of an update: %w", err)
		}
		r.heard = max(r.heard, m.Heard)
		r.delayed, r.reminded = r.delayed || m.Late, r.reminded || m.Evidence
	}
	return nil
}

// Step is one launch of a scenario's step, with everything that its agent reads.
type Step struct {
	Layout        artifact.Layout
	Launch        scenario.Launch
	Token         string    // execution token
	Attempt       int       // counts the executions of the launch
	Spent         llm.Usage // usage of earlier attempts
	MaxModelCalls int       // 0 for the default
	Browser       Browser
	BeginAgain    bool // begin again after an interruption that has cost the tools their state

	Agent string // ID of the agent with the step's model and tools

	Scenario string // the scenario's slug
	Content  string // content of the step's file
	Project  string // its summary; may be empty
	System   string // the agent's own system message; may be empty

	// Pieces returns the number of stored pieces of evidence. It is nil for a step that may
	// pass without evidence.
	Pieces func(context.Context) (int, error)

	// News returns people's messages after a number. It is nil if none reach the step.
	News func(ctx context.Context, after int) ([]step.Message, error)
}

// Spec builds the step.
func (s Step) Spec() step.Spec {
	spec := s.Place()
	spec.Attempt = step.Attempt{Number: s.Attempt, Spent: s.Spent, ResumeFrom: s.Launch.ResumeFrom, Uncounted: s.Launch.Uncounted}
	spec.MaxModelCalls, spec.BeginAgain = s.MaxModelCalls, s.BeginAgain
	spec.Shown = step.Shown{Seen: map[string]int{}}
	spec.Open, spec.Seal, spec.Documents = s.openRules, sealReport, s.commitDocuments
	return spec
}

// Place returns the part of the Spec that locates the step's records. It needs Layout, Launch and Token.
func (s Step) Place() step.Spec {
	return step.Spec{Layout: s.Layout, Token: s.Token, Agent: s.Agent, Dir: s.stepDir}
}

func (s Step) stepDir(number int) string { return s.Layout.ScenarioStep(s.Launch.Step.ID, number, "") }

func (s Step) openRules(access step.Access) (loop.Rules, []llm.Message, error) {
	r := &rules{step: s, heard: s.Launch.Heard}
	r.tools = append(r.tools, text.Each(access.Tools, func(tool llm.Tool) string { return tool.Name })...)
	return r, s.openingMessages(access.Tools), nil
}

func sealReport(a loop.Action) (step.Sealed, error) {
	return step.Sealed{Payload: a.Payload, Workspace: true}, nil
}

// ReadReport reads a committed report.
func ReadReport(c artifact.Commit) (report, error) {
	if c.Kind != kindReported {
		return report{}, fmt.Errorf("a committed action of the unknown kind %q", c.Kind)
	}
	var r report
	if err := json.Unmarshal(c.Payload, &r); err != nil {
		return report{}, fmt.Errorf("read a committed %s: %w", c.Kind, err)
	}
	return r, nil
}

func (s Step) commitDocuments(number int, c artifact.Commit) ([]step.Document, error) {
	r, err := ReadReport(c)
	if err != nil {
		return nil, err
	}
	last := c.LastAction(s.Agent, number)
	last.Action = string(r.Status)
	return []step.Document{{Key: s.stepDir(number) + "last_action.json", Body: last, Replace: true}}, nil
}
