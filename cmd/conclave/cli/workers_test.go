package cli_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
	"conclave/workflows"
)

// queues is a Temporal server that knows when task queues were polled.
type queues struct {
	client.Client
	polls map[string][]time.Duration // ages, by the queue's name
	err   error
	kinds map[string]enumspb.TaskQueueType
}

func (q *queues) DescribeTaskQueue(_ context.Context, name string, kind enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	if q.kinds == nil {
		q.kinds = map[string]enumspb.TaskQueueType{}
	}
	q.kinds[name] = kind
	reply := &workflowservice.DescribeTaskQueueResponse{}
	for _, age := range q.polls[name] {
		reply.Pollers = append(reply.Pollers, &taskqueuepb.PollerInfo{
			Identity: "7@" + age.String(), LastAccessTime: timestamppb.New(time.Now().Add(-age)),
		})
	}
	return reply, q.err
}

func connect(q *queues, cluster bool) (*cli.Connection, *bytes.Buffer) {
	stderr := &bytes.Buffer{}
	conn := &cli.Connection{CLI: &cli.CLI{Stdout: &bytes.Buffer{}, Stderr: stderr, Address: "t:7233", Queue: workflows.TaskQueue}, Client: q}
	conn.Cluster, conn.Options.HostPort, conn.Options.Namespace = cluster, "t:7233", "default"
	conn.Target.DataDir = "/data"
	return conn, stderr
}

// A command warns if no worker runs steps, and names the command that starts one.
func TestWarnIdle(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ages    []time.Duration
		err     error
		cluster bool
		own     string // the queue of the command, if it is another one
		says    string // empty without a warning
	}{
		"a worker":                  {ages: []time.Duration{time.Second}},
		"a worker among those gone": {ages: []time.Duration{time.Hour, time.Minute, 4 * time.Minute}},
		"an unreachable server":     {err: errors.New("away")},
		"none, locally":             {says: "no worker runs steps in /data: the session continues during run, watch, dev or worker"},
		"none on a cluster":         {cluster: true, own: "mine", says: "no worker polls the task queue q at t:7233 in the namespace default: start one with `conclave worker --bucket BUCKET --address t:7233 --task-queue q`, or check --task-queue"},
		"none, for another queue":   {own: "mine", says: "no worker polls the task queue q in /data: start one with `conclave worker --address t:7233 --task-queue q`"},
		"one that stopped long ago": {ages: []time.Duration{3 * time.Minute}, cluster: true, says: "no worker polls the task queue q"},
		"all stopped, in any order": {ages: []time.Duration{9 * time.Minute, 3 * time.Minute, time.Hour}, says: "no worker runs steps"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &queues{polls: map[string][]time.Duration{"q-steps": tc.ages}, err: tc.err}
			conn, stderr := connect(q, tc.cluster)
			if conn.Queue = "q"; tc.own != "" {
				conn.Queue = tc.own
			}
			require.Equal(t, tc.says != "", conn.WarnIdle(t.Context(), "q"))
			require.Contains(t, stderr.String(), tc.says)
			require.Equal(t, tc.says == "", stderr.Len() == 0, stderr.String())
			require.Equal(t, enumspb.TASK_QUEUE_TYPE_ACTIVITY, q.kinds["q-steps"], "steps have a queue of their own")
		})
	}
}

// A command that gets no answer reports whether waiting helps.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ages   []time.Duration
		err    error
		polled bool
		says   string
	}{
		"a busy worker":         {ages: []time.Duration{time.Hour, 90 * time.Second}, polled: true, says: "the last one to poll it was 7@1m30s, 1m30s ago: wait if it is busy, else start one with"},
		"no worker":             {says: "no worker polls the task queue q at t:7233"},
		"a worker of yesterday": {ages: []time.Duration{24 * time.Hour}, says: "no worker polls the task queue q"},
		"an unreachable server": {err: errors.New("away"), polled: true},
	} {
		q := &queues{polls: map[string][]time.Duration{"q": tc.ages}, err: tc.err}
		conn, _ := connect(q, true)
		conn.Bucket = "files"
		why, polled := conn.Silence(t.Context(), "q")
		require.Equal(t, tc.polled, polled, name)
		require.Contains(t, why, tc.says, name)
		require.Equal(t, tc.says == "", why == "", name)
		require.NotContains(t, why, "--bucket BUCKET", "the bucket is known")
		require.Equal(t, enumspb.TASK_QUEUE_TYPE_WORKFLOW, q.kinds["q"])
	}
}

// Malformed addresses, and flags that do not fit the target, are refused before any connection.
func TestTarget_refuses(t *testing.T) {
	stage.NewShell(t, nil)
	for says, cli := range map[string]cli.CLI{
		`the Temporal address "http://h:7233" has a scheme; give it as HOST:PORT`: {Address: "http://h:7233"},
		`the Temporal address "h" has no port`:                                    {Address: "h"},
		`the Temporal address "h:" has no port`:                                   {Address: "h:"},
		`"h:0" has a port that is not a number from 1 to 65535`:                   {Address: "h:0"},
		`"h:65536" has a port that is not a number`:                               {Address: "h:65536"},
		`"h:grpc" has a port that is not a number`:                                {Address: "h:grpc"},
		"--bucket and --prefix belong to a cluster":                               {Bucket: "b"},
		"add --address, or leave them out":                                        {Prefix: "p"},
		`the local stack has only the namespace "default", not "prod"`:            {Namespace: "prod"},
	} {
		_, err := cli.Target()
		require.ErrorContains(t, err, says)
		require.Less(t, len(err.Error()), 400)
	}
	long := cli.CLI{Address: strings.Repeat("h", 9000)}
	_, err := long.Target()
	require.Less(t, len(err.Error()), 1000, "an address is not repeated at any length")
	for _, address := range []string{"h:1", "h:65535", "[::1]:7233", "10.0.0.1:7233"} {
		target, err := (&cli.CLI{Address: address}).Target()
		require.NoError(t, err, address)
		require.Equal(t, "at "+address+" in the namespace default", target.String())
	}
}

// The store of a cluster needs a name; the local one is in the data directory.
func TestConnectStore_refuses(t *testing.T) {
	t.Parallel()
	_, err := (&cli.CLI{Address: "h:7233"}).ConnectStore(t.Context())
	require.ErrorContains(t, err, "name it with --bucket (and --prefix)")
	_, err = (&cli.CLI{Address: "h"}).ConnectStore(t.Context())
	require.ErrorContains(t, err, "has no port")
}

// The error for an unknown ID names the place that was searched and the commands that list IDs.
func TestNoRun(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	conn, _ := connect(&queues{}, true)
	conn.Store = store
	require.EqualError(t, conn.NoRun(t.Context(), "s9"), "there is no session s9 at t:7233 in the namespace default, and no run of a pipeline or a scenario; "+
		"`conclave list --address t:7233` and `conclave pipeline list --address t:7233` list them")
	conn.Client = nil
	err = conn.NoRun(t.Context(), "s9")
	require.ErrorContains(t, err, "there is no session s9 in "+strings.TrimSuffix(store.URL("sessions"), "/sessions")+",")
	require.ErrorContains(t, err, "they have files once they are prepared")
	exit, ok := errors.AsType[*cli.ExitError](err)
	require.True(t, ok)
	require.Equal(t, cli.ExitUsage, exit.Code)
	local, _ := connect(&queues{}, false)
	require.ErrorContains(t, local.NoRun(t.Context(), "s9"), "there is no session s9 in /data")
	require.NoError(t, artifact.CreateJSON(t.Context(), store, artifact.EvaluationKey("s9", "data"), "hash"))
	require.EqualError(t, conn.NoRun(t.Context(), "s9"), "s9 is an evaluation, which is no run of its own: "+
		"its questions are the sessions eval-s9-…, and `conclave eval report s9 --address t:7233` prints their outcomes")
}

// A local stack has ended once no process serves its data directory; a cluster is never taken for
// ended.
func TestStackEnded(t *testing.T) {
	t.Parallel()
	conn, _ := connect(&queues{}, false)
	conn.Target.DataDir = filepath.Join(t.TempDir(), "none")
	require.True(t, conn.StackEnded())
	_, err := os.Stat(conn.Target.DataDir)
	require.ErrorIs(t, err, os.ErrNotExist, "looking starts nothing")
	conn.Cluster = true
	require.False(t, conn.StackEnded())
	require.NoError(t, conn.CheckBucket(t.Context()))
	conn.Stack.UIAddress, conn.Stack.Namespace = "http://127.0.0.1:8233", "default"
	require.Equal(t, "http://127.0.0.1:8233/namespaces/default/workflows/s1", conn.URL("s1"))
}
