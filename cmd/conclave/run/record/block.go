package record

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// Block is an entry of a transcript as it is shown to people. Its texts are those of the entry; its
// heading and the names of its parts are single lines without control characters.
type Block struct {
	Time    time.Time
	Heading string
	Spent   string // duration and usage; empty without them
	Bad     bool   // a rejection, a refusal or a wasted reply
	Parts   []Part
}

// Part is a text of a block.
type Part struct {
	Kind   PartKind
	Name   string
	Text   string // of a call its arguments
	Failed bool   // said of the result of a call
	Image  []byte // nil for a text
}

// PartKind is the kind of text in a part.
type PartKind int

// The kinds of parts.
const (
	Words     PartKind = iota // text of the model, of a person, or of the system
	Prompt                    // message to the model
	Reasoning                 // text that some servers send with a reply
	Call                      // arguments of a call of a tool
	Result                    // result of a call
	Image                     // image in a message to the model
)

// Blocks lays out the entries of a transcript.
func Blocks(lines []step.Line) []Block {
	var blocks []Block
	tools := map[string]string{} // names of the called tools, by call
	for _, l := range lines {
		b := Block{Time: l.Time, Heading: headingOf(l.Entry), Spent: spentOn(l.Entry)}
		b.Bad = l.Kind == loop.Rejection || l.Kind == loop.Wasted || l.Kind == loop.Refused
		if l.Kind == loop.Refused {
			b.Parts = append(b.Parts, Part{Name: "reason", Text: l.Reason})
		}
		failed := FailedCalls(l.Entry)
		for _, m := range l.Messages {
			b.Parts = append(b.Parts, partsOf(m, tools, failed)...)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func headingOf(e loop.Entry) string {
	switch e.Kind {
	case loop.Opening:
		return "opening: the prompt"
	case loop.Results:
		if e.Action != nil {
			return "results: accepted as " + cli.Line(e.Action.Kind)
		}
	case loop.Reply:
		if e.Salvaged != "" {
			return "reply: tool calls written as text (salvaged)"
		}
	case loop.Rejection:
		return "rejected: " + cli.Line(e.Reason)
	case loop.Updated:
		if len(e.Messages) > 0 && e.Messages[0].Role == llm.ToolRole { // the update stands in place of a result
			return "update: the action was withdrawn"
		}
	case loop.Wasted:
		return "wasted: a paid reply that was discarded"
	case loop.Resumed:
		return "resumed: the entries above are of an earlier step, which this one continues"
	case loop.BegunAgain:
		return "begun again: the entries above were interrupted, and count no more"
	case loop.Refused:
		return "refused: the conversation is too long for the model's context window"
	case loop.Elided:
		return "elided: the model no longer sees the bulk of " + cli.Plural(len(e.Elided), "old message")
	case loop.Compacted:
		return "compacted: a summary replaces all turns but the last"
	}
	return cli.Line(string(e.Kind))
}

func spentOn(e loop.Entry) string {
	var words []string
	if e.Seconds > 0 {
		words = append(words, strconv.FormatFloat(e.Seconds, 'f', -1, 64)+" s")
	}
	if e.Usage != nil {
		u := *e.Usage
		in, out := cli.Count(u.InputTokens)+" tokens in", cli.Count(u.OutputTokens)+" out"
		if u.CachedInputTokens > 0 {
			in += " (" + cli.Count(u.CachedInputTokens) + " cached)"
		}
		if u.ReasoningTokens > 0 {
			out += " (" + cli.Count(u.ReasoningTokens) + " reasoning)"
		}
		if u.TotalUSD != nil && *u.TotalUSD > 0 {
			out += fmt.Sprintf(", $%.4f", *u.TotalUSD)
		}
		words = append(words, in+", "+out)
	}
	return strings.Join(words, " · ")
}

// partsOf lays out a message and adds the tools that it calls.
func partsOf(m llm.Message, tools map[string]string, failed map[string]bool) []Part {
	switch m.Role {
	case llm.Assistant:
		return replyParts(m, tools)
	case llm.ToolRole:
		name, known := tools[m.ToolCallID]
		if !known {
			name = "an unknown call " + cli.Line(m.ToolCallID)
		}
		return []Part{{Kind: Result, Name: "result of " + name, Text: m.Content, Failed: failed[m.ToolCallID]}}
	}
	parts := []Part{{Kind: Prompt, Name: cli.Line(string(m.Role)), Text: m.Content}}
	for _, i := range m.Images {
		parts = append(parts, Part{Kind: Image, Name: "image", Text: fmt.Sprintf("an image of %d bytes", len(i.Data)), Image: i.Data})
	}
	return parts
}

func replyParts(m llm.Message, tools map[string]string) []Part {
	var parts []Part
	if thought := ReasoningOf(m); thought != "" {
		parts = append(parts, Part{Kind: Reasoning, Name: "reasoning", Text: thought})
	}
	if m.Content != "" || len(m.ToolCalls) == 0 {
		parts = append(parts, Part{Name: "text", Text: m.Content})
	}
	for _, call := range m.ToolCalls {
		tools[call.ID] = cli.Line(call.Name)
		parts = append(parts, Part{Kind: Call, Name: "call " + cli.Line(call.Name), Text: call.Arguments})
	}
	return parts
}

// ReasoningOf returns the reasoning that some servers send with a reply.
func ReasoningOf(m llm.Message) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var thought string
		if raw, ok := m.Extra[name]; ok && json.Unmarshal(raw, &thought) == nil && thought != "" {
			return thought
		}
	}
	return ""
}

// FailedCalls returns the IDs of the calls of an entry that failed or had another exit code than 0.
func FailedCalls(e loop.Entry) map[string]bool {
	failed := map[string]bool{}
	for _, o := range e.Outcomes {
		failed[o.Call] = o.Failed || o.ExitCode != nil && *o.ExitCode != 0
	}
	return failed
}
