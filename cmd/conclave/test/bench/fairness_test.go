//go:build bench

package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	sessionflow "conclave/workflows/session"
)

// crowd is the number of sessions of one team that wait before another team's.
const crowd = 1000

// underWay is the number of the session in the crowd after whose end the other team's session
// starts.
const underWay = 40

// BenchmarkFairness starts a thousand sessions of one team on a worker with room for eight steps, and then
// a session of another team. It measures that session's time, alone and among the others.
func BenchmarkFairness(b *testing.B) {
	const queue = "fairness"
	m := newModelServer(b, alone.minds(0)) // the team that the stack begins with
	s := newStack(b, m)
	m.minds = minds{"model-slow": func(request) (call, time.Duration) { return answer("Done."), 2 * time.Second }}
	env, args := s.work(queue, s.S3Endpoint)
	const team = "{agents: [{id: agent_a, backend: {provider: slow, model: model-slow}}], orchestrator: {skip_voting: true, skip_final_presentation: true}}"
	file := s.file("worker.yaml", fmt.Sprintf("providers:\n  slow: {base_url: %s/v1}\nmax_concurrent_steps: 8\nteams:\n  many: %s\n  one: %s\n", m.URL, team, team))
	s.background(env, append(args, "--worker-config", file))
	s.awaitWorker(queue)
	begin := func(team string) client.WorkflowRun {
		s.sessions++
		run, err := s.client.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{
			ID: s.name(), TaskQueue: queue, Priority: temporal.Priority{FairnessKey: team},
		}, sessionflow.Type, sessionflow.Input{Query: "Which of us is right?", Team: team})
		require.NoError(b, err)
		return run
	}
	took := func(team string) time.Duration {
		began := time.Now()
		var result sessionflow.Result
		require.NoError(b, begin(team).Get(b.Context(), &result))
		require.Equal(b, "presented", result.Status)
		return time.Since(began)
	}
	took("one") // the first session's own work is no latency

	var before, among samples
	for b.Loop() {
		before.add(float64(took("one").Milliseconds()))
		var started []client.WorkflowRun
		for range crowd {
			started = append(started, begin("many"))
		}
		require.NoError(b, started[underWay].Get(b.Context(), nil), "all have begun, and most of them wait")
		among.add(float64(took("one").Milliseconds()))
	}
	b.ReportMetric(before.median(), "alone-ms")
	b.ReportMetric(among.median(), "among-1000-ms")
	b.ReportMetric(among.median()/before.median(), "times-alone")
	b.ReportMetric(0, "ns/op")
}
