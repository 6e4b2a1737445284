package hall

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"

	"conclave/workflows/drive"
)

// freshPoll is the maximum age of a poll that shows a running worker. A poll takes up
// to a minute, and the clocks of two machines differ. The server remembers polls for
// five minutes.
const freshPoll = 2 * time.Minute

// lastPoll returns the newest poll of a task queue, or nil if the server knows of none.
func (conn *Connection) lastPoll(ctx context.Context, queue string, kind enumspb.TaskQueueType) (*taskqueuepb.PollerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, ReachTimeout)
	defer cancel()
	reply, err := conn.Client.DescribeTaskQueue(ctx, queue, kind)
	if err != nil {
		return nil, err
	}
	var last *taskqueuepb.PollerInfo
	for _, p := range reply.GetPollers() {
		if last == nil || p.GetLastAccessTime().AsTime().After(last.GetLastAccessTime().AsTime()) {
			last = p
		}
	}
	return last, nil
}

// isFresh reports whether a poll is recent enough to show a running worker.
func isFresh(poll *taskqueuepb.PollerInfo) bool {
	return poll != nil && time.Since(poll.GetLastAccessTime().AsTime()) < freshPoll
}

// Polls reports whether this process has a worker that polls a task queue. A command on a
// local stack has one for its own queue.
func (conn *Connection) Polls(queue string) bool { return !conn.Cluster && queue == conn.Queue }

// WarnIdle warns if no worker polls a task queue, and reports whether it warned.
func (conn *Connection) WarnIdle(ctx context.Context, queue string) bool {
	last, err := conn.lastPoll(ctx, queue+drive.StepsSuffix, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil || isFresh(last) {
		return false
	}
	switch {
	case conn.Cluster:
		conn.Infof("%s, or check --task-queue", conn.noWorkerPolls(queue))
	case !conn.Polls(queue):
		conn.Infof("%s", conn.noWorkerPolls(queue))
	default:
		conn.Infof("no worker runs steps %s: the session continues during run, watch, dev or worker", conn.Target)
	}
	return true
}

// Silence explains why no worker of another process responds on a task queue, and how to start
// one. The text is empty if the server does not respond either. polled is false if no worker
// polls the queue, so waiting is pointless.
func (conn *Connection) Silence(ctx context.Context, queue string) (why string, polled bool) {
	switch last, err := conn.lastPoll(ctx, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW); {
	case err != nil:
		return "", true
	case isFresh(last):
		return fmt.Sprintf("no worker answers on the task queue %s %s; the last one to poll it was %s, %s ago: wait if it is busy, else %s",
			queue, conn.Target, last.GetIdentity(), time.Since(last.GetLastAccessTime().AsTime()).Truncate(time.Second), conn.startWorker(queue)), true
	}
	return conn.noWorkerPolls(queue), false
}

func (conn *Connection) noWorkerPolls(queue string) string {
	return fmt.Sprintf("no worker polls the task queue %s %s: %s", queue, conn.Target, conn.startWorker(queue))
}

// startWorker returns the advice to start a worker for a task queue. On a cluster the worker needs
// a bucket.
func (conn *Connection) startWorker(queue string) string {
	c := *conn.CLI
	c.Queue = queue
	command := "worker"
	if c.Bucket == "" && conn.Cluster {
		command += " --bucket BUCKET"
	}
	return "start one with `" + c.CommandLine(command) + "`"
}
