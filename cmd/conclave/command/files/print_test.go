package files

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with its file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

var began = time.Date(2026, 11, 21, 5, 30, 48, 0, time.UTC)

// script returns lines a second apart.
type script []step.Line

func (s *script) add(e loop.Entry) {
	*s = append(*s, step.Line{Time: began.Add(time.Duration(len(*s)+1) * time.Second), Entry: e})
}

func said(role llm.Role, text string) llm.Message { return llm.Message{Role: role, Content: text} }

func called(text string, calls ...llm.ToolCall) llm.Message {
	return llm.Message{Role: llm.Assistant, Content: text, ToolCalls: calls}
}

func resultBlock(id, text string) llm.Message {
	return llm.Message{Role: llm.ToolRole, ToolCallID: id, Content: text}
}

func used(in, out int64, usd *float64) *llm.Usage {
	return &llm.Usage{InputTokens: in, OutputTokens: out, TotalUSD: usd, ModelCalls: 1}
}

// everything has an entry of every kind.
func everything() script {
	var s script
	s.add(loop.Entry{Kind: loop.Opening, Messages: []llm.Message{
		said(llm.System, "You are one of several agents.\n\nFinish by calling a tool."), said(llm.User, "Design a rate limiter."),
	}})
	paid := used(1600, 120, new(0.0042))
	paid.CachedInputTokens, paid.ReasoningTokens = 1024, 64
	writes := called("Let me write it down.", llm.ToolCall{
		ID: "c1", Name: "write_file", Arguments: `{"path":"limiter.go","content":"package limiter\n\nfunc Allow() bool {\n\treturn true\n}\n"}`,
	}, llm.ToolCall{ID: "c2", Name: "search_files", Arguments: `{"pattern": "TODO", "limit": 10, "glob": null, "in": ["a", "b"]}`})
	writes.Extra = map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"A token bucket will do."`)}
	s.add(loop.Entry{Kind: loop.Reply, Messages: []llm.Message{writes}, Usage: paid, Seconds: 2.4})
	s.add(loop.Entry{Kind: loop.Results, Messages: []llm.Message{resultBlock("c1", "created limiter.go (51 bytes)"), resultBlock("c2", "")}, Seconds: 0.012})
	s.add(loop.Entry{Kind: loop.Reply, Messages: []llm.Message{said(llm.Assistant, "I am done.")}, Usage: used(1800, 5, new(0.0))})
	s.add(loop.Entry{Kind: loop.Rejection, Reason: "no_tool_calls", Messages: []llm.Message{said(llm.User, "Finish by calling new_answer or vote.")}})
	s.add(loop.Entry{Kind: loop.Wasted, Usage: used(1900, 0, nil), Seconds: 60})
	s.add(loop.Entry{Kind: loop.Resumed})
	s.add(loop.Entry{Kind: loop.Updated, Messages: []llm.Message{said(llm.User, "agent2 has a new answer, agent2.1.")}, Note: json.RawMessage(`{"ours":1}`)})
	s.add(loop.Entry{Kind: loop.Reply, Messages: []llm.Message{
		called("", llm.ToolCall{ID: "c3", Name: "vote", Arguments: `{"agent_id":"agent2","reason":`}, llm.ToolCall{ID: "c4", Name: "list_files"}),
	}, Usage: used(2000, 30, nil), Seconds: 1})
	s.add(loop.Entry{Kind: loop.Updated, Messages: []llm.Message{resultBlock("c3", "Your vote was not submitted."), resultBlock("c9", "?"), said(llm.User, "agent1 has a new answer.")}})
	s.add(loop.Entry{Kind: loop.Reply, Messages: []llm.Message{called("", llm.ToolCall{
		ID: "c5", Name: "vote", Arguments: `{"agent_id":"agent1","reason":"Covers retries as well."}`,
	})}, Salvaged: `{"name": "vote", …}`, Usage: used(2100, 20, nil), Seconds: 1.5})
	s.add(loop.Entry{
		Kind: loop.Results, Messages: []llm.Message{resultBlock("c5", "Your vote is submitted.")},
		Action: &loop.Action{Kind: "vote", Payload: json.RawMessage(`{}`)},
	})
	return s
}

func TestFormatStep_everyKindOfEntry(t *testing.T) {
	t.Parallel()
	lines := everything()
	for i := 6; i < len(lines); i++ {
		lines[i].Time = lines[i].Time.Add(24 * time.Hour) // it was paused overnight
	}
	golden(t, "vote", formatStep(shownStep{Agent: "agent_a", Number: 3, Transcript: step.Transcript{
		Claim:  artifact.Claim{StartedAt: began, Labels: []string{"agent1.1", "agent2.1"}},
		Commit: &artifact.Commit{Kind: "vote", Timestamp: began.Add(24*time.Hour + 12*time.Second), Usage: llm.Usage{InputTokens: 9400, OutputTokens: 175, ModelCalls: 5}},
		Over:   true, Lines: lines,
	}}, formatOptions{}))
}

// Elisions are printed where they happened; the elided messages stay complete above.
func TestFormatStep_elided(t *testing.T) {
	t.Parallel()
	lines := everything()[:3]
	lines.add(loop.Entry{Kind: loop.Refused, Reason: "the prompt is too long:\x1b[2J 9000 > 8192", Window: 8192})
	lines.add(loop.Entry{Kind: loop.Elided, Elided: []loop.Elision{{Message: 3}, {Message: 4, Shown: 400}}})
	lines.add(loop.Entry{
		Kind: loop.Compacted, Before: 5, Usage: used(5000, 200, new(0.01)), Seconds: 3,
		Messages: []llm.Message{said(llm.User, "[Your own notes.]\n\nlimiter.go is written.")},
	})
	golden(t, "window", formatStep(shownStep{Agent: "agent_a", Number: 2, Transcript: step.Transcript{
		Claim: artifact.Claim{StartedAt: began}, Over: true, Lines: lines,
	}}, formatOptions{}))
}

// A running or killed step is printed as unfinished, with its transcript so far.
func TestFormatStep_unfinished(t *testing.T) {
	t.Parallel()
	golden(t, "running", formatStep(shownStep{Agent: "agent_a", Number: 12, Transcript: step.Transcript{
		Claim: artifact.Claim{StartedAt: began}, Lines: everything()[:3],
	}}, formatOptions{}))
	golden(t, "begun", formatStep(shownStep{Agent: "agent_a", Number: 1, Transcript: step.Transcript{
		Claim: artifact.Claim{StartedAt: began},
	}}, formatOptions{}))
}

func TestFormatStep_withoutAction(t *testing.T) {
	t.Parallel()
	golden(t, "failed", formatStep(shownStep{
		Agent: "agent_a", Number: 1, Failure: &artifact.Error{Type: "NoAction", Message: "3 replies without\x1b[2J an action"},
		Transcript: step.Transcript{Claim: artifact.Claim{StartedAt: began}, Over: true, Lines: everything()[3:5]},
	}, formatOptions{}))
}

// A step that failed before its first reply is printed as ended.
func TestFormatStep_failedWithoutTranscript(t *testing.T) {
	t.Parallel()
	s := shownStep{
		Agent: "agent_a", Number: 1, Failure: &artifact.Error{Type: "NoProgress", Message: "3 attempts without progress"},
		Transcript: step.Transcript{Claim: artifact.Claim{StartedAt: began}},
	}
	text := formatStep(s, formatOptions{})
	require.Contains(t, text, "UTC · ended without an action\n")
	require.Contains(t, text, "this step has no transcript\n")
	require.Contains(t, text, "failed: NoProgress: 3 attempts without progress\n")
	require.NotContains(t, text, "not over")
	require.NotContains(t, text, "The step runs")

	s.Lines = everything()[:3] // its journal is still there
	text = formatStep(s, formatOptions{})
	require.Contains(t, text, "opening")
	require.NotContains(t, text, "no transcript")
	require.NotContains(t, text, "not over")
}

func TestFormatStep_timeZone(t *testing.T) {
	t.Parallel()
	text := formatStep(shownStep{Agent: "agent_a", Number: 1, Transcript: step.Transcript{
		Claim: artifact.Claim{StartedAt: began}, Lines: everything()[:1],
	}}, formatOptions{Zone: time.FixedZone("CET", 3600)})
	require.Contains(t, text, "2026-11-21 06:30:48 CET")
	require.Contains(t, text, "\n06:30:49 opening: the prompt\n")
}

func TestFormatStep_truncatesLongTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 600) + "bcd" // an odd number of bytes is cut within a character
	var lines script
	arguments, err := json.Marshal(map[string]string{"content": "x" + long})
	require.NoError(t, err)
	lines.add(loop.Entry{Kind: loop.Reply, Messages: []llm.Message{called(long, llm.ToolCall{ID: "c", Name: "new_answer", Arguments: string(arguments)})}})
	s := shownStep{Agent: "agent_a", Number: 1, Transcript: step.Transcript{Lines: lines}}

	cut := formatStep(s, formatOptions{})
	require.Contains(t, cut, "    "+strings.Repeat("ä", 600)+"\n    … 3 more bytes (--full)\n")
	require.Contains(t, cut, "      x"+strings.Repeat("ä", 599)+"\n      … 5 more bytes (--full)\n")

	full := formatStep(s, formatOptions{Full: true})
	require.NotContains(t, full, "more bytes")
	require.Contains(t, full, "    "+long+"\n")
	require.Contains(t, full, "      x"+long+"\n")
}

// No text of a model contains control sequences or imitates a block.
func TestFormatStep_sanitizes(t *testing.T) {
	t.Parallel()
	evil := "a\x1b[2J\x1b]0;title\x07\u009b31m\u202eb\r\n05:30:48 results: accepted as vote"
	quoted, err := json.Marshal(evil)
	require.NoError(t, err)
	var lines script
	reply := called(evil, llm.ToolCall{ID: evil, Name: evil, Arguments: `{` + string(quoted) + `:` + string(quoted) + `}`}, llm.ToolCall{Name: "x", Arguments: evil})
	reply.Extra = map[string]json.RawMessage{"reasoning": quoted}
	lines.add(loop.Entry{Kind: loop.Reply, Messages: []llm.Message{reply}})
	lines.add(loop.Entry{Kind: loop.Rejection, Reason: evil, Messages: []llm.Message{resultBlock(evil, evil), resultBlock("?"+evil, evil), said(llm.User, evil)}})
	lines.add(loop.Entry{Kind: loop.EntryKind(evil), Messages: []llm.Message{said(llm.Role(evil), evil)}})
	lines.add(loop.Entry{Kind: loop.Results, Action: &loop.Action{Kind: evil}})
	text := formatStep(shownStep{
		Agent: evil, Number: 1, Failure: &artifact.Error{Type: evil, Message: evil},
		Transcript: step.Transcript{Claim: artifact.Claim{Labels: []string{evil}}, Over: true, Lines: lines},
	}, formatOptions{})
	for _, r := range text {
		require.False(t, r < ' ' && r != '\n' && r != '\t' || 0x7f <= r && r <= 0x9f || r == '\u202e', "%q in %q", r, text)
	}
	require.NotContains(t, text, "\n05:30:48 results")
}
