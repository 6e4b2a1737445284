package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"conclave/activities"
	"conclave/engine/files/filelock"
)

const (
	// foreign is how long the file of a process of another server is kept for that server's workers.
	foreign = 24 * time.Hour

	// maxLine bounds the length of a line, in bytes. An ID has at most a thousand bytes.
	maxLine = 64 << 10

	// The retries of lost tasks are spread over pace for each task, at most maxSpread.
	pace      = 10 * time.Millisecond
	maxSpread = 10 * time.Second

	reporters = 8 // most concurrent requests
)

// ReapRosters calls lost for each dead process of a server in dir, and removes the files of these
// processes. If lost returns an error, the file is kept for the next call.
func ReapRosters(dir, server string, lost func(DeadWorker) error) error {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the tasks of lost workers: %w", err)
	}
	for _, f := range files {
		switch name := filepath.Join(dir, f.Name()); {
		case strings.HasSuffix(name, suffix):
			err = errors.Join(err, reapRoster(name, server, lost))
		case strings.HasSuffix(name, suffix+fresh):
			if info, statErr := f.Info(); statErr == nil && time.Since(info.ModTime()) > foreign {
				_ = os.Remove(name)
			}
		}
	}
	return err
}

// reapRoster holds the lock of the file until the end, so that only one process reports the tasks.
// It removes the file last: if the report fails, the next call repeats it.
func reapRoster(name, server string, lost func(DeadWorker) error) error {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the tasks of a worker: %w", err)
	}
	defer func() { _ = file.Close() }()
	if free, err := filelock.TryFile(file, filelock.Exclusive); err != nil || !free {
		return err
	}
	found, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read the tasks of a lost worker: %w", err)
	}
	// The process may have replaced the file, or another one may have reaped it.
	if present, err := os.Stat(name); err != nil || !os.SameFile(found, present) {
		return nil
	}
	h, tasks := readRoster(file)
	if h.Server != server && time.Since(found.ModTime()) < foreign {
		return nil
	}
	if h.Server == server {
		if err := lost(DeadWorker{Identity: h.Identity, Tasks: tasks}); err != nil {
			return err
		}
	}
	if err := os.Remove(name); err != nil {
		return fmt.Errorf("remove the tasks of a lost worker: %w", err)
	}
	return nil
}

// readRoster parses a file. It skips malformed lines, since the last one may be incomplete.
func readRoster(file io.Reader) (h head, tasks []RosterTask) {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	if lines.Scan() {
		_ = json.Unmarshal(lines.Bytes(), &h)
	}
	for lines.Scan() {
		var t RosterTask
		if json.Unmarshal(lines.Bytes(), &t) == nil && len(t.Token) > 0 {
			tasks = append(tasks, t)
		}
	}
	return h, tasks
}

// ReportDead returns a function for Reap that fails tasks with a retryable WorkerLost.
func ReportDead(ctx context.Context, c client.Client) func(DeadWorker) error {
	return func(d DeadWorker) error {
		tasks := d.Tasks
		progress := progressOf(ctx, c, tasks)
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(reporters)
		spread := min(pace*time.Duration(len(tasks)+1), maxSpread)
		for _, t := range tasks {
			group.Go(func() error {
				options := temporal.ApplicationErrorOptions{
					NextRetryDelay: time.Millisecond + rand.N(spread), Category: temporal.ApplicationErrorCategoryBenign,
				}
				if details, ok := progress[t.RunID+"/"+t.ActivityID]; ok {
					options.Details = []any{details}
				}
				err := failTask(ctx, c, t, temporal.NewApplicationErrorWithOptions("the worker process died", activities.WorkerLost, options))
				if _, over := errors.AsType[*serviceerror.NotFound](err); over {
					return nil
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return fmt.Errorf("report the tasks of a lost worker: %w", err)
		}
		return nil
	}
}

func failTask(ctx context.Context, c client.Client, t RosterTask, failure error) error {
	if len(t.Token) == 0 {
		return c.CompleteActivityByID(ctx, t.Namespace, t.WorkflowID, t.RunID, t.ActivityID, nil, failure)
	}
	return c.CompleteActivity(ctx, t.Token, nil, failure)
}

// progressOf returns the last heartbeat details of tasks, and lets any worker take the next workflow
// task of their runs. Only these details tell the workflow the cost of an activity that is being
// cancelled, because such an activity is not retried.
func progressOf(ctx context.Context, c client.Client, tasks []RosterTask) map[string]json.RawMessage {
	progress := map[string]json.RawMessage{}
	described := map[string]bool{}
	for _, t := range tasks {
		if described[t.RunID] {
			continue
		}
		described[t.RunID] = true
		// Otherwise the next workflow task would wait for the dead process, which has the workflow
		// in its cache.
		_, _ = c.WorkflowService().ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{
			Namespace: t.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: t.WorkflowID, RunId: t.RunID},
		})
		run, err := c.DescribeWorkflowExecution(ctx, t.WorkflowID, t.RunID)
		if err != nil {
			continue // report the failure without its progress
		}
		for _, a := range run.GetPendingActivities() {
			var details json.RawMessage
			if payloads := a.GetHeartbeatDetails(); payloads != nil && converter.GetDefaultDataConverter().FromPayloads(payloads, &details) == nil {
				progress[t.RunID+"/"+a.GetActivityId()] = details
			}
		}
	}
	return progress
}

// interval is the time between two searches for dead processes.
const interval = 500 * time.Millisecond

// WatchRosters reaps the dead processes of a server in dir immediately and then at each interval,
// until ctx ends, and calls then after each search. Errors are retried.
func WatchRosters(ctx context.Context, dir, server string, lost func(DeadWorker) error, then func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		_ = ReapRosters(dir, server, lost)
		then()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
