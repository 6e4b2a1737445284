package runs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
)

// requests are those of a kind whose runs continue with an input, or with an error do not.
type requests struct {
	Actions
	err error
}

func (requests) AdaptUpdate(*cli.Connection, Run, *Update) error { return nil }

func (r requests) ReopenInput(_ context.Context, _ *cli.Connection, _ Run, asked workflows.Request) (any, error) {
	return map[string]any{"resume": true, "agent": asked.Agent, "text": asked.Text}, r.err
}

// reopens is the kind of a session that continues with an input.
func reopens(err error) *Kind {
	kind := *session
	kind.Actions = requests{err: err}
	return &kind
}

func failed(kind *Kind) *stage.Execution {
	return &stage.Execution{
		ID: "s1", Type: kind.Workflow, Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED,
		Memo: map[string]any{workflows.MemoStatus: "failed", kind.MemoID: "s1", workflows.MemoQuery: "Which one?", workflows.MemoCaller: "kim", workflows.MemoContinues: "s0", workflows.MemoOffline: true},
	}
}

// A run that ended without a result continues as a new run under the same ID, which keeps the
// memo's fields about its origin.
func TestSteer_retryReopens(t *testing.T) {
	t.Parallel()
	kind, server := reopens(nil), &stage.Server{}
	server.Add(failed(kind))
	conn, stdout, _ := server.Connect(nil)
	said, err := Steer(t.Context(), conn, []*Kind{kind}, "s1", Request{Verb: "retry", Agent: "agent_a"})
	require.NoError(t, err)
	require.Contains(t, said, "session s1 had ended (failed) and continues with everything that was paid for; `conclave watch s1 --address h:7233` follows it")
	require.Empty(t, stdout.String(), "the page shows the message")
	again := server.Find("s1")
	require.Equal(t, map[string]any{"resume": true, "agent": "agent_a", "text": ""}, again.Input)
	require.Equal(t, "kim", again.Memo[workflows.MemoCaller])
	require.Equal(t, "s0", again.Memo[workflows.MemoContinues])
	require.Equal(t, true, again.Memo[workflows.MemoOffline])
	require.NotContains(t, again.Memo, workflows.MemoRequest)
}

// A message continues a run that ended undecided, and no other one.
func TestSteer_sayReopens(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{
		"undecided": "session s1 had ended (undecided) and continues with everything that was paid for",
		"consensus": "say something to session s1: it has ended already (consensus)",
		"failed":    "say something to session s1: it has ended already (failed)",
	} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			kind, server := reopens(nil), &stage.Server{}
			kind.Undecided = "undecided"
			ended := failed(kind)
			ended.Memo[workflows.MemoStatus] = status
			server.Add(ended)
			conn, _, _ := server.Connect(nil)
			said, err := Steer(t.Context(), conn, []*Kind{kind}, "s1", Request{Verb: "say", Agent: "agent_a", Text: "Why?"})
			if status != "undecided" {
				require.ErrorContains(t, err, want)
				require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
				return
			}
			require.NoError(t, err)
			require.Contains(t, said, want)
			require.Equal(t, map[string]any{"resume": true, "agent": "agent_a", "text": "Why?"}, server.Find("s1").Input)
		})
	}
}

// asked is the state of a run that ends while it is queried.
type asked func()

func (a asked) MarshalJSON() ([]byte, error) {
	a()
	return []byte(`{"status":"failed"}`), nil
}

// A run that only has its last record to write is reopened once it has ended.
func TestSteer_retryOfAnEndingRun(t *testing.T) {
	t.Parallel()
	kind, server := reopens(nil), &stage.Server{}
	server.Updates = func(string, string, any) (any, error) {
		return nil, temporal.NewApplicationError("the session is over", "Refused")
	}
	server.Add(&stage.Execution{ID: "s1", Type: kind.Workflow, State: asked(func() { _ = server.CancelWorkflow(t.Context(), "s1", "") })})
	conn, _, _ := server.Connect(nil)
	said, err := Steer(t.Context(), conn, []*Kind{kind}, "s1", Request{Verb: "retry"})
	require.NoError(t, err)
	require.Contains(t, said, "continues with everything that was paid for")
	require.Equal(t, map[string]any{"resume": true, "agent": "", "text": ""}, server.Find("s1").Input)
}

// A run that was reopened meanwhile gets the update.
func TestReopen_isOpenAlready(t *testing.T) {
	t.Parallel()
	var sent []string
	kind := reopens(nil)
	server := &stage.Server{Updates: func(_, name string, _ any) (any, error) { sent = append(sent, name); return nil, nil }}
	server.Add(&stage.Execution{ID: "s1", Type: kind.Workflow})
	conn, _, stderr := server.Connect(nil)
	ended := Run{Kind: kind, ID: "s1", Workflow: "s1", Status: "failed", Closed: time.Now()}
	u, err := Request{Verb: "retry"}.asUpdate()
	require.NoError(t, err)
	require.NoError(t, reopenRun(t.Context(), conn, ended, u))
	require.Equal(t, []string{workflows.RetrySignal}, sent)
	require.Contains(t, stderr.String(), "session s1: retrying")
}

func TestReopen_fails(t *testing.T) {
	t.Parallel()
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	ended := Run{Kind: reopens(nil), ID: "s1", Workflow: "s1", Status: "failed", Closed: time.Now()}
	decided, refused := ended, ended
	decided.Kind, refused.Kind = session, reopens(cli.Exitf(cli.ExitUsage, "it has decided"))
	for name, tt := range map[string]struct {
		ctx  context.Context
		run  Run
		down error
		code int
		says string
	}{
		"no kind to reopen": {t.Context(), decided, nil, cli.ExitUsage, "it has ended already (failed); `conclave result s1 --address h:7233` prints the result"},
		"refused":           {t.Context(), refused, nil, cli.ExitUsage, "it has decided"},
		"no server":         {t.Context(), ended, errors.New("refused"), cli.ExitUsage, "reopen session s1: refused"},
		"interrupted":       {interrupted, ended, context.Canceled, cli.ExitInterrupted, "interrupted while reopening session s1; `conclave status s1 --address h:7233` says whether it runs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, _, _ := (&stage.Server{Down: tt.down}).Connect(nil)
			err := reopenRun(tt.ctx, conn, tt.run, Update{Name: "retry", Action: "retry failed steps of"})
			require.ErrorContains(t, err, tt.says)
			require.Equal(t, tt.code, cli.ExitCode(err))
		})
	}
}

func TestReopen_forPrograms(t *testing.T) {
	t.Parallel()
	conn, stdout, stderr := (&stage.Server{}).Connect(nil)
	conn.Automation = true
	require.NoError(t, reopenRun(t.Context(), conn, Run{Kind: reopens(nil), ID: "s1", Workflow: "s1"}, Update{}))
	require.JSONEq(t, `{"session_id":"s1","accepted":true}`, stdout.String())
	require.Empty(t, stderr.String())
}

func TestCannotReopen(t *testing.T) {
	t.Parallel()
	conn, _, stderr := (&stage.Server{}).Connect(nil)
	run := Run{Kind: session, ID: "s1", Workflow: "s1"}
	err := CannotReopen(conn, run, workflows.Request{}, temporal.NewNonRetryableApplicationError("it has decided", "Unresumable", nil))
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	require.EqualError(t, err, "retry session s1: it has decided; nothing was started, `conclave result s1 --address h:7233` prints what came out")
	require.EqualError(t, CannotReopen(conn, run, workflows.Request{}, errors.New("no bucket")), "retry session s1: no bucket; nothing was started")
	require.EqualError(t, CannotReopen(conn, run, workflows.Request{Text: "Why?"}, errors.New("no bucket")), "say session s1: no bucket; nothing was started")
	SuggestRetry(conn, run, "failed")
	require.Contains(t, stderr.String(), "once the cause is mended, `conclave retry s1 --address h:7233` continues")
	stderr.Reset()
	SuggestRetry(conn, run, workflows.Cancelled)
	require.Equal(t, "`conclave retry s1 --address h:7233` continues with everything that was paid for\n", stderr.String())
	stderr.Reset()
	conn.JSON = true
	SuggestRetry(conn, run, "failed")
	require.Empty(t, stderr.String())
}

// Every verb of a page has the message of its command.
func TestSteer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		request Request
		state   any
		sends   string
		says    string // of the message or the error
		fails   bool
	}{
		"pause":                    {Request{Verb: "pause"}, nil, "pause", "session s1: paused, nothing is lost; `conclave resume s1 --address h:7233` resumes it", false},
		"resume":                   {Request{Verb: "resume"}, nil, "resume", "resumed; `conclave watch s1", false},
		"finish with answers":      {Request{Verb: "finish"}, map[string]any{"agents": []any{map[string]any{"answers": 1}}}, "finish", "deciding with the answers so far", false},
		"finish without an answer": {Request{Verb: "finish"}, map[string]any{"agents": []any{map[string]any{"answers": 0}}}, "finish", "no agent has an answer yet, so it ends without one", false},
		"retry":                    {Request{Verb: "retry", Agent: "agent_a"}, nil, "retry", "retrying", false},
		"say to all":               {Request{Verb: "say", Text: "Hurry."}, nil, "say", "sent; agents read it at the next safe point", false},
		"say to one":               {Request{Verb: "say", Text: "Hurry.", Agent: "agent_b"}, nil, "say", "sent; agent_b reads it", false},
		"say nothing":              {Request{Verb: "say", Text: " \n"}, nil, "", "the message is empty; write one", true},
		"say too much":             {Request{Verb: "say", Text: string(make([]byte, 1<<20))}, nil, "", "shorten it, or send several messages", true},
		"another verb":             {Request{Verb: "dance"}, nil, "", `"dance" is not a request to a run; it is one of say, pause, resume, finish, retry`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent string
			server := &stage.Server{Updates: func(_, name string, _ any) (any, error) { sent = name; return tt.state, nil }}
			server.Add(&stage.Execution{ID: "s1", Type: session.Workflow, State: tt.state})
			conn, _, _ := server.Connect(nil)
			conn.JSON = true
			said, err := Steer(t.Context(), conn, []*Kind{session}, "s1", tt.request)
			require.Equal(t, tt.fails, err != nil)
			if err != nil {
				said = err.Error()
			}
			require.Contains(t, said, tt.says)
			require.Equal(t, tt.sends, sent)
		})
	}
}

// A kind without a team refuses what needs one.
func TestSteer_withoutATeam(t *testing.T) {
	t.Parallel()
	kind, server := reopens(nil), &stage.Server{}
	kind.Alone = "it runs one step at a time"
	server.Add(&stage.Execution{ID: "s1", Type: kind.Workflow})
	conn, _, _ := server.Connect(nil)
	for want, r := range map[string]Request{
		"say something to session s1: it runs one step at a time; leave out --agent":                                     {Verb: "say", Text: "Hurry.", Agent: "agent_a"},
		"retry failed steps of session s1: it runs one step at a time; leave out --agent":                                {Verb: "retry", Agent: "agent_a"},
		"finish session s1: there is no vote that could be decided early; `conclave cancel s1 --address h:7233` ends it": {Verb: "finish"},
	} {
		_, err := Steer(t.Context(), conn, []*Kind{kind}, "s1", r)
		require.ErrorContains(t, err, want)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	}
}

// A run is found by its workflow ID, else by its own.
func TestFind(t *testing.T) {
	t.Parallel()
	other := *session
	other.Kind = &record.Kind{Workflow: "Other", Noun: "other run"}
	server := &stage.Server{}
	server.Add(&stage.Execution{ID: "s1", Type: session.Workflow, Memo: map[string]any{session.MemoID: "s1"}})
	server.Add(&stage.Execution{ID: "workflow-7", Type: session.Workflow, Memo: map[string]any{session.MemoID: "my-session"}})
	server.Add(&stage.Execution{ID: "foreign", Type: "Order"})
	conn, _, stderr := server.Connect(nil)
	kinds := []*Kind{session, &other}

	run, err := findRun(t.Context(), conn, kinds, "s1")
	require.NoError(t, err)
	require.Equal(t, "s1", run.Workflow)
	require.Empty(t, stderr.String())
	run, err = findRun(t.Context(), conn, kinds, "my-session")
	require.NoError(t, err)
	require.Equal(t, "workflow-7", run.Workflow)
	require.Contains(t, stderr.String(), "session my-session is the workflow workflow-7")

	_, err = findRun(t.Context(), conn, kinds, "foreign")
	require.EqualError(t, err, "foreign is a workflow of type Order; this command takes the ID of a session or other run")
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	_, err = findRun(t.Context(), conn, kinds, "nobody")
	require.ErrorContains(t, err, "there is no session nobody at h:7233 in the namespace default")

	other.MemoSlug = "slug"
	for _, slug := range []string{"buy", "sell"} {
		server.Add(&stage.Execution{ID: "scenario-" + slug + "-r1", Type: other.Workflow, Memo: map[string]any{other.MemoID: "r1", other.MemoSlug: slug}})
	}
	server.Add(&stage.Execution{ID: "workflow-8", Type: other.Workflow, Memo: map[string]any{other.MemoID: "r2", other.MemoSlug: "buy"}})
	for id, workflow := range map[string]string{"buy/r1": "scenario-buy-r1", "scenario-sell-r1": "scenario-sell-r1", "r2": "workflow-8", "buy/r2": "workflow-8"} {
		run, err = findRun(t.Context(), conn, kinds, id)
		require.NoError(t, err, id)
		require.Equal(t, workflow, run.Workflow)
	}
	_, err = findRun(t.Context(), conn, kinds, "r1")
	require.EqualError(t, err, "several scenarios have a run r1; name one of buy/r1, sell/r1")
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))

	server.Down = errors.New("connection reset")
	_, err = findRun(t.Context(), conn, kinds, "s1")
	require.EqualError(t, err, "look up session s1: connection reset")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = findRun(ctx, conn, kinds, "s1")
	require.Equal(t, context.Canceled, err)
}

func TestList_find(t *testing.T) {
	t.Parallel()
	server, now := &stage.Server{}, time.Now()
	for _, e := range []struct {
		id, status string
		age        time.Duration
	}{{"s1", "consensus", time.Hour}, {"s2", "failed", 30 * cli.Day}, {"s3", "consensus", 300 * cli.Day}, {"s4", "paused", 2 * time.Hour}} {
		x := &stage.Execution{ID: e.id, Type: session.Workflow, Started: now.Add(-e.age), Memo: map[string]any{workflows.MemoStatus: e.status}}
		if e.status != workflows.Paused {
			x.Status = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		}
		server.Add(x)
	}
	conn, _, _ := server.Connect(nil)
	for name, tt := range map[string]struct {
		list List
		want []string
		more bool
	}{
		"all, newest first": {List{}, []string{"s1", "s4", "s2", "s3"}, false},
		"the newest":        {List{limit: 1}, []string{"s1"}, true},
		"a limit over all":  {List{limit: 10}, []string{"s1", "s4", "s2", "s3"}, false},
		"beyond a week":     {List{limit: 2}, []string{"s1", "s4"}, true},
		"by age":            {List{since: cli.Age(2 * cli.Day)}, []string{"s1", "s4"}, false},
		"by status":         {List{statuses: []string{"consensus"}}, []string{"s1", "s3"}, false},
		"by waiting":        {List{statuses: []string{workflows.Paused}}, []string{"s4"}, false},
		"by a running one":  {List{statuses: []string{workflows.Running}}, []string{"s4"}, false},
		"nothing":           {List{statuses: []string{"timeout"}}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := tt.list
			l.Kind = session
			found, more, err := l.findNewest(t.Context(), conn)
			require.NoError(t, err)
			var ids []string
			for _, r := range found {
				ids = append(ids, r.Workflow)
			}
			require.Equal(t, tt.want, ids)
			require.Equal(t, tt.more, more)
			require.Equal(t, len(tt.list.statuses) > 0 || tt.list.since > 0, l.givenFilters() != "")
		})
	}
	down, _, _ := (&stage.Server{Down: errors.New("reset")}).Connect(nil)
	_, err := All(t.Context(), down, session)
	require.EqualError(t, err, "list the sessions at h:7233 in the namespace default: reset")
}

// The usage of a run comes from its result, else from its last record in the store.
func TestAll_usage(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	kind := *session
	put := func(id string, calls int64) {
		status := map[string]any{"cost": llm.Usage{ModelCalls: calls}}
		require.NoError(t, artifact.CreateJSON(t.Context(), store, artifact.InBucket(id).File("status.json"), status))
	}
	put("open", 3)
	put("terminated", 5)
	server := &stage.Server{}
	done := enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	server.Add(&stage.Execution{ID: "open", Type: kind.Workflow})
	server.Add(&stage.Execution{ID: "decided", Type: kind.Workflow, Status: done, Result: map[string]any{"cost": llm.Usage{ModelCalls: 7}}})
	server.Add(&stage.Execution{ID: "pipeline", Type: kind.Workflow, Status: done, Result: map[string]any{"usage": llm.Usage{ModelCalls: 8}}})
	server.Add(&stage.Execution{
		ID: "cancelled", Type: kind.Workflow, Status: enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
		Err: stage.Failed(t, workflows.CanceledError(llm.Usage{}, map[string]any{"cost": llm.Usage{ModelCalls: 9}})),
	})
	server.Add(&stage.Execution{ID: "terminated", Type: kind.Workflow, Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, Err: errors.New("terminated")})
	server.Add(&stage.Execution{ID: "unknown", Type: kind.Workflow, Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, Err: errors.New("terminated")})
	conn, _, _ := server.Connect(store)
	all, err := All(t.Context(), conn, &kind)
	require.NoError(t, err)
	got := map[string]int64{}
	for _, l := range all {
		if got[l.Workflow] = -1; l.Usage != nil {
			got[l.Workflow] = l.Usage.ModelCalls
		}
	}
	require.Equal(t, map[string]int64{"open": 3, "decided": 7, "pipeline": 8, "cancelled": 9, "terminated": 5, "unknown": -1}, got)
}

// EndError tells who ended a run from outside; a run that ended by itself has no such reason.
func TestEndError(t *testing.T) {
	t.Parallel()
	server := &stage.Server{}
	server.Add(&stage.Execution{ID: "t", Type: session.Workflow, Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, Last: stage.Terminated("kim", "wrong question")})
	server.Add(&stage.Execution{ID: "gone", Type: session.Workflow, Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED})
	server.Add(&stage.Execution{ID: "done", Type: session.Workflow, Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, Last: stage.Terminated("kim", "")})
	server.Add(&stage.Execution{ID: "open", Type: session.Workflow})
	conn, _, _ := server.Connect(nil)
	end := func(id string) *artifact.Error {
		return EndError(t.Context(), conn, Refreshed(t.Context(), conn, Run{Kind: session, Workflow: id}))
	}
	require.Equal(t, "terminated by kim: wrong question", end("t").Message)
	for _, id := range []string{"gone", "done", "open", "nobody"} {
		require.Nil(t, end(id), id)
	}
}
