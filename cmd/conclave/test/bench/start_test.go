//go:build bench

package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkStart measures the time from the start of `conclave run`, which starts the embedded
// stack, to its first model call.
func BenchmarkStart(b *testing.B) {
	m := newModelServer(b, alone.minds(0))
	// The first run loads the binary from the disk and creates a data directory.
	used := newShell(b, m.setting())
	firstCall(b, m, used)

	b.Run("data=new", func(b *testing.B) {
		start(b, m, func() *shell { return newShell(b, m.setting()) })
	})
	b.Run("data=existing", func(b *testing.B) {
		start(b, m, func() *shell { return used })
	})
}

func start(b *testing.B, m *modelServer, home func() *shell) {
	b.Helper()
	var took samples
	for b.Loop() {
		took.add(firstCall(b, m, home()).Seconds())
	}
	b.ReportMetric(took.median(), "s-to-first-call")
	b.ReportMetric(0, "ns/op") // it would include the end of a session and of the stack
}

// firstCall runs a session, with further flags, and returns the time to its first model call.
func firstCall(b *testing.B, m *modelServer, s *shell, flags ...string) time.Duration {
	b.Helper()
	config := s.file("team.yaml", m.team(deaf))
	began := time.Now()
	p := s.start(nil, append([]string{"run", "--automation", "--config", config, "Are you there?"}, flags...))
	s.ended(p)
	s.gone()
	calls := m.callsSince(began)
	require.NotEmpty(b, calls)
	return calls[0].Sub(began)
}
