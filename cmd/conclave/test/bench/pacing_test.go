//go:build bench

package bench

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// BenchmarkPacing measures the same team of slow models with both pacings and both
// ways of delivering new answers. Ratios are relative to the default, rounds with inject. Each
// iteration measures all four settings.
func BenchmarkPacing(b *testing.B) {
	m := newModelServer(b, debate())
	s := newStack(b, m)
	var settings []*setting
	for _, pacing := range []string{"rounds", "continuous"} {
		for _, updates := range []string{"inject", "restart"} {
			settings = append(settings, &setting{pacing: pacing, updates: updates})
		}
	}
	for b.Loop() {
		for _, one := range settings {
			one.measure(s, m)
		}
	}
	usual := settings[0]
	for _, one := range settings {
		name := one.pacing + "-" + one.updates
		b.ReportMetric(one.calls.median(), name+"-calls")
		b.ReportMetric(one.seconds.median(), name+"-s")
		b.ReportMetric(one.stale.median(), name+"-stale-votes")
		b.ReportMetric(one.calls.median()/usual.calls.median(), name+"-calls-ratio")
		b.ReportMetric(one.seconds.median()/usual.seconds.median(), name+"-s-ratio")
	}
	b.ReportMetric(0, "ns/op") // four sessions
}

// setting is a pacing and delivery, with the measurements of its sessions.
type setting struct {
	pacing, updates string

	calls, seconds, stale samples
}

// measure runs one session to its end.
func (o *setting) measure(s *stack, m *modelServer) {
	s.b.Helper()
	team := m.team(map[string]any{"pacing": o.pacing, "update_mode": o.updates})
	began := time.Now()
	s.decided(s.begin(workflows.TaskQueue, sessionflow.Input{Config: json.RawMessage(team)}))
	o.seconds.add(time.Since(began).Seconds())
	o.calls.add(float64(len(m.callsSince(began))))
	o.stale.add(float64(s.votes() - len(m.minds)))
}

// votes is the number of votes in the ledger of the newest session. All but one for
// each agent were stale in the end.
func (s *stack) votes() int {
	s.b.Helper()
	store, layout := s.store(s.b, s.S3Endpoint), artifact.InBucket(s.name())
	votes := 0
	for key, err := range store.List(s.b.Context(), layout.File("ledger/")) {
		require.NoError(s.b, err)
		entry, err := artifact.ReadJSON[coordination.Accepted](s.b.Context(), store, key)
		require.NoError(s.b, err)
		if entry.Action == coordination.Vote {
			votes++
		}
	}
	return votes
}
