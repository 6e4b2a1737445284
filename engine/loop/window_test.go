package loop_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// narrow is a model with a context window of a given number of tokens; it refuses longer requests.
// It replies with the calls in a list, and with notes if a request has no tools.
type narrow struct {
	tokens  int
	bytes   int  // of a token; 0 for four
	names   bool // the window, in a refusal
	reports bool // usage
	work    []llm.Message
	done    int

	requests []llm.Request
	notes    int
	refused  int
}

func (n *narrow) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	asked := (weigh(req.Messages...) + toolBytes(req.Tools)) / cmp.Or(n.bytes, 4)
	if asked > n.tokens {
		n.refused++
		e := &llm.Error{Kind: llm.ContextTooLong, Message: fmt.Sprintf("the prompt is too long: %d", asked)}
		if n.names {
			e.Window = n.tokens
		}
		return llm.Reply{}, e
	}
	n.requests = append(n.requests, llm.Request{Messages: slices.Clone(req.Messages), Tools: req.Tools})
	var m llm.Message
	switch {
	case len(req.Tools) == 0:
		n.notes++
		m.Content = fmt.Sprintf("Notes %d.", n.notes)
	default: // the last again, if it was turned down
		m = n.work[min(n.done, len(n.work)-1)]
		n.done++
	}
	u := llm.Usage{ModelCalls: 1}
	if n.reports {
		u.InputTokens, u.OutputTokens = int64(asked), int64(weigh(m)/cmp.Or(n.bytes, 4))
	}
	return llm.Reply{Message: m, Usage: u}, nil
}

func toolBytes(tools []llm.Tool) int {
	n := 0
	for _, t := range tools {
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return n
}

// sized provides tools whose results have the length that the call requests.
type sized struct{}

func (sized) Tools() []llm.Tool { return []llm.Tool{{Name: "read_file"}, {Name: "write_file"}} }

func (sized) Run(_ context.Context, c llm.ToolCall) (loop.Output, error) {
	n := 0
	_, _ = fmt.Sscanf(c.Arguments, `{"n":%d`, &n)
	return loop.Output{Text: strings.Repeat("r", n), Images: make([]llm.Image, n%3/2)}, nil
}

func reads(n int) llm.Message {
	return llm.Message{ToolCalls: []llm.ToolCall{{Name: "read_file", Arguments: fmt.Sprintf(`{"n":%d}`, n)}}}
}

// carryOn continues a step after the journaled entries.
func carryOn(t require.TestingT, ctx context.Context, l loop.Loop, model *narrow, rules loop.Rules, journaled []loop.Entry) *run {
	r := &run{journal: &memory{failAt: -1}, rules: &watched{Rules: rules, t: t}}
	for _, e := range slices.Concat([]loop.Entry{opening}, restoredFrom(t, journaled)) {
		r.conv.Add(e)
		require.NoError(t, r.rules.Learn(ctx, e))
		switch e.Kind {
		case loop.Reply:
			model.done++
		case loop.Compacted:
			model.notes++
		}
	}
	l.Model, l.Tools, l.Journal = model, sized{}, r.journal.Append
	r.action, r.err = l.Run(ctx, &r.conv, r.rules)
	return r
}

func answers() llm.Message {
	return llm.Message{ToolCalls: []llm.ToolCall{call("z", "new_answer", twoMoons)}}
}

func hundredTurns() []llm.Message {
	var work []llm.Message
	for i := range 100 {
		work = append(work, reads(300+i*37%1900))
	}
	return append(work, answers())
}

// requireWhole requires that every request has the fixed messages, unchanged and in order.
func requireWhole(t require.TestingT, r *run, requests []llm.Request) {
	var told []string
	for _, e := range r.rules.learned {
		if e.Kind != loop.Updated {
			continue
		}
		for _, m := range e.Messages {
			if m.Role == llm.User && len(m.Images) == 0 {
				told = append(told, m.Content)
			}
		}
	}
	for _, req := range requests {
		if len(req.Tools) == 0 {
			continue
		}
		require.Equal(t, opening.Messages, req.Messages[:len(opening.Messages)])
		requireAnswered(t, req.Messages)
		at := 0
		for _, m := range req.Messages {
			if at < len(told) && m.Content == told[at] {
				at++
			}
		}
		require.Equal(t, toldOf(t, req.Messages), at)
	}
}

// A conversation much longer than the window reaches its action, whether the window is known or
// learned from refusals.
func TestFit_smallWindow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		window         int
		reports, names bool
		refusals       int // at most
	}{
		"known, usage reported":     {window: 8192, reports: true},
		"known, no usage":           {window: 8192},
		"named by a refusal":        {names: true, reports: true, refusals: 1},
		"refused without a number":  {reports: true, refusals: 2},
		"refused, and no usage":     {refusals: 3},
		"said to be larger than is": {window: 128000, names: true, reports: true, refusals: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := &narrow{tokens: 8192, names: tt.names, reports: tt.reports, work: hundredTurns()}
			r := carryOn(t, t.Context(), loop.Loop{Window: tt.window}, model, &team{news: []int{40, 100, 101}}, nil)
			require.NoError(t, r.err)
			require.LessOrEqual(t, model.refused, tt.refusals)
			kinds := r.kinds()
			require.Contains(t, kinds, loop.Elided)
			require.Contains(t, kinds, loop.Compacted)
			require.Less(t, model.notes, 10, "most of it is done without a model call")
			require.Equal(t, int64(101+model.notes), r.conv.Usage.ModelCalls, "summaries are paid for, too")
			requireWhole(t, r, model.requests)
			requireFoldedAgain(t, r)
			last := model.requests[len(model.requests)-1].Messages
			require.Equal(t, 3, toldOf(t, last))
			require.True(t, slices.ContainsFunc(last, func(m llm.Message) bool {
				return strings.HasSuffix(m.Content, fmt.Sprintf("Notes %d.", model.notes))
			}))
		})
	}
}

// The size of text of unusual density, such as another script, is learned from reported usage or
// from refusals.
func TestFit_density(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int{1, 2, 6} {
		for _, reports := range []bool{true, false} {
			for _, known := range []int{16384, 0} {
				model := &narrow{tokens: 16384, bytes: bytes, reports: reports, work: hundredTurns()}
				r := carryOn(t, t.Context(), loop.Loop{Window: known}, model, &team{news: []int{40}}, nil)
				require.NoError(t, r.err)
				require.LessOrEqual(t, model.refused, 3, "%d bytes, reported: %t, window %d", bytes, reports, known)
				requireWhole(t, r, model.requests)
			}
		}
	}
}

// requireFoldedAgain requires that the stored journal yields the conversation.
func requireFoldedAgain(t require.TestingT, r *run) {
	var folded loop.Conversation
	for _, e := range slices.Concat([]loop.Entry{opening}, restoredFrom(t, r.journal.entries)) {
		folded.Add(e)
	}
	require.Equal(t, asJSON(t, r.conv), asJSON(t, folded))
}

// A step lost at any entry continues in the same way, without repeating elisions or summaries.
func TestFit_resume(t *testing.T) {
	t.Parallel()
	for _, known := range []int{8192, 0} {
		made := func() *narrow { return &narrow{tokens: 8192, names: true, reports: true, work: hundredTurns()[60:]} }
		model := made()
		whole := carryOn(t, t.Context(), loop.Loop{Window: known}, model, &team{news: []int{20, 40}}, nil)
		require.NoError(t, whole.err)
		require.Contains(t, whole.kinds(), loop.Compacted)
		for k := range len(whole.journal.entries) + 1 {
			again := carryOn(t, t.Context(), loop.Loop{Window: known}, made(), &team{news: []int{20, 40}}, whole.journal.entries[:k])
			require.NoError(t, again.err)
			require.Equal(t, asJSON(t, whole.conv), asJSON(t, again.conv))
			require.Equal(t, asJSON(t, whole.journal.entries[k:]), asJSON(t, append([]loop.Entry{}, again.journal.entries...)))
		}
	}
}

// No request exceeds a known window, and each one is complete, whatever the tools return and the
// model calls.
func TestFit_neverOverTheWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(4096, 40000).Draw(rt, "window")
		one := rapid.Custom(func(t *rapid.T) llm.Message {
			m := llm.Message{Content: strings.Repeat("w", rapid.IntRange(0, 400).Draw(t, "text"))}
			for range rapid.IntRange(1, 3).Draw(t, "calls") {
				n := rapid.OneOf(rapid.IntRange(0, 500), rapid.IntRange(0, 50000)).Draw(t, "result")
				long := strings.Repeat("a", rapid.SampledFrom([]int{0, 0, 3000}).Draw(t, "argument"))
				m.ToolCalls = append(m.ToolCalls, llm.ToolCall{Name: "write_file", Arguments: fmt.Sprintf(`{"n":%d,"content":%q}`, n, long)})
			}
			return m
		})
		work := append(rapid.SliceOfN(one, 0, 40).Draw(rt, "work"), answers())
		news := rapid.SliceOfN(rapid.IntRange(0, 80), 0, 5).Draw(rt, "news")
		slices.Sort(news)
		reports := rapid.Bool().Draw(rt, "reports")
		model := &narrow{tokens: size, reports: reports, work: work}
		r := carryOn(rt, t.Context(), loop.Loop{Window: size}, model, &team{news: news}, nil)
		require.NoError(rt, r.err)
		require.Zero(rt, model.refused)
		requireWhole(rt, r, model.requests)
		requireFoldedAgain(rt, r)

		k := rapid.IntRange(0, len(r.journal.entries)).Draw(rt, "lost after")
		again := carryOn(rt, t.Context(), loop.Loop{Window: size}, &narrow{tokens: size, reports: reports, work: work}, &team{news: news}, r.journal.entries[:k])
		require.NoError(rt, again.err)
		require.Equal(rt, asJSON(rt, r.conv), asJSON(rt, again.conv))
	})
}

// An opening that does not fit is an error. If the window is known, no model call is made;
// otherwise one is refused first.
func TestFit_openingTooLong(t *testing.T) {
	t.Parallel()
	for _, known := range []int{4096, 0} {
		model := &narrow{tokens: 4096, work: []llm.Message{answers()}}
		r := carryOn(t, t.Context(), loop.Loop{Window: known}, model, &team{},
			[]loop.Entry{{Kind: loop.Updated, Messages: []llm.Message{{Role: llm.User, Content: strings.Repeat("x", 20000)}}}})
		var failed *llm.Error
		require.ErrorAs(t, r.err, &failed)
		require.Equal(t, llm.ContextTooLong, failed.Kind)
		require.ErrorContains(t, r.err, "cannot be left out")
		require.ErrorContains(t, r.err, "use a model with a longer context")
		if known > 0 {
			require.ErrorContains(t, r.err, "4,096 tokens")
			require.Zero(t, model.refused)
			continue
		}
		require.Equal(t, 1, model.refused, "the same is not asked twice")
		require.ErrorContains(t, r.err, "the prompt is too long: 50")
		require.Equal(t, []loop.EntryKind{loop.Refused}, r.kinds())
	}
}

// stubborn is a model whose server refuses every request.
type stubborn struct{ asked int }

func (s *stubborn) Generate(context.Context, llm.Request) (llm.Reply, error) {
	s.asked++
	return llm.Reply{Usage: llm.Usage{ModelCalls: 1, InputTokens: 5}}, &llm.Error{Kind: llm.ContextTooLong, Message: "too long"}
}

// A server that refuses everything gets a few requests, each shorter than the one before, and no
// further ones from a restored step.
func TestFit_refusalsBounded(t *testing.T) {
	t.Parallel()
	var conv loop.Conversation
	entries := []loop.Entry{opening}
	for i := range 30 {
		c := call(fmt.Sprint(i), "read_file", "{}")
		entries = append(entries, loop.Entry{Kind: loop.Reply, Messages: []llm.Message{{Role: llm.Assistant, ToolCalls: []llm.ToolCall{c}}}},
			loop.Entry{Kind: loop.Results, Messages: []llm.Message{c.Result(strings.Repeat("x", 3000))}})
	}
	for _, e := range entries {
		conv.Add(e)
	}
	model, journal := &stubborn{}, &memory{failAt: -1}
	_, err := loop.Loop{Model: model, Tools: sized{}, Journal: journal.Append}.Run(t.Context(), &conv, &team{})
	var failed *llm.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, llm.ContextTooLong, failed.Kind)
	require.Equal(t, 3, model.asked)
	require.EqualValues(t, 3, conv.Usage.ModelCalls, "the cost of a refusal counts")
	learned := 1 << 30
	for _, e := range journal.entries {
		if e.Kind == loop.Refused {
			require.Less(t, e.Window, learned)
			require.Equal(t, "too long", e.Reason)
			learned = e.Window
		}
	}

	_, again := loop.Loop{Model: model, Tools: sized{}, Journal: journal.Append}.Run(t.Context(), &conv, &team{})
	require.Equal(t, err.Error(), again.Error())
	require.Equal(t, 3, model.asked)

	conv.Add(loop.Entry{Kind: loop.Resumed})
	_, err = loop.Loop{Model: &narrow{tokens: 1 << 20, work: []llm.Message{answers()}}, Tools: sized{}, Journal: journal.Append}.Run(t.Context(), &conv, &team{})
	require.NoError(t, err, "a later launch begins anew, perhaps with a larger window")
}

// summaryless is a model that fails to summarize.
type summaryless struct {
	*narrow
	reply llm.Reply
	err   error
}

func (f summaryless) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	if len(req.Tools) == 0 {
		return f.reply, f.err
	}
	return f.narrow.Generate(ctx, req)
}

func TestCompact_fails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	paid := llm.Usage{ModelCalls: 1, InputTokens: 11}
	for name, tt := range map[string]struct {
		reply llm.Reply
		err   error
		check func(error)
	}{
		"an error": {llm.Reply{Usage: paid}, broken, func(err error) { require.ErrorIs(t, err, broken) }},
		"no text": {llm.Reply{Message: reads(5), Usage: paid}, nil, func(err error) {
			var failed *llm.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, llm.BadReply, failed.Kind, "it may be asked again")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			journal := &memory{failAt: -1}
			var conv loop.Conversation
			conv.Add(opening)
			model := summaryless{&narrow{tokens: 8192, work: hundredTurns()}, tt.reply, tt.err}
			_, err := loop.Loop{Model: model, Tools: sized{}, Journal: journal.Append, Window: 8192}.Run(t.Context(), &conv, &team{})
			tt.check(err)
			last := journal.entries[len(journal.entries)-1]
			require.Equal(t, loop.Wasted, last.Kind, "it is paid for")
			require.EqualValues(t, 11, last.Usage.InputTokens)
		})
	}
}

// A summary that is cut off at the reply's token limit is used, because another try would be cut
// off, too.
func TestCompact_cutOff(t *testing.T) {
	t.Parallel()
	cut := &llm.Error{Kind: llm.BadReply, Cut: true, Message: "cut off"}
	for name, tt := range map[string]struct {
		text string
		want loop.EntryKind
	}{"with text": {"I read much, and", loop.Compacted}, "without": {" ", loop.Wasted}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			journal := &memory{failAt: -1}
			var conv loop.Conversation
			conv.Add(opening)
			reply := llm.Reply{Message: llm.Message{Role: llm.Assistant, Content: tt.text}, Usage: llm.Usage{ModelCalls: 1, InputTokens: 11}}
			model := summaryless{&narrow{tokens: 8192, work: hundredTurns()}, reply, cut}
			_, err := loop.Loop{Model: model, Tools: sized{}, Journal: journal.Append, Window: 8192, MaxModelCalls: 60}.Run(t.Context(), &conv, &team{})
			at := slices.IndexFunc(journal.entries, func(e loop.Entry) bool { return e.Usage != nil && e.Usage.InputTokens == 11 })
			require.Equal(t, tt.want, journal.entries[at].Kind)
			if tt.want == loop.Wasted {
				require.ErrorIs(t, err, cut)
				return
			}
			require.Equal(t, &loop.NoActionError{Calls: 60}, err, "it went on")
			require.Contains(t, journal.entries[at].Messages[0].Content, "I read much, and\n[cut here")
		})
	}
}

// A summary counts as a model call. The rules learn its cost before the next call.
func TestCompact_countsAsModelCall(t *testing.T) {
	t.Parallel()
	model := &narrow{tokens: 8192, work: hundredTurns()}
	r := carryOn(t, t.Context(), loop.Loop{Window: 8192, MaxModelCalls: 60}, model, &team{}, nil)
	require.Equal(t, &loop.NoActionError{Calls: 60}, r.err)
	require.Positive(t, model.notes)
	require.Len(t, model.requests, 60)

	model = &narrow{tokens: 8192, work: hundredTurns()}
	rules := &thrifty{}
	r = carryOn(t, t.Context(), loop.Loop{Window: 8192}, model, rules, nil)
	require.Equal(t, &loop.EndedError{Why: loop.EndAllowance}, r.err)
	require.Equal(t, loop.Compacted, r.journal.entries[len(r.journal.entries)-1].Kind)
}

// thrifty are rules that end the step after a summary.
type thrifty struct {
	team
	spent bool
}

func (s *thrifty) Learn(ctx context.Context, e loop.Entry) error {
	s.spent = s.spent || e.Kind == loop.Compacted && e.Usage.ModelCalls == 1
	return s.team.Learn(ctx, e)
}

func (s *thrifty) Updates(ctx context.Context) (loop.Update, error) {
	if s.spent {
		return loop.Update{}, &loop.EndedError{Why: loop.EndAllowance}
	}
	return s.team.Updates(ctx)
}

// weigh returns the weight of messages in bytes as estimated by the window.
func weigh(messages ...llm.Message) int {
	const bytesPerToken = 3
	return loop.History{Messages: messages}.Tokens(nil) * bytesPerToken
}
