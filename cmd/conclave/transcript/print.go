package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/engine/team/evaluator"
	"conclave/engine/text"
)

// maxText is the length, in bytes, to which a text is truncated without --full.
const maxText = 1200

// shownStep is a step with its transcript.
type shownStep struct {
	Agent  string
	Number int
	step.Transcript

	// Failure is the final error of the step, or nil if it did not fail.
	Failure *artifact.Error

	Evaluation bool              // the transcript is that of the evaluation of its answer
	Rating     *evaluator.Rating // rating of its answer by the evaluator; nil without one
	Hint       string            // the command line that shows the evaluation
}

// over reports whether the step has ended. A step that failed before its first reply has no
// transcript.
func (s shownStep) over() bool { return s.Over || s.Failure != nil }

// options are the options of formatStep.
type options struct {
	Full bool           // do not truncate texts
	Zone *time.Location // zone of the times; nil for UTC
}

// formatStep formats a step for a person.
func formatStep(s shownStep, o options) string {
	p := &printer{options: o, tools: map[string]string{}}
	if p.options.Zone == nil {
		p.options.Zone = time.UTC
	}
	p.head(s)
	for _, l := range s.Lines {
		p.entry(l)
	}
	p.foot(s)
	return p.out.String()
}

// printer formats one step.
type printer struct {
	out     strings.Builder
	options options
	tools   map[string]string // names of the tools that were called, by call ID
	day     string            // day of the previous entry
}

func (p *printer) head(s shownStep) {
	started := s.Claim.StartedAt.In(p.options.Zone)
	p.day = started.Format(time.DateOnly)
	of := ""
	if s.Evaluation {
		of = " · evaluation of its answer"
	}
	p.line(0, "%s · step %03d%s · %s · %s", progress.Line(s.Agent), s.Number, of, started.Format("2006-01-02 15:04:05 MST"), end(s))
	if len(s.Claim.Labels) > 0 {
		p.line(0, "shown at its start: %s", progress.Line(strings.Join(s.Claim.Labels, ", ")))
	}
}

// end describes how a step ended.
func end(s shownStep) string {
	switch {
	case s.Commit != nil:
		return progress.Line(s.Commit.Kind)
	case s.over():
		return "ended without an action"
	default:
		return "not over"
	}
}

// ratingWords describes a verdict with its scores.
func ratingWords(v *evaluator.Rating) string {
	words := progress.Line(string(v.Verdict))
	for _, s := range v.RoundScores() {
		words += fmt.Sprintf(" · %s %g", s.ID, s.Score)
	}
	return words
}

func (p *printer) foot(s shownStep) {
	p.line(0, "")
	switch {
	case len(s.Lines) > 0:
	case s.over():
		p.line(0, "this step has no transcript")
	default:
		p.line(0, "no transcript yet: it begins with the model's first reply")
	}
	used := s.Usage()
	words := end(s) + " · " + progress.Plural(int(used.ModelCalls), "model call") + " · " + progress.Cost(used)
	if s.Commit != nil {
		words += " · " + progress.Clock(s.Commit.Timestamp.Sub(s.Claim.StartedAt))
	}
	p.line(0, "%s", words)
	if s.Rating != nil {
		p.line(0, "evaluated: %s; `%s` shows it", ratingWords(s.Rating), s.Hint)
	}
	if s.Failure != nil && s.Commit == nil {
		p.line(0, "failed: %s", progress.Line(s.Failure.Type+": "+s.Failure.Message))
	}
	if !s.over() {
		p.line(0, "The step is running or was interrupted: this is its transcript so far.")
	}
}

// line adds a line at an indentation level.
func (p *printer) line(level int, format string, args ...any) {
	indented := strings.Repeat("  ", level) + fmt.Sprintf(format, args...)
	p.out.WriteString(strings.TrimRight(indented, " ") + "\n")
}

// text adds a text of a model, a tool or a person. It is truncated unless options.Full is set.
func (p *printer) text(level int, written string) {
	written = strings.TrimRight(text.Terminal(written), "\n")
	if written == "" {
		p.line(level, "(empty)")
		return
	}
	rest := 0
	if !p.options.Full {
		head, _ := text.Head(written, maxText)
		rest = len(written) - len(head)
		written = strings.TrimRight(head, "\n")
	}
	for line := range strings.SplitSeq(written, "\n") {
		p.line(level, "%s", line)
	}
	if rest > 0 {
		p.line(level, "… %d more bytes (--full)", rest)
	}
}

// entry adds the block of an entry.
func (p *printer) entry(l step.Line) {
	at := l.Time.In(p.options.Zone)
	p.line(0, "")
	if day := at.Format(time.DateOnly); day != p.day {
		p.line(0, "%s", day)
		p.day = day
	}
	p.line(0, "%s %s%s", at.Format(time.TimeOnly), heading(l.Entry), spent(l.Entry))
	if l.Kind == loop.Refused {
		p.text(1, l.Reason)
	}
	for _, m := range l.Messages {
		p.message(m)
	}
}

// heading describes an entry.
func heading(e loop.Entry) string {
	switch e.Kind {
	case loop.Results:
		if e.Action != nil {
			return "results: accepted as " + progress.Line(e.Action.Kind)
		}
	case loop.Reply:
		if e.Salvaged != "" {
			return "reply: tool calls written as text (salvaged)"
		}
	case loop.Rejection:
		return "rejection: " + progress.Line(e.Reason)
	case loop.Updated:
		if len(e.Messages) > 0 && e.Messages[0].Role == llm.ToolRole { // the update stands in place of a result
			return "update: the action was withdrawn"
		}
	case loop.Wasted:
		return "wasted: a paid reply that was discarded"
	case loop.Resumed:
		return "resumed: the entries above are of an earlier step, which this one continues"
	case loop.BegunAgain:
		return "begun_again: the entries above were interrupted, and count no more"
	case loop.Refused:
		return "refused: the conversation is too long for the model's context window"
	case loop.Elided:
		return "elided: the model no longer sees the bulk of " + progress.Plural(len(e.Elided), "old message")
	case loop.Compacted:
		return "compacted: a summary replaces all turns but the last"
	}
	return progress.Line(string(e.Kind))
}

// spent describes the duration and the usage of an entry, if it has them.
func spent(e loop.Entry) string {
	words := ""
	if e.Seconds > 0 {
		words += " · " + strconv.FormatFloat(e.Seconds, 'f', -1, 64) + " s"
	}
	if e.Usage == nil {
		return words
	}
	u := *e.Usage
	words += " · " + progress.Count(u.InputTokens) + " tokens in"
	if u.CachedInputTokens > 0 {
		words += " (" + progress.Count(u.CachedInputTokens) + " cached)"
	}
	words += ", " + progress.Count(u.OutputTokens) + " out"
	if u.ReasoningTokens > 0 {
		words += " (" + progress.Count(u.ReasoningTokens) + " reasoning)"
	}
	if u.TotalUSD != nil && *u.TotalUSD > 0 {
		words += fmt.Sprintf(", $%.4f", *u.TotalUSD)
	}
	return words
}

// message adds a message of a block.
func (p *printer) message(m llm.Message) {
	switch m.Role {
	case llm.Assistant:
		p.reply(m)
	case llm.ToolRole:
		p.line(1, "result of %s", p.tool(m.ToolCallID))
		p.text(2, m.Content)
	default:
		p.line(1, "%s", progress.Line(string(m.Role)))
		p.text(2, m.Content)
	}
}

// reply adds a reply of the model.
func (p *printer) reply(m llm.Message) {
	if thought := reasoning(m); thought != "" {
		p.line(1, "reasoning")
		p.text(2, thought)
	}
	if m.Content != "" || len(m.ToolCalls) == 0 {
		p.line(1, "text")
		p.text(2, m.Content)
	}
	for _, call := range m.ToolCalls {
		p.tools[call.ID] = call.Name
		p.line(1, "call %s", progress.Line(call.Name))
		p.arguments(call.Arguments)
	}
}

// reasoning returns the reasoning that some servers send with a reply.
func reasoning(m llm.Message) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var text string
		if raw, ok := m.Extra[name]; ok && json.Unmarshal(raw, &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// tool returns the name of the tool of a call.
func (p *printer) tool(id string) string {
	if name, ok := p.tools[id]; ok {
		return progress.Line(name)
	}
	return "an unknown call " + progress.Line(id)
}

// maxInline is the maximum length, in bytes, of a value printed on the line of its name.
const maxInline = 100

// argument is one argument of a tool call.
type argument struct {
	name, value string
}

// arguments adds the arguments of a call, or the text if it is not a JSON object.
func (p *printer) arguments(raw string) {
	list, ok := parseArguments(raw)
	if !ok {
		p.text(2, raw)
		return
	}
	for _, a := range list {
		name := progress.Line(a.name)
		if len(a.value) <= maxInline && !strings.ContainsAny(a.value, "\r\n") {
			p.line(2, "%s: %s", name, text.Terminal(a.value))
			continue
		}
		p.line(2, "%s:", name)
		p.text(3, a.value)
	}
}

// parseArguments returns the members of a single JSON object in order, with decoded strings.
func parseArguments(text string) ([]argument, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	var list []argument
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		a := argument{value: string(value)}
		a.name, _ = name.(string)
		var decoded string
		if json.Unmarshal(value, &decoded) == nil && string(value) != "null" {
			a.value = decoded
		}
		list = append(list, a)
	}
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	_, err := d.Token()
	return list, errors.Is(err, io.EOF)
}
