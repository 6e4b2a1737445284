package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/workflows"
)

// deserted is a cluster whose only worker stopped polling some time ago.
type deserted struct {
	client.Client
	since time.Duration // 0 if there was never a worker
	query error         // the error of every query; if nil, queries block until the context ends
	queue string        // the last queue described
}

func (d *deserted) QueryWorkflow(ctx context.Context, _, _, _ string, _ ...any) (converter.EncodedValue, error) {
	if d.query == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, d.query
}

func (d *deserted) UpdateWorkflow(ctx context.Context, _ client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (d *deserted) CancelWorkflow(context.Context, string, string) error { return nil }

func (d *deserted) DescribeTaskQueue(_ context.Context, queue string, _ enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	d.queue = queue
	reply := &workflowservice.DescribeTaskQueueResponse{}
	if d.since > 0 {
		reply.Pollers = []*taskqueuepb.PollerInfo{
			{Identity: "0@old", LastAccessTime: timestamppb.New(time.Now().Add(-d.since - time.Minute))},
			{Identity: "7@vm", LastAccessTime: timestamppb.New(time.Now().Add(-d.since))},
		}
	}
	return reply, nil
}

func (d *deserted) connect(c *cli.CLI) *cli.Connection {
	c.Address, c.Queue = "h:7233", workflows.TaskQueue
	target := cli.Target{Cluster: true}
	target.Options.HostPort, target.Options.Namespace = "h:7233", "default"
	return &cli.Connection{CLI: c, Target: target, Client: d}
}

const (
	nobodyPolls = "no worker polls the task queue team-q at h:7233 in the namespace default: " +
		"start one with `conclave worker --bucket BUCKET --address h:7233 --task-queue team-q`"
	nobodyAnswers = "no worker answers on the task queue team-q at h:7233 in the namespace default; the last one to poll it was 7@vm, "
)

func openRun() Run {
	return Run{Kind: session, ID: "s1", Workflow: "s1", Query: "Which one?", Status: workflows.Running, Started: time.Now(), taskQueue: "team-q"}
}

// An update reports within five seconds that no worker polls, and gives up. If a worker
// may only be busy, it keeps waiting.
func TestUpdate_withoutWorker(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		since time.Duration
		takes time.Duration
		says  string
	}{
		"none ever":     {0, 5 * time.Second, "conclave: pause session s1: " + nobodyPolls + "; `conclave status s1 --address h:7233` shows whether"},
		"none for long": {4 * time.Minute, 5 * time.Second, "conclave: pause session s1: " + nobodyPolls},
		"one until now": {40 * time.Second, updateTimeout + time.Second, nobodyAnswers + "40s ago: wait if it is busy, else start one with"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var errs bytes.Buffer
				c := cli.CLI{Stderr: &errs}
				conn := (&deserted{since: tt.since}).connect(&c)
				began := time.Now()
				code := stage.Report(&c, applyUpdate(t.Context(), conn, openRun(), pauseIt))
				require.Equal(t, cli.ExitUsage, code)
				require.LessOrEqual(t, time.Since(began), tt.takes)
				require.Contains(t, errs.String(), tt.says)
			})
		})
	}
}

// On a local stack, the worker of the command polls only its own task queue.
func TestUpdate_foreignQueue(t *testing.T) {
	t.Parallel()
	for queue, says := range map[string]string{
		"team-q":            "no worker polls the task queue team-q in /data: start one with `conclave worker --data-dir /data --task-queue team-q`; `conclave status s1 --data-dir /data` shows whether",
		workflows.TaskQueue: "no worker answered within 16s",
	} {
		t.Run(queue, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var errs bytes.Buffer
				c := cli.CLI{Stderr: &errs}
				conn := (&deserted{}).connect(&c)
				c.Address, c.DataDir, conn.Target = "", "/data", cli.Target{DataDir: "/data"}
				run := openRun()
				run.taskQueue = queue
				began := time.Now()
				require.Equal(t, cli.ExitUsage, stage.Report(&c, applyUpdate(t.Context(), conn, run, pauseIt)))
				require.Contains(t, errs.String(), says)
				require.Equal(t, queue == "team-q", time.Since(began) <= 5*time.Second)
				_, err := QueryState(t.Context(), conn, run, new(any))
				require.ErrorContains(t, err, "task queue "+queue)
			})
		})
	}
}

// endless has runs that never end.
type endless struct{ Actions }

func (endless) AwaitEnd(ctx context.Context, _ *cli.Connection, _ Run) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Cancel reports it and keeps waiting, because the request has been recorded.
func TestCancel_withoutWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		c := cli.CLI{Stderr: &errs}
		conn := (&deserted{query: serviceerror.NewFailedPrecondition("no poller seen for task queue recently, worker may be down")}).connect(&c)
		run := openRun()
		kind := *session
		kind.Actions = endless{}
		run.Kind = &kind
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		require.Equal(t, cli.ExitInterrupted, cli.ExitCode(cancelRun(ctx, conn, run)))
		require.Equal(t, "session s1 was asked to end, and will end as soon as a worker answers: "+nobodyPolls+"\n", errs.String())
	})
}

// Watch reports each silence once.
func TestFollow_withoutWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		server := &deserted{}
		conn := server.connect(&cli.CLI{Stderr: &bytes.Buffer{}})
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		run := openRun()
		run.Closed = run.Started // it is not described
		snapshot := func(ctx context.Context, f *Follower) (cli.Snapshot, error) {
			return cli.Snapshot{}, f.Query(ctx, workflows.StateQuery, nil)
		}
		_, err := Follow(ctx, conn, run, cli.NewLines(&out), snapshot, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, nobodyPolls+"\n", out.String())
	})
}

// Status prints the memo of a run if no worker answers.
func TestStatus_withoutWorker(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*deserted{
		"it waits":  {},
		"refused":   {query: serviceerror.NewFailedPrecondition("no poller seen for task queue recently, worker may be down")},
		"too early": {query: serviceerror.NewWorkflowNotReady("before the first task")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var out, errs bytes.Buffer
				c := cli.CLI{Stdout: &out, Stderr: &errs}
				conn := server.connect(&c)
				run := openRun()
				run.waiting, run.Continues = workflows.Parked, "s0"
				run.Memo = memoOf(t, map[string]any{workflows.MemoRound: 2, workflows.MemoParked: "retry or cancel: agent_a failed", workflows.MemoPaused: false})
				began := time.Now()
				var into any
				_, err := QueryState(t.Context(), conn, run, &into)
				var silent *silenceError
				require.ErrorAs(t, err, &silent)
				require.LessOrEqual(t, time.Since(began), 5*time.Second)
				require.Equal(t, nobodyPolls, silent.why)

				require.NoError(t, printMemo(t.Context(), conn, run, silent.why))
				require.Contains(t, out.String(), "s1 · parked · round 2 · 0:0")
				require.Contains(t, out.String(), "\n  Which one?\n  continues s0\n  parked: agent_a failed\n    `conclave retry s1 --address h:7233` runs the failed steps again")
				require.Contains(t, out.String(), "\n  the rest is unknown: "+nobodyPolls+"\n  follow it: conclave watch s1")

				out.Reset()
				c.JSON = true
				require.NoError(t, printMemo(t.Context(), conn, run, silent.why))
				var known map[string]any
				require.NoError(t, json.Unmarshal(out.Bytes(), &known))
				require.Equal(t, map[string]any{
					"session_id": "s1", "query": "Which one?", "status": "parked", "round": 2.0, "paused": false, "parked": "retry or cancel: agent_a failed",
					"continues": "s0",
				}, known, "keys of the state only")
				require.Contains(t, errs.String(), nobodyPolls)
			})
		})
	}
}

// A worker's refusal of a query is an answer.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	require.False(t, lacksWorker(t.Context(), nil))
	require.False(t, lacksWorker(t.Context(), serviceerror.NewQueryFailed("unknown queryType state")))
	require.False(t, lacksWorker(t.Context(), errors.ErrUnsupported))
	require.True(t, lacksWorker(t.Context(), serviceerror.NewDeadlineExceeded("late")))
}
