package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"conclave/worker/cluster"
)

// shareInterval is the time between two counts of a cluster's live workers. Each worker reports to
// the server once a minute, and the server forgets a killed one after five minutes.
const shareInterval = 30 * time.Second

// shareLimits divides the providers' limits per minute by the number of live workers in the cluster, until
// stop is called. If the server cannot list workers, each worker uses the full limits.
func (c Config) shareLimits() (stop func()) {
	if c.Server == "" || !c.Models.Providers.areLimited() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var sharing sync.WaitGroup
	sharing.Go(func() {
		list := workerList{service: c.Client.WorkflowService(), namespace: c.Namespace, queue: c.TaskQueue, self: cluster.WorkerIdentity()}
		c.Models.Providers.followWorkers(ctx, list.countLive)
	})
	return func() { cancel(); sharing.Wait() }
}

// workerList counts the workers that poll a task queue; this process is one of them.
type workerList struct {
	service                workflowservice.WorkflowServiceClient
	namespace, queue, self string
}

// countLive returns the number of live workers. It includes this one even if the server does not know it yet.
func (l workerList) countLive(ctx context.Context) (int, error) {
	workers := map[string]bool{l.self: true}
	req := &workflowservice.ListWorkersRequest{Namespace: l.namespace, Query: fmt.Sprintf("TaskQueue = %q", l.queue)}
	for {
		page, err := l.service.ListWorkers(ctx, req)
		if err != nil {
			return 0, fmt.Errorf("list the workers of the task queue %s: %w", l.queue, err)
		}
		for _, w := range page.GetWorkers() {
			ended := w.GetStatus() == enumspb.WORKER_STATUS_SHUTDOWN || w.GetStatus() == enumspb.WORKER_STATUS_SHUTTING_DOWN
			if !ended {
				workers[w.GetWorkerIdentity()] = true
			}
		}
		if req.NextPageToken = page.GetNextPageToken(); len(req.NextPageToken) == 0 {
			return len(workers), nil
		}
	}
}

func (all providers) areLimited() bool {
	for _, p := range all {
		if p.queue.requests != nil || p.queue.tokens != nil {
			return true
		}
	}
	return false
}

// followWorkers divides the limits by the result of count, immediately and at intervals, until ctx
// ends. An error leaves the limits unchanged.
func (all providers) followWorkers(ctx context.Context, count func(context.Context) (int, error)) {
	tick := time.NewTicker(shareInterval)
	defer tick.Stop()
	known := 1
	for {
		if workers, err := count(ctx); err == nil {
			for _, p := range all {
				p.queue.divideLimits(workers)
			}
			if workers != known {
				slog.Info("the providers' limits per minute are divided by the live workers", "workers", workers)
			}
			known = workers
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (q *queue) divideLimits(workers int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if changed := q.requests.divideLimit(now, workers); q.tokens.divideLimit(now, workers) || changed {
		q.wakeWaiters()
	}
}
