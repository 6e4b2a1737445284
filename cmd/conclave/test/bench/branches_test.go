//go:build bench

package bench

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	acts "conclave/activities/pipeline"
	"conclave/engine/pipeline"
	pipelineflow "conclave/workflows/pipeline"
)

// BenchmarkBranches measures eight branches of one call of 2 s beside one branch, and 500 items of 1 s at 50 at once
// beside the ideal of 10 s, with the history of an item.
func BenchmarkBranches(b *testing.B) {
	m := newModelServer(b, alone.minds(0)) // the team that the stack begins with
	s := newStack(b, m)
	slow := func(delay time.Duration) func(request) (call, time.Duration) {
		return func(request) (call, time.Duration) {
			return call{"submit_output", map[string]string{"says": "yes"}}, delay
		}
	}
	m.minds = minds{"one": slow(time.Second), "two": slow(2 * time.Second)}
	const queue = "branches"
	worker := fmt.Sprintf("max_concurrent_steps: 64\nproviders:\n  quick: {base_url: %s/v1}\n", m.URL)
	env, args := s.work(queue, s.S3Endpoint)
	s.background(env, append(args, "--worker-config", s.file("branches.yaml", worker)))
	s.awaitWorker(queue)

	n := 0
	run := func(graph string) (took time.Duration, items int, events, bytes float64) {
		b.Helper()
		n++
		id := fmt.Sprintf("branches-%d", n)
		began := time.Now()
		started, err := s.client.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: queue}, pipelineflow.Type,
			pipelineflow.Input{Request: "What is right?", Config: json.RawMessage(graph)})
		require.NoError(b, err)
		var result acts.Result
		require.NoError(b, started.Get(b.Context(), &result))
		took = time.Since(began)
		require.Equal(b, pipeline.Completed, result.Status)
		d, err := s.client.DescribeWorkflowExecution(b.Context(), id, "")
		require.NoError(b, err)
		info := d.GetWorkflowExecutionInfo()
		return took, len(result.Trace) - 1, float64(info.GetHistoryLength()), float64(info.GetHistorySizeBytes())
	}
	run(forkOf("one", 1)) // the first run's own work does not count

	var eight, items, events, bytes, growth samples
	for b.Loop() {
		single, _, _, _ := run(forkOf("two", 1))
		joined, _, _, _ := run(forkOf("two", 8))
		eight.add(joined.Seconds() / single.Seconds())
		_, count, few, _ := run(itemsOf(100))
		perItem := few / float64(count)
		took, count, all, size := run(itemsOf(500))
		items.add(took.Seconds() / 10)
		events.add(all / float64(count))
		bytes.add(size / float64(count))
		growth.add(all / float64(count) / perItem)
	}
	eight.report(b, "eight/one", 1.15)
	items.report(b, "items/ideal", 1.2)
	b.ReportMetric(events.median(), "events/item")
	b.ReportMetric(bytes.median(), "history-B/item")
	b.ReportMetric(growth.median(), "events-500/100")
	b.ReportMetric(0, "ns/op")
}

const sayStep = `{"name": "say", "agent": "a", "output": {"type": "object", "properties": {"says": {"type": "string"}}, "required": ["says"]}}`

// forkOf returns a graph with so many branches of one call each.
func forkOf(model string, branches int) string {
	var all []string
	for i := range branches {
		all = append(all, fmt.Sprintf(`"b%d": "say"`, i))
	}
	return fmt.Sprintf(`{"start": "fork", "agents": [{"id": "a", "backend": {"provider": "quick", "model": %q}}], "steps": [{"name": "fork", "kind": "parallel", "branches": {%s}}, %s]}`,
		model, strings.Join(all, ", "), sayStep)
}

// itemsOf returns a graph with a step of one call for each of so many items, 50 at once.
func itemsOf(items int) string {
	list, _ := json.Marshal(make([]int, items))
	return fmt.Sprintf(`{"start": "each", "agents": [{"id": "a", "backend": {"provider": "quick", "model": "one"}}], "steps": [{"name": "each", "kind": "for_each", "items": %s, "step": "say", "at_once": 50}, %s]}`,
		list, sayStep)
}
