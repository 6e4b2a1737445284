package web

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
)

// BenchmarkOpen is the first look at a session of a thousand steps.
func BenchmarkOpen(b *testing.B) {
	p := stage.Thousand(b)
	before := processorTime(b)
	for b.Loop() {
		f := newFollowed("/sessions/s1", newSession(record.NewReader(p.Store, p.Layout, nil)))
		html, err := f.renderPage(b.Context(), "", false)
		require.NoError(b, err)
		b.ReportMetric(float64(len(html)), "bytes")
	}
	b.ReportMetric((processorTime(b)-before)/float64(b.N), "cpu-ms/open")
}

// processorTime is that of this process, in milliseconds: it does not depend on other work.
func processorTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

// BenchmarkFollow updates such a session after an answer. It reports the bytes that each reader is
// sent.
func BenchmarkFollow(b *testing.B) {
	p := stage.Thousand(b)
	f := newFollowed("/sessions/s1", newSession(record.NewReader(p.Store, p.Layout, nil)))
	require.NoError(b, f.refresh(b.Context()))
	_, version, _, _ := f.newerParts(0)
	sent, agent, worked := 0, 0, 0.0
	for b.Loop() {
		b.StopTimer()
		p.Answer(1, "agent_"+string(rune('a'+agent%10)), "Better still.", nil)
		agent++
		before := processorTime(b)
		b.StartTimer()
		require.NoError(b, f.refresh(b.Context()))
		worked += processorTime(b) - before
		parts, now, _, _ := f.newerParts(version)
		version = now
		for _, part := range parts {
			sent += len(part.HTML)
		}
	}
	b.ReportMetric(float64(sent)/float64(agent), "bytes/change")
	b.ReportMetric(worked/float64(agent), "cpu-ms/change")
}
