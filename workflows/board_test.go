package workflows_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/workflows"
)

func TestBoard(t *testing.T) {
	t.Parallel()
	price := 0.12345
	for name, tt := range map[string]struct {
		print func(b *workflows.Board)
		want  string
	}{
		"a headline": {func(b *workflows.Board) {
			b.Headline("running", "round 2", llm.Usage{InputTokens: 40, OutputTokens: 2, ModelCalls: 3})
		}, "**running** · round 2 · 42 tokens, 3 calls\n\n"},
		"a headline with a price":      {func(b *workflows.Board) { b.Headline("done", "round 2", llm.Usage{TotalUSD: &price}) }, "**done** · round 2 · 0 tokens, 0 calls, $0.1235\n\n"},
		"a quote is no markup":         {func(b *workflows.Board) { b.Quote("a | <b>c</b>") }, "> a \\| \\<b\\>c\\</b\\>\n\n"},
		"a quote is one line":          {func(b *workflows.Board) { b.Quote("a\n\n# b") }, "> a"},
		"files lie beside a file":      {func(b *workflows.Board) { b.Files("s3://bucket/sessions/s1/session.json") }, "\nFiles: `s3://bucket/sessions/s1/`\n"},
		"no files without an address":  {func(b *workflows.Board) { b.Files("") }, ""},
		"an ignored signal":            {func(b *workflows.Board) { b.Ignored("say: no <b>") }, "**Ignored:** the signal say: no \\<b\\>\n\n"},
		"no ignored signal":            {func(b *workflows.Board) { b.Ignored("") }, ""},
		"printed texts follow another": {func(b *workflows.Board) { b.Print("%d", 1); b.Print("%s", "2") }, "12"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b workflows.Board
			tt.print(&b)
			if name == "a quote is one line" {
				require.True(t, strings.HasPrefix(b.String(), tt.want))
				require.NotContains(t, strings.TrimSpace(b.String()), "\n")
				return
			}
			require.Equal(t, tt.want, b.String())
		})
	}
}

func TestBoard_longQuote(t *testing.T) {
	t.Parallel()
	var b workflows.Board
	b.Quote(strings.Repeat("word ", 2000))
	require.Less(t, len(b.String()), 2100)
}

// upserts records the changes of a memo.
type upserts struct {
	interceptor.WorkerInterceptorBase
	all []map[string]any
}

func (u *upserts) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &upsertsInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, u}
}

type upsertsInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	*upserts
}

func (u *upsertsInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return u.Next.Init(&upsertsOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, u.upserts})
}

type upsertsOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	*upserts
}

func (u *upsertsOutbound) UpsertMemo(ctx workflow.Context, values map[string]any) error {
	u.all = append(u.all, maps.Clone(values))
	return u.Next.UpsertMemo(ctx, values)
}

// setting runs a workflow that sets its memo, and returns the upserts.
func setting(t *testing.T, set func(ctx workflow.Context, m *workflows.Memo)) []map[string]any {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	u := &upserts{}
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{u}})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		var m workflows.Memo
		set(ctx, &m)
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	return u.all
}

// Each upsert has all changed fields and no unchanged one, because each is an event of the
// history.
func TestMemo_setsChanges(t *testing.T) {
	t.Parallel()
	all := setting(t, func(ctx workflow.Context, m *workflows.Memo) {
		m.Set(ctx, map[string]any{workflows.MemoStatus: workflows.Running, workflows.MemoRound: 1})
		m.Set(ctx, map[string]any{workflows.MemoStatus: workflows.Running, workflows.MemoRound: 1})
		m.Set(ctx, map[string]any{workflows.MemoStatus: workflows.Running, workflows.MemoRound: 2})
		m.Set(ctx, map[string]any{workflows.MemoStatus: workflows.Paused})
		m.Set(ctx, nil)
	})
	require.Equal(t, []map[string]any{
		{workflows.MemoStatus: workflows.Running, workflows.MemoRound: 1},
		{workflows.MemoRound: 2},
		{workflows.MemoStatus: workflows.Paused},
	}, all)
}

// The bell is set with the fields, and only when it was rung.
func TestMemo_setsTheBell(t *testing.T) {
	t.Parallel()
	all := setting(t, func(ctx workflow.Context, m *workflows.Memo) {
		m.Set(ctx, map[string]any{workflows.MemoRound: 1})
		m.Bell.Epoch = 1
		m.Set(ctx, map[string]any{workflows.MemoRound: 1})
		m.Bell.Directive = coordination.Pausing // not rung
		m.Set(ctx, map[string]any{workflows.MemoRound: 1})
		m.Bell.Epoch = 2
		m.Set(ctx, map[string]any{workflows.MemoRound: 2})
	})
	require.Equal(t, []map[string]any{
		{workflows.MemoRound: 1},
		{workflows.MemoDoorbell: coordination.Ring{Epoch: 1}},
		{workflows.MemoRound: 2, workflows.MemoDoorbell: coordination.Ring{Epoch: 2, Directive: coordination.Pausing}},
	}, all)
}

// Long texts are truncated before they are compared, so that a change beyond the bound is
// no upsert.
func TestMemo_truncates(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("q", 1000)
	all := setting(t, func(ctx workflow.Context, m *workflows.Memo) {
		m.Set(ctx, map[string]any{workflows.MemoQuery: long, workflows.MemoParked: long, workflows.MemoStep: long})
		m.Set(ctx, map[string]any{workflows.MemoQuery: long + "!"})
	})
	require.Len(t, all, 1)
	require.LessOrEqual(t, len(all[0][workflows.MemoQuery].(string)), 204)
	require.LessOrEqual(t, len(all[0][workflows.MemoParked].(string)), 504)
	require.Equal(t, long, all[0][workflows.MemoStep], "names of steps have bounds of their own")
}
