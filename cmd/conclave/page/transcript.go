package page

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"strconv"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// entry is one entry of a transcript.
type entry struct {
	Heading string
	Bad     bool // a rejection, a refusal, a wasted reply
	Fold    bool // long texts that rarely matter, such as the prompt
	Spent   string
	Parts   []part
}

// part is a text of an entry.
type part struct {
	Name   string
	Text   cut
	Fold   bool
	Failed bool
	Image  template.URL // address of a checked image; empty for a text
}

// entriesOf prepares a transcript for the page. Path names the file with the full text.
func entriesOf(t step.Transcript, c *cutter, path string) []entry {
	l := layout{cutter: c, path: path, tools: map[string]string{}}
	for _, each := range t.Lines {
		l.add(each)
	}
	return l.entries
}

// layout prepares one transcript.
type layout struct {
	*cutter
	path    string
	tools   map[string]string // names of tools by call
	entries []entry
}

func (l *layout) add(e step.Line) {
	heading, bad := headingOf(e.Entry)
	shown := entry{Heading: heading, Bad: bad, Fold: e.Kind == loop.Opening, Spent: spent(e.Entry)}
	if e.Kind == loop.Refused {
		shown.Parts = append(shown.Parts, part{Name: "reason", Text: l.cut(e.Reason, l.path)})
	}
	failed := map[string]bool{}
	for _, o := range e.Outcomes {
		failed[o.Call] = o.Failed || o.ExitCode != nil && *o.ExitCode != 0
	}
	for _, m := range e.Messages {
		shown.Parts = append(shown.Parts, l.message(m, failed)...)
	}
	l.entries = append(l.entries, shown)
}

func headingOf(e loop.Entry) (heading string, bad bool) {
	switch e.Kind {
	case loop.Opening:
		return "opening: the prompt", false
	case loop.Reply:
		if e.Salvaged != "" {
			return "reply, tool calls read from its text", false
		}
		return "reply", false
	case loop.Results:
		if e.Action != nil {
			return "accepted: " + line(e.Action.Kind), false
		}
		return "results", false
	case loop.Rejection:
		return "rejected: " + line(e.Reason), true
	case loop.Updated:
		if len(e.Messages) > 0 && e.Messages[0].Role == llm.ToolRole {
			return "update: the action was withdrawn", false
		}
		return "update", false
	case loop.Wasted:
		return "wasted: a paid reply that was discarded", true
	case loop.Resumed:
		return "resumed after an interruption", false
	case loop.BegunAgain:
		return "begun again: the entries above count no more", false
	case loop.Refused:
		return "refused: too long for the model's context window", true
	case loop.Elided:
		return "elided: old results were removed from the conversation", false
	case loop.Compacted:
		return "compacted: a summary replaced old turns", false
	}
	return line(string(e.Kind)), false
}

func spent(e loop.Entry) string {
	words := ""
	if e.Seconds > 0 {
		words = strconv.FormatFloat(e.Seconds, 'f', 1, 64) + " s"
	}
	if e.Usage != nil && e.Usage.ModelCalls > 0 {
		if words != "" {
			words += " · "
		}
		words += tokens(*e.Usage) + " tokens · " + money(*e.Usage)
	}
	return words
}

func (l *layout) message(m llm.Message, failed map[string]bool) []part {
	switch m.Role {
	case llm.Assistant:
		return l.reply(m)
	case llm.ToolRole:
		name := l.tools[m.ToolCallID]
		if name == "" {
			name = "an unknown call"
		}
		return []part{{Name: "result of " + name, Text: l.cut(m.Content, l.path), Fold: len(m.Content) > 400, Failed: failed[m.ToolCallID]}}
	}
	parts := []part{{Name: line(string(m.Role)), Text: l.cut(m.Content, l.path), Fold: len(m.Content) > 600}}
	for _, image := range m.Images {
		parts = append(parts, l.image(image))
	}
	return parts
}

func (l *layout) reply(m llm.Message) []part {
	var parts []part
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var thought string
		if raw, ok := m.Extra[name]; ok && json.Unmarshal(raw, &thought) == nil && thought != "" {
			parts = append(parts, part{Name: "reasoning", Text: l.cut(thought, l.path), Fold: true})
			break
		}
	}
	if m.Content != "" || len(m.ToolCalls) == 0 {
		parts = append(parts, part{Name: "text", Text: l.cut(m.Content, l.path)})
	}
	for _, call := range m.ToolCalls {
		l.tools[call.ID] = line(call.Name)
		parts = append(parts, part{Name: "call " + line(call.Name), Text: l.cut(indented(call.Arguments), l.path), Fold: len(call.Arguments) > 400})
	}
	return parts
}

// indented indents JSON and returns any other text unchanged.
func indented(arguments string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(arguments), "", "  ") != nil {
		return arguments
	}
	return b.String()
}

// image shows an image of the conversation if its format is known.
func (l *layout) image(i llm.Image) part {
	if uri, ok := l.dataURI(i.Data); ok {
		return part{Name: "image", Image: uri}
	}
	return part{Name: "image", Text: cut{Text: "an image of " + strconv.Itoa(len(i.Data)) + " bytes", Path: l.path}}
}

// dataURI returns the data URI of an image if its format is known and it fits into the page.
func (c *cutter) dataURI(data []byte) (template.URL, bool) {
	i := llm.Image{Data: data}
	if c.images < len(data) || i.CheckWhole() != nil {
		return "", false
	}
	c.images -= len(data)
	return template.URL("data:" + i.Format() + ";base64," + base64.StdEncoding.EncodeToString(data)), true
}
