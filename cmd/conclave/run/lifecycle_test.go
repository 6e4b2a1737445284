package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/local"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
)

// noted is the kind of sessions with pages and a note on the built-in model.
func noted() *Kind {
	kind := *session
	kind.OfflineNote = "offline: nothing is asked"
	return &kind
}

func order() Order {
	return Order{Kind: noted(), ID: "s1", Query: "Which one?", Source: "team of two", Input: map[string]any{"query": "Which one?"}, IDFlag: "--session-id"}
}

func TestStart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change   func(o *Order, conn *cli.Connection)
		says     []string
		isSilent bool
	}{
		"on a cluster": {func(*Order, *cli.Connection) {}, []string{"session s1 at h:7233 in the namespace default\n", "team of two\n"}, false},
		"offline":      {func(o *Order, _ *cli.Connection) { o.Offline = true }, []string{"offline: nothing is asked"}, false},
		"recorded answers": {func(o *Order, _ *cli.Connection) {
			o.Offline, o.Memo = true, map[string]any{workflows.MemoRecorded: true}
			note, models := o.Run().ExplainOffline()
			require.Equal(t, []string{teams.RecordedNote, "recorded answers"}, []string{note, models}, "also after its start")
		}, []string{teams.RecordedNote + "\n"}, false},
		"with pages":    {func(_ *Order, c *cli.Connection) { c.Pages = "http://127.0.0.1:1" }, []string{"its page: http://127.0.0.1:1/sessions/s1"}, false},
		"for a program": {func(_ *Order, c *cli.Connection) { c.JSON = true }, nil, true},
		"on a local stack": {func(_ *Order, c *cli.Connection) {
			c.Target = cli.Target{DataDir: "/data"}
			c.Stack = local.Stack{UIAddress: "http://ui", Namespace: "default"}
		}, []string{"session s1 in /data", "in Temporal: http://ui/namespaces/default/workflows/s1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &stage.Server{}
			conn, stdout, stderr := server.Connect(nil)
			o := order()
			tt.change(&o, conn)
			require.NoError(t, Start(t.Context(), conn, o))
			for _, says := range tt.says {
				require.Contains(t, stderr.String(), says)
			}
			require.Equal(t, tt.isSilent, stderr.Len() == 0)
			require.Empty(t, stdout.String())
			e := server.Find("s1")
			require.Equal(t, o.Input, e.Input)
			require.Equal(t, workflows.Running, e.Memo[workflows.MemoStatus])
			require.Equal(t, "Which one?", e.Memo[workflows.MemoQuery])
			require.Equal(t, "s1", e.Memo[o.Kind.MemoID])
			require.Equal(t, o.Offline, e.Memo[workflows.MemoOffline] == true)
		})
	}
}

func TestStart_continues(t *testing.T) {
	t.Parallel()
	server := &stage.Server{}
	conn, _, _ := server.Connect(nil)
	o := order()
	o.Continues, o.Query = "s0", strings.Repeat("ä", 1000)
	require.NoError(t, Start(t.Context(), conn, o))
	require.Equal(t, "s0", server.Find("s1").Memo[workflows.MemoContinues])
	require.LessOrEqual(t, len([]rune(server.Find("s1").Memo[workflows.MemoQuery].(string))), maxMemoQuery+1)
}

// An ID can be used once. The error names the flag and the command that follows the existing run.
func TestStart_fails(t *testing.T) {
	t.Parallel()
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	taken := &stage.Server{}
	taken.Add(&stage.Execution{ID: "s1", Type: session.Workflow, Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED})
	for name, tt := range map[string]struct {
		ctx    context.Context
		server *stage.Server
		code   int
		says   string
	}{
		"the ID is taken": {t.Context(), taken, cli.ExitUsage, "start session s1: the ID is in use at h:7233 in the namespace default; choose another --session-id, or follow it with `conclave watch s1 --address h:7233`"},
		"no server":       {t.Context(), &stage.Server{Down: errors.New("connection refused")}, cli.ExitUsage, "start session s1 at h:7233 in the namespace default: connection refused"},
		"interrupted":     {interrupted, &stage.Server{Down: context.Canceled}, cli.ExitInterrupted, "interrupted while starting session s1; `conclave status s1 --address h:7233` says whether it runs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, _, _ := tt.server.Connect(nil)
			err := Start(tt.ctx, conn, order())
			require.ErrorContains(t, err, tt.says)
			require.Equal(t, tt.code, cli.ExitCode(err))
		})
	}
}

// result is a small result.
type result struct {
	Answer string `json:"answer"`
	Status string `json:"status"`
	Why    string `json:"why"`

	Took time.Duration `json:"-"`
}

func await(ctx context.Context, conn *cli.Connection) (result, error) {
	return Await(ctx, conn, Run{Kind: session, ID: "s1", Workflow: "s1"}, func(run Run, status string, err *artifact.Error) result {
		r := result{Status: status, Took: run.Elapsed()}
		if err != nil {
			r.Why = err.Type + ": " + err.Message
		}
		return r
	})
}

// A run that Temporal ended has a result as well, with the reason.
func TestAwait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		execution stage.Execution
		want      result
	}{
		"a result": {
			stage.Execution{Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, Result: result{Answer: "42", Status: "consensus"}},
			result{Answer: "42", Status: "consensus"},
		},
		"refused": {
			stage.Execution{Status: enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, Err: stage.Failed(t, temporal.NewNonRetryableApplicationError("no query", workflows.InvalidInput, nil))},
			result{Status: "failed", Why: "InvalidInput: no query", Took: time.Minute},
		},
		"cancelled with its result": {
			stage.Execution{Status: enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, Err: stage.Failed(t, workflows.CanceledError(llm.Usage{}, result{Answer: "so far", Status: "cancelled"}))},
			result{Answer: "so far", Status: "cancelled"},
		},
		"cancelled before it was prepared": {
			stage.Execution{Status: enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, Err: stage.Failed(t, temporal.NewCanceledError())},
			result{Status: "cancelled", Took: time.Minute},
		},
		"timed out": {
			stage.Execution{Status: enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT, Err: stage.Failed(t, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil))},
			result{Status: "failed", Why: "WorkflowTimeout: the timeout with which the workflow was started ran out", Took: time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &stage.Server{}
			e := tt.execution
			e.ID, e.Type, e.Started = "s1", session.Workflow, time.Unix(1e9, 0) // the server ends it a minute later
			server.Add(&e)
			conn, _, _ := server.Connect(nil)
			r, err := await(t.Context(), conn)
			require.NoError(t, err)
			require.Equal(t, tt.want, r)
		})
	}
}

func TestAwait_fails(t *testing.T) {
	t.Parallel()
	server := &stage.Server{Down: errors.New("connection reset")}
	conn, _, _ := server.Connect(nil)
	_, err := await(t.Context(), conn)
	require.EqualError(t, err, "wait for session s1: connection reset")

	open := &stage.Server{}
	open.Add(&stage.Execution{ID: "s1"})
	conn, _, _ = open.Connect(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = await(ctx, conn)
	require.Equal(t, context.Canceled, err)
}

// A command that stops waiting says how the run continues; a program gets the running result.
func TestLeaveOpen(t *testing.T) {
	t.Parallel()
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	run := Run{Kind: session, ID: "s1", Workflow: "s1"}
	for name, tt := range map[string]struct {
		ctx     context.Context
		waitErr error
		cluster bool
		code    int
		says    string
	}{
		"parked":              {t.Context(), ErrParked, true, cli.ExitNoAnswer, "session s1 is parked and stays open: mend the cause, then `conclave retry s1 --address h:7233`; it goes on while a worker runs"},
		"interrupted":         {interrupted, context.Canceled, true, cli.ExitInterrupted, "interrupted: nothing of session s1 is lost, it continues; follow it with `conclave watch s1 --address h:7233`"},
		"interrupted locally": {interrupted, context.Canceled, false, cli.ExitInterrupted, "it continues as soon as a worker of this data directory runs"},
		"connection lost":     {t.Context(), errors.New("reset"), true, cli.ExitInterrupted, "lost the connection to session s1: reset; nothing of it is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, stdout, _ := (&stage.Server{}).Connect(nil)
			conn.Cluster, conn.Automation = tt.cluster, true
			err := LeaveOpen(tt.ctx, conn, run, result{Status: "running"}, tt.waitErr)
			require.ErrorContains(t, err, tt.says)
			require.Equal(t, tt.code, cli.ExitCode(err))
			require.JSONEq(t, `{"answer":"","status":"running","why":""}`, stdout.String())
		})
	}
}

// The encrypted result of an ended session is no lost connection.
func TestLeaveOpen_encrypted(t *testing.T) {
	t.Parallel()
	conn, stdout, _ := (&stage.Server{}).Connect(nil)
	conn.Cluster, conn.Automation = true, true
	cause := fmt.Errorf("wait for session s1: encoding binary/encrypted: %w", converter.ErrEncodingIsNotSupported)
	err := LeaveOpen(t.Context(), conn, Run{Kind: session, ID: "s1", Workflow: "s1"}, result{Status: "running"}, cause)
	require.Equal(t, cause, err)
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	require.Empty(t, stdout.String(), "it is not running")
}

// A truncated text is read in full from the store; without it, a person is told where it is.
func TestPrintText(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	layout := artifact.InBucket("s1")
	require.NoError(t, artifact.CreateJSON(t.Context(), store, layout.File("final/agent_a/answer.json"), artifact.Answer{Answer: "The whole text.\n\n"}))
	path := "s3://bucket/" + layout.File("final/agent_a/answer.json")
	elsewhere := "s3://bucket/other/answer.json"
	for name, tt := range map[string]struct {
		store     artifact.Store
		truncated bool
		path      *string
		want      string
		says      string
	}{
		"a short text":          {store, false, &path, "The whole\n", ""},
		"a truncated one":       {store, true, &path, "The whole text.\n", ""},
		"without a path":        {store, true, nil, "The whole\n", ""},
		"without a bucket":      {nil, true, &path, "The whole\n", "only the first 9 bytes of the text are shown: reading more needs --bucket; the whole text is at " + path},
		"outside the directory": {store, true, &elsewhere, "The whole\n", "its path is not in the run's directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, stdout, stderr := (&stage.Server{}).Connect(tt.store)
			require.NoError(t, PrintText(t.Context(), conn, layout, Text{Content: "The whole", Truncated: tt.truncated, Path: tt.path}))
			require.Equal(t, tt.want, stdout.String())
			require.Contains(t, stderr.String(), tt.says)
		})
	}
}

// The command that copies a run names the bucket of its path.
func TestPullCommand(t *testing.T) {
	t.Parallel()
	for want, path := range map[string]*string{
		"conclave pull s1 DIR --bucket b":                   new("s3://b/sessions/s1/answer.json"),
		"conclave pull s1 DIR --bucket b --prefix team/one": new("s3://b/team/one/sessions/s1/answer.json"),
		"conclave pull s1 DIR --address h:7233":             nil,
	} {
		conn, _, _ := (&stage.Server{}).Connect(nil)
		require.Equal(t, want, PullCommand(conn, "s1", path, "/sessions/s1/"))
	}
	conn, _, _ := (&stage.Server{}).Connect(nil)
	conn.Cluster, conn.Address, conn.CLI.DataDir = false, "", "/data"
	require.Equal(t, "conclave pull s1 DIR --data-dir /data", PullCommand(conn, "s1", new("/data/store/sessions/s1"), "/sessions/s1/"))
}

func TestPrintStatus(t *testing.T) {
	t.Parallel()
	running := Run{Kind: session, ID: "s1", Workflow: "s1", Status: workflows.Running}
	ended := running
	ended.Closed, ended.Status = time.Now(), "failed"
	unprepared := ended
	ended.Memo = memoOf(t, map[string]any{workflows.MemoPaused: false})
	refused := ended
	refused.closed = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	decided := ended
	decided.Status = "consensus"
	final := ended
	final.Kind = reopens(errors.New("the run's own limit was reached"))
	undecided := decided
	sure := *session
	undecided.Kind, undecided.Status, sure.Undecided = &sure, "undecided", "undecided"
	for name, tt := range map[string]struct {
		run    Run
		result string
		want   string
	}{
		"undecided":     {undecided, "answer", "line\n  its answer: conclave result s1 --address h:7233\n  vote again: conclave say s1 TEXT --address h:7233, or conclave retry s1 --address h:7233\n"},
		"running":       {running, "", "line\n  follow it: conclave watch s1 --address h:7233\n"},
		"with a result": {decided, "answer", "line\n  its answer: conclave result s1 --address h:7233\n"},
		"failed":        {ended, "", "line\n  go on with it: conclave retry s1 --address h:7233\n"},
		"retry refuses": {final, "", "line\n"},
		"refused":       {refused, "", "line\n"},
		"not prepared":  {unprepared, "", "line\n"},
		"without one":   {decided, "", "line\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, stdout, _ := (&stage.Server{}).Connect(nil)
			require.NoError(t, PrintStatus(t.Context(), conn, tt.run, []string{"line"}, tt.result))
			require.Equal(t, tt.want, stdout.String())
		})
	}
}

func TestPrintState_offline(t *testing.T) {
	t.Parallel()
	conn, stdout, stderr := (&stage.Server{}).Connect(nil)
	conn.Automation = true
	require.NoError(t, PrintState(conn, Run{Kind: noted(), Offline: true}, result{Status: "running"}))
	require.Equal(t, "offline: nothing is asked\n", stderr.String())
	require.True(t, bytes.HasPrefix(stdout.Bytes(), []byte(`{"answer"`)))
}

func TestRefusedInput(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{
		workflows.InvalidInput: true, activities.ConfigInvalid: true, activities.SessionTaken: true, activities.Unresumable: true, "AuthFailed": false, "": false,
	} {
		require.Equal(t, want, RefusedInput(kind), kind)
	}
}
