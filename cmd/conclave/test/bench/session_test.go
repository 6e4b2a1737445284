//go:build bench

package bench

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkSession runs a team of three through nine steps in three waves, on a
// running embedded stack, session after session.
func BenchmarkSession(b *testing.B) {
	b.Run("model=100ms", func(b *testing.B) { session(b, 100*time.Millisecond) })
	b.Run("model=2s", func(b *testing.B) { session(b, 2*time.Second) })
}

func session(b *testing.B, delay time.Duration) {
	b.Helper()
	m := newModelServer(b, threeRounds.minds(delay))
	s := newStack(b, m)
	model := callsInARow * delay // the critical path
	unix.Sync()                  // otherwise this one's syncs wait for the files of other benchmarks

	var added, ratio, events, size samples
	for b.Loop() {
		took := s.session("conclave")
		info := s.describe()
		added.add(float64((took - model).Milliseconds()) / waves)
		ratio.add(took.Seconds() / model.Seconds())
		events.add(float64(info.GetHistoryLength()) / steps)
		size.add(float64(info.GetHistorySizeBytes()) / steps)
	}
	added.report(b, "added-ms/step", 90)
	if delay >= time.Second {
		ratio.report(b, "wall/model", 1.03)
	}
	b.ReportMetric(events.median(), "events/step")
	b.ReportMetric(size.median(), "history-B/step")
}
