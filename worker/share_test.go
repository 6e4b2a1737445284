package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workerpb "go.temporal.io/api/worker/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"conclave/engine/llm"
)

// pages is a server that lists workers, a page for each call.
type pages struct {
	workflowservice.WorkflowServiceClient
	pages [][]*workerpb.WorkerListInfo
	asked []string
	err   error
}

func (p *pages) ListWorkers(_ context.Context, req *workflowservice.ListWorkersRequest, _ ...grpc.CallOption) (*workflowservice.ListWorkersResponse, error) {
	p.asked = append(p.asked, req.GetNamespace()+" "+req.GetQuery()+" "+string(req.GetNextPageToken()))
	if p.err != nil {
		return nil, p.err
	}
	res := &workflowservice.ListWorkersResponse{Workers: p.pages[len(p.asked)-1]}
	if len(p.asked) < len(p.pages) {
		res.NextPageToken = []byte("next")
	}
	return res, nil
}

func listed(identity string, status enumspb.WorkerStatus) *workerpb.WorkerListInfo {
	return &workerpb.WorkerListInfo{WorkerIdentity: identity, Status: status}
}

func TestWorkerList_count(t *testing.T) {
	t.Parallel()
	const running = enumspb.WORKER_STATUS_RUNNING
	for name, tt := range map[string]struct {
		pages [][]*workerpb.WorkerListInfo
		want  int
	}{
		"unknown yet":                  {[][]*workerpb.WorkerListInfo{nil}, 1},
		"alone":                        {[][]*workerpb.WorkerListInfo{{listed("me", running)}}, 1},
		"others, and itself not yet":   {[][]*workerpb.WorkerListInfo{{listed("a", running), listed("b", running)}}, 3},
		"those that stop do not count": {[][]*workerpb.WorkerListInfo{{listed("me", running), listed("a", enumspb.WORKER_STATUS_SHUTTING_DOWN), listed("b", enumspb.WORKER_STATUS_SHUTDOWN)}}, 1},
		"one process counts once":      {[][]*workerpb.WorkerListInfo{{listed("a", running), listed("me", running), listed("a", running)}}, 2},
		"all pages":                    {[][]*workerpb.WorkerListInfo{{listed("a", running)}, {listed("b", running)}, {listed("me", running)}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &pages{pages: tt.pages}
			got, err := workerList{service: server, namespace: "n", queue: "conclave", self: "me"}.countLive(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			require.Len(t, server.asked, len(tt.pages))
			require.Equal(t, `n TaskQueue = "conclave" `, server.asked[0])
		})
	}
	_, err := workerList{service: &pages{err: errors.New("unknown method ListWorkers")}, queue: "conclave"}.countLive(t.Context())
	require.ErrorContains(t, err, "list the workers of the task queue conclave: unknown method")
}

// The limits follow the number of workers, and stay as they are while it is unknown.
func TestProviders_follow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newProviders(map[string]Provider{"p": {RequestsPerMinute: count(60), TokensPerMinute: count(6000)}, "free": {}})
		require.True(t, all.areLimited())
		p := all["p"].queue
		require.Equal(t, "60 requests per minute at the provider p", p.requests.displayName())
		var workers atomic.Int64 // 0 while the server is away
		workers.Store(3)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			all.followWorkers(ctx, func(context.Context) (int, error) {
				if n := int(workers.Load()); n > 0 {
					return n, nil
				}
				return 100, errors.New("the server is away")
			})
		}()
		synctest.Wait()
		require.Equal(t, "60 requests per minute at the provider p (shared by 3 workers)", p.requests.displayName())
		require.Equal(t, 3, p.requests.Burst(), "a sixth of this worker's part at once")
		require.Equal(t, 333, p.tokens.Burst())

		workers.Store(0)
		time.Sleep(shareInterval)
		synctest.Wait()
		require.Equal(t, 3, p.requests.workers)

		workers.Store(1)
		time.Sleep(shareInterval)
		synctest.Wait()
		require.Equal(t, 10, p.requests.Burst(), "all of it again")
		stop()
		<-done
	})
	require.False(t, newProviders(map[string]Provider{"free": {}}).areLimited())
	require.False(t, providers(nil).areLimited())
}

// Two workers that share a limit make as many calls a minute as one with the whole limit.
func TestQueue_share(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newProviders(map[string]Provider{"p": {RequestsPerMinute: count(60)}})
		p := all["p"]
		p.queue.divideLimits(2)
		start := time.Now()
		for range 35 { // five at once, and then one every two seconds
			_, err := p.limitModel(says{}).Generate(t.Context(), llm.Request{})
			require.NoError(t, err)
		}
		require.Equal(t, time.Minute, time.Since(start))
		p.queue.divideLimits(1)
		start = time.Now()
		for range 30 {
			_, err := p.limitModel(says{}).Generate(t.Context(), llm.Request{})
			require.NoError(t, err)
		}
		require.Equal(t, 30*time.Second, time.Since(start), "one a second again")
	})
}

// A worker of the embedded stack, or without limits, asks nobody.
func TestConfig_shareLimits_alone(t *testing.T) {
	t.Parallel()
	limited := newProviders(map[string]Provider{"p": {RequestsPerMinute: count(60)}})
	Config{Models: Models{Providers: limited}}.shareLimits()() // a client would be missed
	Config{Server: "temporal:7233/default", Models: Models{Providers: newProviders(map[string]Provider{"p": {}})}}.shareLimits()()
	require.Equal(t, 1, limited["p"].queue.requests.workers)
}
