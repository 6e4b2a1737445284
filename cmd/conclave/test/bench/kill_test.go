//go:build bench

package bench

import (
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/filelock"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// BenchmarkKill kills dev with -9 at random moments of a session, every other time together with
// the servers, and restarts it immediately. It measures the time until the next model call, and the
// number of repeated ones. `make bench BENCH=Kill BENCHFLAGS=-benchtime=100x` is the measurement of
// 100 kills.
func BenchmarkKill(b *testing.B) {
	w := &writer{calls: 6}
	m := newModelServer(b, minds{"model-a": w.think})
	s := &stack{shell: newShell(b, m.setting())}
	s.team = s.file("team.yaml", m.team(deaf))
	dev := s.start(nil, s.serve())
	b.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGINT)
		s.ended(dev)
	})
	s.connect()
	s.awaitWorker(workflows.TaskQueue)

	var seconds, repeated samples
	for n := 0; b.Loop(); n++ {
		began := time.Now()
		run := s.begin(workflows.TaskQueue, sessionflow.Input{})
		until := 1 + rand.IntN(w.calls)
		require.Eventually(b, func() bool { return len(m.callsSince(began)) >= until }, time.Minute, 5*time.Millisecond)
		time.Sleep(rand.N(400 * time.Millisecond))
		killed := time.Now()
		require.NoError(b, dev.Process.Kill())
		if n%2 == 1 {
			require.NoError(b, syscall.Kill(s.PID, syscall.SIGKILL))
			ready := filepath.Join(s.home, ".local", "share", "conclave", "stack.ready")
			require.Eventually(b, func() bool {
				lock, err := filelock.Try(ready, filelock.Shared)
				return err == nil && lock != nil && lock.Close() == nil
			}, time.Minute, time.Millisecond, "the servers do not die")
		}
		require.Error(b, dev.Wait(), "it was killed")
		dev = s.start(nil, s.serve())
		s.client.Close()
		require.Eventually(b, func() bool { return len(m.callsSince(killed)) > 0 }, 2*time.Minute, 5*time.Millisecond, "the session does not go on")
		took := m.callsSince(killed)[0].Sub(killed).Seconds()
		seconds.add(took)
		s.connect()
		s.decided(s.client.GetWorkflow(b.Context(), run.GetID(), ""))
		repeated.add(float64(len(m.callsSince(began)) - w.calls - 1)) // and one for the vote
		const slow = 5                                                // seconds
		if took > slow {
			b.Logf("kill %d, after call %d: %.1f s, %.0f calls repeated", n+1, until, took, repeated[len(repeated)-1])
		}
	}
	b.ReportMetric(seconds.median(), "s-to-next-call")
	b.ReportMetric(seconds.percentile(95), "s-to-next-call-p95")
	b.ReportMetric(seconds.percentile(100), "s-to-next-call-max")
	b.ReportMetric(repeated.percentile(100), "calls-repeated-max")
	b.ReportMetric(0, "ns/op")
}
