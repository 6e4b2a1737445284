package scenario

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const stored = `{"run_id":"r1","run_number":3,"scenario":"sign-in","status":"fail","started_at":"2026-11-21T10:00:00Z",
"completed_at":"2026-11-21T10:00:02Z","duration_ms":2000,"steps":[
{"id":"01","title":"Open","status":"pass","duration_ms":1500,"evidence_paths":["step-01/evidence/after.png"],"error":null,"summary":"It opened."},
{"id":"02","title":"Sign in","status":"fail","duration_ms":500,"evidence_paths":[],"error":"no button\nin <form>","summary":"","warnings":["odd"]},
{"id":"03","title":"Leave","status":"skipped","duration_ms":0,"evidence_paths":[],"error":null,"summary":""}]}`

func TestParseRun(t *testing.T) {
	t.Parallel()
	r, err := ParseRun([]byte(stored), "sign-in", "r1")
	require.NoError(t, err)
	require.True(t, r.Over())
	require.Equal(t, 1, r.Passed())
	failed, ok := r.Failed()
	require.True(t, ok)
	require.Equal(t, "02", failed.ID)
	for _, c := range [][3]string{
		{stored, "sign-in", "r2"},
		{stored, "sign-out", "r1"},
		{`{"run_id":"r1"`, "sign-in", "r1"},
		{`{"run_id":"r1","scenario":"sign-in","status":"great"}`, "sign-in", "r1"},
		{`{"run_id":"r1","scenario":"sign-in","status":"pass","steps":[{"status":"great"}]}`, "sign-in", "r1"},
		{`{"run_id":"r1","scenario":"sign-in","status":"pass","steps":[{"status":"pass"},{"status":"fail"}]}`, "sign-in", "r1"},
		{`{"run_id":"r1","scenario":"sign-in","status":"pass","steps":[{"status":"skipped"}]}`, "sign-in", "r1"},
	} {
		_, err := ParseRun([]byte(c[0]), c[1], c[2])
		require.Error(t, err, c)
	}
}

func TestRun_Over(t *testing.T) {
	t.Parallel()
	for status, over := range map[Status]bool{"": false, Running: false, Pass: true, Fail: true, Cancelled: true} {
		require.Equal(t, over, Run{Status: status}.Over(), status)
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	require.Equal(t, Statistics{}, Fold(nil))
	runs := []Run{
		{RunID: "a", RunNumber: 1, Status: Pass, StartedAt: "2026-11-21T10:00:00Z", DurationMS: 100},
		{RunID: "b", RunNumber: 2, Status: Fail, StartedAt: "2026-11-21T10:00:05.5Z", DurationMS: 201},
		{RunID: "c", RunNumber: 3, Status: Cancelled, StartedAt: "2026-11-21T10:00:05Z", DurationMS: 9000},
		{RunID: "d", Status: Running, StartedAt: "2026-11-21T10:00:09Z"},
	}
	for range 10 {
		rand.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		s := Fold(runs)
		require.Equal(t, 3, s.TotalRuns, "one is running")
		require.Equal(t, []int{1, 1, 1}, []int{s.PassCount, s.FailCount, s.CancelledCount})
		require.Equal(t, int64(151), s.AvgDurationMS)
		require.Equal(t, Cancelled, *s.LastResult, "within a second numbers tell")
		require.Equal(t, "2026-11-21T10:00:05Z", *s.LastRun)
		require.Equal(t, 50, s.PassRate())
	}
}
