package transcript

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"conclave/cmd/conclave/progress"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

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
