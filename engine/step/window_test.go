package step_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// parts is a model with a small context window. It reads a file in parts, and decides from the
// record of its work that it can see: its replies or its notes about them.
type parts struct {
	tokens         int
	asked, refused int
	notes          int
	first          int // the call that was asked for notes first
}

const manyParts = 7

var partForm = regexp.MustCompile(`part-(\d+)`)

func (p *parts) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	tokens := weigh(req.Messages...) / 4
	if tokens > p.tokens {
		p.refused++
		return llm.Reply{}, &llm.Error{Kind: llm.ContextTooLong, Message: "too long", Window: p.tokens}
	}
	p.asked++
	last := 0
	for _, m := range req.Messages {
		for _, found := range partForm.FindAllStringSubmatch(m.Content, -1) {
			n, _ := strconv.Atoi(found[1])
			last = max(last, n)
		}
	}
	var m llm.Message
	switch {
	case strings.Contains(req.Messages[len(req.Messages)-1].Content, "=== The record ==="):
		if p.notes++; p.first == 0 {
			p.first = p.asked
		}
		m.Content = fmt.Sprintf("All is done up to part-%d.", last)
	case last == manyParts:
		m.Content = "It is done."
	default:
		m = read("book.md")
		if last == 0 {
			m = call("write_file", map[string]string{"path": "book.md", "content": strings.Repeat("chapter\n", 120)})
		}
		m.Content = strings.Repeat(fmt.Sprintf("Now part-%d. ", last+1), 60)
	}
	return llm.Reply{Message: m, Usage: llm.Usage{InputTokens: int64(tokens), OutputTokens: 10, ModelCalls: 1}}, nil
}

// A step killed while its conversation is shortened resumes at the same point: elisions and
// summaries are kept, and at most one model call, which may be a summary, is repeated.
func TestResume_longConversation(t *testing.T) {
	t.Parallel()
	for _, known := range []int{2048, 0} {
		t.Run(fmt.Sprintf("window %d", known), func(t *testing.T) {
			t.Parallel()
			through := func(life int64, late bool) (*bench, *parts, int64, step.Result) {
				b, model := newBench(t, &rules{}), &parts{tokens: 2048}
				ports := b.ports()
				ports.Model, ports.Window = model, known
				used, r := killedAt(t, b, ports, life, late)
				return b, model, used, r
			}
			b, whole, total, want := through(1<<30, false)
			require.Positive(t, whole.notes)
			require.Equal(t, manyParts+1+whole.notes, whole.asked)
			require.EqualValues(t, whole.asked, want.Usage.ModelCalls, "a summary is paid for as any call")
			require.Equal(t, known == 0, whole.refused > 0)
			kinds := transcriptKinds(t, b)
			require.Equal(t, whole.notes, kinds[loop.Compacted])
			require.Positive(t, kinds[loop.Elided])
			require.Equal(t, whole.refused, kinds[loop.Refused])
			require.Equal(t, manyParts+1, kinds[loop.Reply], "the transcript has all that was said")

			for life := range total {
				b, model, _, got := through(life, life%2 == 0)
				require.LessOrEqual(t, model.asked, whole.asked+1, "killed at call %d of %d", life, total)
				require.LessOrEqual(t, model.refused, whole.refused+1)
				require.Equal(t, want.Commit.Manifest, got.Commit.Manifest, "killed at call %d of %d", life, total)
				require.JSONEq(t, string(want.Commit.Payload), string(got.Commit.Payload))
				require.Equal(t, kinds, transcriptKinds(t, b), "killed at call %d of %d", life, total)
			}
		})
	}
}

// transcriptKinds counts the lines in the step's transcript by kind.
func transcriptKinds(t *testing.T, b *bench) map[loop.EntryKind]int {
	t.Helper()
	raw, err := b.store.Get(t.Context(), b.spec.Dir(1)+"transcript.jsonl")
	require.NoError(t, err)
	kinds := map[loop.EntryKind]int{}
	for line := range strings.Lines(string(raw)) {
		var e loop.Entry
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		kinds[e.Kind]++
	}
	return kinds
}

// A fenced attempt does not request a summary.
func TestFence_summary(t *testing.T) {
	t.Parallel()
	whole := &parts{tokens: 2048}
	b := newBench(t, &rules{})
	ports := b.ports()
	ports.Model, ports.Window = whole, 2048
	_, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.Positive(t, whole.first)

	model := &parts{tokens: 2048}
	b = newBench(t, &rules{})
	ports = b.ports()
	ports.Model, ports.Window = model, 2048
	over := false
	ports.Progress = func(p step.Progress) { over = over || p.Last == loop.Results && model.asked == whole.first-1 }
	leaseOf(&ports).alive = failing(errKilled, func() bool { return over })
	_, err = step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, errKilled)
	require.Equal(t, whole.first-1, model.asked)
}

// weigh returns the weight of messages in bytes as estimated by the window.
func weigh(messages ...llm.Message) int {
	const bytesPerToken = 3
	return loop.History{Messages: messages}.Tokens(nil) * bytesPerToken
}
