//go:build bench

package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	sessionflow "conclave/workflows/session"
)

const (
	sessionsAtOnce = 8
	agentsEach     = 25
	stepsAtOnce    = sessionsAtOnce * agentsEach
)

// BenchmarkFleet runs 200 steps at once in one worker, each with three model calls of about two
// seconds. It measures the worker's peak memory, and the time of a step from its schedule to its
// end without its model's time, both among the others and alone.
func BenchmarkFleet(b *testing.B) {
	const queue = "fleet"
	f := &fleet{spent: map[string]time.Duration{}}
	m := newModelServer(b, alone.minds(0)) // the team that the stack begins with
	s := newStack(b, m)
	m.minds = mindsOf(sessionsAtOnce, f.think)
	env, args := s.work(queue, s.S3Endpoint)
	file := s.file("worker.yaml", fmt.Sprintf("providers:\n  slow: {base_url: %s/v1}\nmax_concurrent_steps: %d\n", m.URL, stepsAtOnce))
	worker := s.background(env, append(args, "--worker-config", file))
	s.awaitWorker(queue)
	f.meet(1)
	f.run(b, s, queue, 1, 1) // the first step's own work is no latency

	var peak, alone, added, slowest, processor samples
	for b.Loop() {
		f.meet(1)
		one := f.run(b, s, queue, 1, 1)
		alone.add(one.median())

		forget(b, worker.Process.Pid)
		before := processorTime(b, worker.Process.Pid)
		f.meet(stepsAtOnce)
		all := f.run(b, s, queue, sessionsAtOnce, agentsEach)
		require.Len(b, all, stepsAtOnce)
		added.add(all.median())
		slowest.add(all[len(all)*95/100]) // sorted by now
		processor.add(float64((processorTime(b, worker.Process.Pid) - before).Milliseconds()) / stepsAtOnce)
		peak.add(memory(b, worker.Process.Pid, "VmHWM"))
	}
	b.ReportMetric(peak.median(), "worker-MiB")
	b.ReportMetric(alone.median(), "alone-ms/step")
	b.ReportMetric(added.median(), "added-ms/step")
	b.ReportMetric(slowest.median(), "added-p95-ms/step")
	b.ReportMetric(processor.median(), "worker-cpu-ms/step")
	b.ReportMetric(0, "ns/op")
}

// processorTime is the processor time of a process so far.
func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	own, _, err := processTimes(pid)
	require.NoError(b, err)
	return own
}

// processTimes are the processor times of a process and of its children that have ended.
func processTimes(pid int) (own, children time.Duration, err error) {
	const tick = 10 * time.Millisecond // the kernel's, on all its architectures
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the process's own name comes before
	fields := strings.Fields(after)
	const first, last = 11, 15
	if len(fields) < last {
		return 0, 0, fmt.Errorf("the times of process %d: %s", pid, stat)
	}
	var ticks [last - first]int64
	for i, field := range fields[first:last] {
		if ticks[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return 0, 0, err
		}
	}
	return time.Duration(ticks[0]+ticks[1]) * tick, time.Duration(ticks[2]+ticks[3]) * tick, nil
}

// fleet holds the models of many agents, distinguished by name. Each writes a file, reads it and
// answers.
type fleet struct {
	mu       sync.Mutex
	expected int
	all      chan struct{} // closed when everybody has made the first call
	spent    map[string]time.Duration
}

// meet delays the first replies until the given number of models have been asked.
func (f *fleet) meet(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expected, f.all = n, make(chan struct{})
	clear(f.spent)
}

func modelOf(session, agent int) string { return fmt.Sprintf("model-%d-%d", session, agent) }

// mindsOf returns one mind for each agent of some sessions; all are the same.
func mindsOf(sessions int, think func(request) (call, time.Duration)) minds {
	all := minds{}
	for i := range sessions {
		for j := range agentsEach {
			all[modelOf(i, j)] = think
		}
	}
	return all
}

func (f *fleet) think(r request) (call, time.Duration) {
	const kilobytes = 20
	began, calls := time.Now(), len(r.said("tool"))
	reply := answer("It is in plan.md.")
	switch calls {
	case 0:
		f.arrive()
		reply = write("plan.md", strings.Repeat("A line of sixty-four characters, which is as long as any is ..\n", kilobytes<<10/64))
	case 1:
		reply = call{"read_file", map[string]string{"path": "plan.md"}}
	}
	delay := time.Since(began) + f.pace(r.Model, calls)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spent[r.Model] += delay
	return reply, delay
}

// arrive waits for all models.
func (f *fleet) arrive() {
	f.mu.Lock()
	f.expected--
	all := f.all
	if f.expected == 0 {
		close(all)
	}
	f.mu.Unlock()
	<-all
}

// pace is a delay of 1.5 to 2.5 s that depends on the model, so that agents that start
// together drift apart.
func (f *fleet) pace(model string, calls int) time.Duration {
	var session, agent int
	_, _ = fmt.Sscanf(model, "model-%d-%d", &session, &agent)
	n := (session*agentsEach+agent)*3 + calls
	return 1500*time.Millisecond + time.Duration(n*377%1000)*time.Millisecond
}

// run runs sessions at once, and returns the time of each step without its model's time, in
// milliseconds.
func (f *fleet) run(b *testing.B, s *stack, queue string, sessions, agents int) samples {
	b.Helper()
	var runs []client.WorkflowRun
	for i := range sessions {
		runs = append(runs, s.begin(queue, sessionflow.Input{Config: teamOf(i, agents)}))
	}
	var added samples
	for i, run := range runs {
		var result sessionflow.Result
		require.NoError(b, run.Get(b.Context(), &result))
		require.Equal(b, "presented", result.Status)
		for agent, took := range s.took(run.GetID()) {
			var j int
			_, err := fmt.Sscanf(agent, "agent_%d", &j)
			require.NoError(b, err)
			added.add(float64((took - f.spent[modelOf(i, j)]).Milliseconds()))
		}
	}
	return added
}

// teamOf is a team whose agents answer once and do not vote.
func teamOf(session, agents int) json.RawMessage {
	all := []any{}
	for j := range agents {
		all = append(all, map[string]any{
			"id": fmt.Sprintf("agent_%02d", j), "backend": map[string]any{"provider": "slow", "model": modelOf(session, j)},
		})
	}
	data, _ := json.Marshal(map[string]any{
		"agents": all, "orchestrator": map[string]any{"skip_voting": true, "skip_final_presentation": true, "disable_injection": true},
	})
	return data
}

// took is the duration of each agent's step in a session, from its schedule.
func (s *stack) took(id string) map[string]time.Duration {
	s.b.Helper()
	took := map[string]time.Duration{}
	agents, since := map[int64]string{}, map[int64]time.Time{}
	history := s.client.GetWorkflowHistory(s.b.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(s.b, err)
		if scheduled := event.GetActivityTaskScheduledEventAttributes(); scheduled.GetActivityType().GetName() == "RunStep" {
			agents[event.GetEventId()], _, _ = strings.Cut(scheduled.GetActivityId(), "-")
			since[event.GetEventId()] = event.GetEventTime().AsTime()
		}
		if done := event.GetActivityTaskCompletedEventAttributes(); agents[done.GetScheduledEventId()] != "" {
			took[agents[done.GetScheduledEventId()]] = event.GetEventTime().AsTime().Sub(since[done.GetScheduledEventId()])
		}
	}
	return took
}
