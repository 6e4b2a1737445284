//go:build bench

package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	sessionflow "conclave/workflows/session"
)

const (
	slowSessions = 40
	slowSteps    = slowSessions * agentsEach
	slowReply    = 120 * time.Second
)

// BenchmarkSlowFleet runs 1,000 steps at once in one worker, each with one model call of
// two minutes. It counts the replies that were paid for more than once, and measures the
// peak memory of the worker and of the stack.
func BenchmarkSlowFleet(b *testing.B) {
	f := &slowModels{asked: map[string]int{}, calls: 1}
	s, worker := f.serve(b, slowFleet, slowSessions)
	f.measure(b, s, worker, s.PID)
}

// BenchmarkSlowFleetOnPostgres is like BenchmarkSlowFleet, but with Temporal on PostgreSQL; the
// stack's memory is that of Temporal's server.
func BenchmarkSlowFleetOnPostgres(b *testing.B) {
	f := &slowModels{asked: map[string]int{}, calls: 1}
	m := newModelServer(b, crowdMinds())
	s, parts := newCluster(b, m)
	f.measure(b, s, f.work(b, s, m, slowFleet, slowSessions), parts["temporal"][0])
}

// slowFleet is the task queue of the fleet.
const slowFleet = "slow-fleet"

// measure runs the fleet in a worker. The stack's memory is that of a server.
func (f *slowModels) measure(b *testing.B, s *stack, worker *process, server int) {
	b.Helper()
	var memories, ofStack, repaid, most, seconds samples
	for b.Loop() {
		f.reset()
		forget(b, worker.Process.Pid)
		forget(b, server)
		began := time.Now()
		var runs []client.WorkflowRun
		for i := range slowSessions {
			runs = append(runs, s.begin(slowFleet, sessionflow.Input{Config: teamOf(i, agentsEach)}))
		}
		for _, run := range runs {
			var result sessionflow.Result
			require.NoError(b, run.Get(b.Context(), &result))
			require.Equal(b, "presented", result.Status)
		}
		seconds.add(time.Since(began).Seconds())
		calls, inFlight := f.counts()
		repaid.add(float64(calls - slowSteps))
		most.add(float64(inFlight))
		memories.add(memory(b, worker.Process.Pid, "VmHWM"))
		ofStack.add(memory(b, server, "VmHWM"))
	}
	b.ReportMetric(memories.median(), "worker-MiB")
	b.ReportMetric(ofStack.median(), "stack-MiB")
	b.ReportMetric(most.median(), "steps-in-flight")
	b.ReportMetric(repaid.median(), "replies-repaid")
	b.ReportMetric(seconds.median(), "s")
	b.ReportMetric(0, "ns/op")
}

// slowModels are the models of a fleet. Each answers after a number of calls.
type slowModels struct {
	calls int

	mu       sync.Mutex
	asked    map[string]int
	inFlight int
	most     int
}

// serve starts a stack and a worker with room for all agents of some sessions.
func (f *slowModels) serve(b *testing.B, queue string, sessions int) (*stack, *process) {
	b.Helper()
	m := newModelServer(b, alone.minds(0)) // the team that the stack begins with
	s := newStack(b, m)
	return s, f.work(b, s, m, queue, sessions)
}

// work starts a worker with room for all agents of some sessions, whose models are slow.
func (f *slowModels) work(b *testing.B, s *stack, m *modelServer, queue string, sessions int) *process {
	b.Helper()
	m.minds = mindsOf(sessions, f.think)
	env, args := s.work(queue, s.S3Endpoint)
	file := s.file("worker.yaml", fmt.Sprintf("providers:\n  slow: {base_url: %s/v1}\nmax_concurrent_steps: %d\nheartbeat_timeout_seconds: 60\n", m.URL, sessions*agentsEach))
	worker := s.background(env, append(args, "--worker-config", file))
	s.awaitWorker(queue)
	return worker
}

func (f *slowModels) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.asked)
	f.inFlight, f.most = 0, 0
}

func (f *slowModels) think(r request) (call, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[r.Model]++
	f.inFlight++
	f.most = max(f.most, f.inFlight)
	time.AfterFunc(slowReply, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.inFlight--
	})
	if len(r.said("tool")) < f.calls-1 {
		return call{"list_files", map[string]string{}}, slowReply
	}
	return answer("It took its time."), slowReply
}

// counts returns the number of calls and the largest number in flight at once.
func (f *slowModels) counts() (calls, inFlight int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.asked {
		calls += n
	}
	return calls, f.most
}
