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
	"conclave/engine/text"
)

// maxText is how much of one text is shown, in bytes, unless all of it is.
const maxText = 1200

// Step is a step with what is on record of it.
type Step struct {
	Agent  string
	Number int
	step.Transcript

	// Failure is why the step was given up, nil if it was not.
	Failure *artifact.Error
}

// over reports whether the step runs no more. One that was given up before
// anything was kept has no transcript, and is over nevertheless.
func (s Step) over() bool { return s.Over || s.Failure != nil }

// Options say how a step is shown.
type Options struct {
	Full bool           // texts are not cut
	Zone *time.Location // of the times; nil for UTC
}

// Print shows a step.
func Print(w io.Writer, s Step, o Options) error {
	p := &printer{options: o, tools: map[string]string{}}
	if p.options.Zone == nil {
		p.options.Zone = time.UTC
	}
	p.head(s)
	for _, l := range s.Lines {
		p.entry(l)
	}
	p.foot(s)
	_, err := io.WriteString(w, p.out.String())
	return err
}

// printer draws one step.
type printer struct {
	out     strings.Builder
	options Options
	tools   map[string]string // names of the tools that were called, by call ID
	day     string            // of the entry before
}

func (p *printer) head(s Step) {
	started := s.Claim.StartedAt.In(p.options.Zone)
	p.day = started.Format(time.DateOnly)
	p.line(0, "%s · step %03d · %s · %s", progress.Line(s.Agent), s.Number, started.Format("2006-01-02 15:04:05 MST"), end(s))
	if len(s.Claim.Labels) > 0 {
		p.line(0, "shown at its start: %s", progress.Line(strings.Join(s.Claim.Labels, ", ")))
	}
}

// end is how a step ended, in a few words.
func end(s Step) string {
	switch {
	case s.Commit != nil:
		return progress.Line(s.Commit.Kind)
	case s.over():
		return "ended without an action"
	default:
		return "not over"
	}
}

func (p *printer) foot(s Step) {
	p.line(0, "")
	if len(s.Lines) == 0 {
		switch {
		case s.over():
			p.line(0, "no transcript of this step was kept")
		default:
			p.line(0, "nothing is kept yet: that begins with the model's first reply")
		}
	}
	used := s.Usage()
	words := end(s) + " · " + progress.Plural(int(used.ModelCalls), "model call") + " · " + progress.Cost(used)
	if s.Commit != nil {
		words += " · " + progress.Clock(s.Commit.Timestamp.Sub(s.Claim.StartedAt))
	}
	p.line(0, "%s", words)
	if s.Failure != nil && s.Commit == nil {
		p.line(0, "given up: %s", progress.Line(s.Failure.Type+": "+s.Failure.Message))
	}
	if !s.over() {
		p.line(0, "The step runs, or was cut off and has not gone on: this is what was kept so far.")
	}
}

// line adds a line, indented by so many levels.
func (p *printer) line(level int, format string, args ...any) {
	text := strings.Repeat("  ", level) + fmt.Sprintf(format, args...)
	p.out.WriteString(strings.TrimRight(text, " ") + "\n")
}

// text adds written, line by line, truncated if it is long.
func (p *printer) text(level int, written string) {
	written = strings.TrimRight(progress.Plain(written), "\n")
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

// entry draws one block.
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
		p.message(l.Kind, m)
	}
}

// heading says what happened.
func heading(e loop.Entry) string {
	switch e.Kind {
	case loop.Results:
		if e.Action != nil {
			return "results: accepted as " + progress.Line(e.Action.Kind)
		}
	case loop.Rejection:
		return "rejection: " + progress.Line(e.Reason)
	case loop.Updated:
		if turnedDown(e) {
			return "update: the action was turned down"
		}
	case loop.Wasted:
		return "wasted: a reply that is paid for and of no use"
	case loop.Resumed:
		return "resumed: what is above is of an earlier step, from which this one goes on"
	case loop.Refused:
		return "refused: the conversation is too long for the model's context window"
	case loop.Elided:
		return "elided: the model no longer sees the bulk of " + progress.Plural(len(e.Elided), "old message")
	case loop.Compacted:
		return "compacted: a summary takes the place of the turns so far but the last"
	}
	return progress.Line(string(e.Kind))
}

// turnedDown reports an update that came in the place of an accepted action.
func turnedDown(e loop.Entry) bool {
	return len(e.Messages) > 0 && e.Messages[0].Role == llm.ToolRole
}

// spent is the usage and the time of an entry, where it has them.
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

// message draws one message of a block.
func (p *printer) message(kind loop.EntryKind, m llm.Message) {
	switch m.Role {
	case llm.Assistant:
		p.reply(m)
	case llm.ToolRole:
		p.line(1, "result of %s", p.tool(m.ToolCallID))
		p.text(2, m.Content)
	case llm.User:
		if kind == loop.Opening {
			p.line(1, "user")
		} else {
			p.line(1, "told")
		}
		p.text(2, m.Content)
	default:
		p.line(1, "%s", progress.Line(string(m.Role)))
		p.text(2, m.Content)
	}
}

// reply draws what the model said.
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

// reasoning is what servers send along that show how a model came to its reply.
func reasoning(m llm.Message) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var text string
		if raw, ok := m.Extra[name]; ok && json.Unmarshal(raw, &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// tool names the tool of a call.
func (p *printer) tool(id string) string {
	if name, ok := p.tools[id]; ok {
		return progress.Line(name)
	}
	return "an unknown call " + progress.Line(id)
}

// maxInline is the length in bytes up to which a value stands beside its name.
const maxInline = 100

// argument is one argument of a tool call.
type argument struct {
	name, value string
}

// arguments draws the arguments of a call, or the text that should have been some.
func (p *printer) arguments(text string) {
	list, ok := parseArguments(text)
	if !ok {
		p.text(2, text)
		return
	}
	for _, a := range list {
		name := progress.Line(a.name)
		if len(a.value) <= maxInline && !strings.ContainsAny(a.value, "\r\n") {
			p.line(2, "%s: %s", name, progress.Plain(a.value))
			continue
		}
		p.line(2, "%s:", name)
		p.text(3, a.value)
	}
}

// parseArguments reads the members of a JSON object in their order, strings as
// what they say. It reports whether the text is one object and nothing else.
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
		var said string
		if json.Unmarshal(value, &said) == nil && string(value) != "null" {
			a.value = said
		}
		list = append(list, a)
	}
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	_, err := d.Token()
	return list, errors.Is(err, io.EOF)
}
