//go:build bench

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/storetest"
	sessionflow "conclave/workflows/session"
)

const (
	crowdSessions = 60 // at a time
	crowdAgents   = 3
	crowdSteps    = 2 * crowdSessions * crowdAgents // each agent answers and votes
)

// BenchmarkThroughput runs sixty sessions of three agents at a time, with models that reply in 200 ms, on one and on
// two workers. It measures sessions a minute, steps a second, and the cost of a step by component. Temporal on
// PostgreSQL, with MinIO, needs the programs of `make capacity` and is skipped without them.
func BenchmarkThroughput(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("stack=embedded/workers=%d", workers), func(b *testing.B) {
			m := newModelServer(b, alone.minds(0)) // the team that the stack begins with
			s := newStack(b, m)
			m.minds = crowdMinds()
			throughput(b, s, m, workers, map[string][]int{"stack": {s.PID}})
		})
		b.Run(fmt.Sprintf("stack=postgres/workers=%d", workers), func(b *testing.B) {
			m := newModelServer(b, crowdMinds())
			s, parts := newCluster(b, m)
			throughput(b, s, m, workers, parts)
		})
	}
}

// newCluster starts Temporal on PostgreSQL and MinIO in place of the embedded stack, and returns the processes of each
// component.
func newCluster(b *testing.B, m *modelServer) (*stack, map[string][]int) {
	b.Helper()
	if os.Getenv("TEMPORAL_SERVER_BIN") == "" {
		b.Skip("Temporal on PostgreSQL is not here: run make capacity")
	}
	database, minio := stage.StartPostgres(b), stage.StartMinIO(b)
	temporal := stage.StartTemporal(b, database)
	s := &stack{shell: newShell(b, m.setting()), client: temporal.Dial(b), serves: serves{
		TemporalAddress: temporal.Address, Namespace: client.DefaultNamespace, Bucket: "sessions",
		S3Endpoint: minio.Endpoints[0], S3Region: "us-east-1", S3AccessKey: minio.AccessKey, S3SecretKey: minio.SecretKey,
	}}
	s.team = s.file("team.yaml", m.team(deaf))
	storetest.CreateBucket(b, s.S3Endpoint, s.S3AccessKey, s.S3SecretKey, s.Bucket)
	return s, map[string][]int{"temporal": {temporal.PID()}, "postgres": {database.PID()}, "s3": {minio.Nodes[0].PID(), minio.Nodes[1].PID()}}
}

// crowdMinds are models whose replies depend on the prompt alone, so that any number of sessions can ask them.
func crowdMinds() minds {
	all := minds{}
	for _, letter := range []string{"a", "b", "c"} {
		all["model-"+letter] = func(r request) (call, time.Duration) {
			const delay, kilobytes = 200 * time.Millisecond, 2
			switch {
			case len(answersIn(r)) > 0:
				return vote("agent1"), delay
			case len(r.said("tool")) == 0:
				return write("plan.md", strings.Repeat("A line of sixty-four characters, which is as long as any is ..\n", kilobytes<<10/64)), delay
			}
			return answer("It is in plan.md, says " + letter + "."), delay
		}
	}
	return all
}

// throughput measures a crowd of sessions on so many workers. The parts are the processes of each component.
func throughput(b *testing.B, s *stack, m *modelServer, workers int, parts map[string][]int) {
	b.Helper()
	const queue = "crowd"
	team := fmt.Sprintf("max_concurrent_steps: 64\nproviders:\n  quick: {base_url: %s/v1}\nteams:\n  crowd:\n    agents:\n", m.URL)
	for _, letter := range []string{"a", "b", "c"} {
		team += fmt.Sprintf("      - {id: agent_%s, backend: {provider: quick, model: model-%s}}\n", letter, letter)
	}
	file := s.file("crowd.yaml", team+"    orchestrator: {disable_injection: true}\n")
	for i := range workers {
		env, args := s.work(queue, s.S3Endpoint)
		w := s.background(env, append(args, "--worker-config", file, "--state-dir", filepath.Join(s.home, fmt.Sprintf("state%d", i))))
		parts["worker"] = append(parts["worker"], w.Process.Pid)
	}
	s.awaitWorker(queue)
	s.crowd(queue, 2) // the first sessions' own work does not count

	var perMinute, perSecond, events, history samples
	spent := map[string]*samples{}
	for b.Loop() {
		before := partTimes(b, parts)
		began := time.Now()
		s.crowd(queue, crowdSessions)
		took := time.Since(began)
		perMinute.add(crowdSessions / took.Minutes())
		perSecond.add(crowdSteps / took.Seconds())
		info := s.describe()
		events.add(float64(info.GetHistoryLength()) / (2 * crowdAgents))
		history.add(float64(info.GetHistorySizeBytes()) / (2 * crowdAgents))
		for name, after := range partTimes(b, parts) {
			if spent[name] == nil {
				spent[name] = &samples{}
			}
			spent[name].add(float64((after - before[name]).Milliseconds()) / crowdSteps)
		}
	}
	b.ReportMetric(perMinute.median(), "sessions/min")
	b.ReportMetric(perSecond.median(), "steps/s")
	b.ReportMetric(events.median(), "events/step")
	b.ReportMetric(history.median(), "history-B/step")
	for name, cost := range spent {
		b.ReportMetric(cost.median(), name+"-cpu-ms/step")
	}
	for name, pids := range parts {
		most := 0.0
		for _, pid := range pids {
			most = max(most, memory(b, pid, "VmRSS"))
		}
		b.ReportMetric(most, name+"-MiB")
	}
	b.ReportMetric(0, "ns/op")
}

// crowd runs sessions at once; each ends with a consensus.
func (s *stack) crowd(queue string, sessions int) {
	s.b.Helper()
	var runs []client.WorkflowRun
	for range sessions {
		runs = append(runs, s.begin(queue, sessionflow.Input{Team: "crowd"}))
	}
	for _, run := range runs {
		s.decided(run)
	}
}

// partTimes returns the processor time of each component so far, including its children's.
func partTimes(b *testing.B, parts map[string][]int) map[string]time.Duration {
	b.Helper()
	times := map[string]time.Duration{}
	for name, pids := range parts {
		for _, pid := range pids {
			times[name] += familyTime(b, pid)
		}
	}
	return times
}

// familyTime returns the processor time of a process and its children, including those that have
// ended; PostgreSQL has one for each connection.
func familyTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	total, ended, err := processTimes(pid)
	require.NoError(b, err)
	total += ended
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	require.NoError(b, err)
	for _, child := range strings.Fields(string(data)) {
		id, err := strconv.Atoi(child)
		require.NoError(b, err)
		if own, _, err := processTimes(id); err == nil { // otherwise it has ended in the meantime
			total += own
		}
	}
	return total
}
