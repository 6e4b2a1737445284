//go:build bench

package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sessionflow "conclave/workflows/session"
)

// BenchmarkResume kills a worker while a step waits for its fourth model call, and
// starts another one. It measures the time until the step continues, and the number of
// repeated model calls.
func BenchmarkResume(b *testing.B) {
	w := &writer{calls: 6, fatal: 4, called: make(chan struct{})}
	m := newModelServer(b, minds{"model-a": w.think})
	s := newStack(b, m)

	var seconds, repeated samples
	for n := 0; b.Loop(); n++ {
		queue := fmt.Sprintf("resumed-%d", n)
		doomed := s.start(s.work(queue, s.S3Endpoint))
		s.awaitWorker(queue)
		began := time.Now()
		run := s.begin(queue, sessionflow.Input{})
		<-w.called

		killed := time.Now()
		require.NoError(b, doomed.Process.Kill())
		require.Error(b, doomed.Wait(), "it was killed")
		s.background(s.work(queue, s.S3Endpoint))
		s.decided(run)
		seconds.add(m.callsSince(killed)[0].Sub(killed).Seconds())
		needed := w.calls + 1 // and one for the vote
		repeated.add(float64(len(m.callsSince(began)) - needed))
	}
	b.ReportMetric(seconds.median(), "s-to-next-call")
	b.ReportMetric(repeated.median(), "calls-repeated")
	b.ReportMetric(0, "ns/op")
}

// writer is a model that writes a file with every call, answers with the last, and
// votes for its answer when it sees it. It signals one of its calls.
type writer struct {
	calls  int
	fatal  int // the number of the call that it signals, from 1
	called chan struct{}
}

func (w *writer) think(r request) (call, time.Duration) {
	const delay = 300 * time.Millisecond
	if len(answersIn(r)) > 0 {
		return vote("agent1"), delay
	}
	number := len(r.said("tool")) + 1
	if number == w.fatal {
		select {
		case w.called <- struct{}{}:
		default: // it is made again
		}
	}
	if number == w.calls {
		return answer("It is written."), delay
	}
	return write(fmt.Sprintf("part%d.md", number), "# Part\n"), delay
}
