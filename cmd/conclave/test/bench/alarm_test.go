//go:build bench

package bench

import (
	"flag"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	sessionflow "conclave/workflows/session"
)

const (
	calmSessions = 2 // of agentsEach steps
	calmCalls    = 30
	busyLoops    = 12
)

// BenchmarkFalseAlarm runs 50 steps for an hour, each with 30 model calls of two minutes,
// beside 12 processes that never rest. It counts the steps that were given to another attempt
// although their worker lived, and the calls that were made again.
func BenchmarkFalseAlarm(b *testing.B) {
	if !strings.Contains(flag.Lookup("test.bench").Value.String(), "FalseAlarm") {
		b.Skip("it takes an hour: make bench BENCH=FalseAlarm")
	}
	const queue = "false-alarm"
	f := &slowModels{asked: map[string]int{}, calls: calmCalls}
	s, _ := f.serve(b, queue, calmSessions)
	for range busyLoops {
		loop := exec.CommandContext(b.Context(), "sh", "-c", "while :; do :; done")
		require.NoError(b, loop.Start())
		b.Cleanup(func() { _ = loop.Wait() }) // the context has ended
	}
	var alarms, repaid, seconds samples
	for b.Loop() {
		f.reset()
		began := time.Now()
		var runs []client.WorkflowRun
		for i := range calmSessions {
			runs = append(runs, s.begin(queue, sessionflow.Input{Config: teamOf(i, agentsEach)}))
		}
		again := 0
		for _, run := range runs {
			var result sessionflow.Result
			require.NoError(b, run.Get(b.Context(), &result))
			require.Equal(b, "presented", result.Status)
			again += s.repeated(run.GetID())
		}
		seconds.add(time.Since(began).Seconds())
		calls, _ := f.counts()
		alarms.add(float64(again))
		repaid.add(float64(calls - calmSessions*agentsEach*calmCalls))
	}
	b.ReportMetric(alarms.median(), "alarms")
	b.ReportMetric(repaid.median(), "replies-repaid")
	b.ReportMetric(seconds.median(), "s")
	b.ReportMetric(0, "ns/op")
}

// repeated counts the activities of a session that took more than one attempt.
func (s *stack) repeated(id string) int {
	s.b.Helper()
	n := 0
	history := s.client.GetWorkflowHistory(s.b.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(s.b, err)
		if event.GetActivityTaskStartedEventAttributes().GetAttempt() > 1 {
			n++
		}
	}
	return n
}
