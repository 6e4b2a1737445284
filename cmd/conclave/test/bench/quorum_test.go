//go:build bench

package bench

import (
	"encoding/json"
	"testing"
	"time"

	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// BenchmarkQuorum measures a team with one member ten times slower than the others, first with a
// decision after all votes and then with a quorum.
func BenchmarkQuorum(b *testing.B) {
	think := func(number int, delay time.Duration) func(request) (call, time.Duration) {
		return func(r request) (call, time.Duration) {
			if answersIn(r)[number] == 0 {
				return answer("An answer."), delay
			}
			return vote("agent1"), delay
		}
	}
	const fast, slow = 400 * time.Millisecond, 4 * time.Second
	m := newModelServer(b, minds{"model-a": think(1, fast), "model-b": think(2, fast), "model-c": think(3, slow)})
	s := newStack(b, m)
	var all, quorum samples
	for b.Loop() {
		for when, seconds := range map[string]*samples{"all": &all, "quorum": &quorum} {
			team := m.team(map[string]any{
				"pacing": "continuous", "decide_when": when, "quorum_grace_seconds": 1, "disable_injection": true,
			})
			began := time.Now()
			s.decided(s.begin(workflows.TaskQueue, sessionflow.Input{Config: json.RawMessage(team)}))
			seconds.add(time.Since(began).Seconds())
		}
	}
	b.ReportMetric(all.median(), "all-s")
	b.ReportMetric(quorum.median(), "quorum-s")
	b.ReportMetric(quorum.median()/all.median(), "quorum-s-ratio")
	b.ReportMetric(0, "ns/op") // two sessions
}
