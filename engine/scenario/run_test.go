package scenario_test

import (
	"encoding/xml"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/scenario"
)

const stored = `{"run_id":"r1","run_number":3,"scenario":"sign-in","status":"fail","started_at":"2026-11-21T10:00:00Z",
"completed_at":"2026-11-21T10:00:02Z","duration_ms":2000,"steps":[
{"id":"01","title":"Open","status":"pass","duration_ms":1500,"evidence_paths":["step-01/evidence/after.png"],"error":null,"summary":"It opened."},
{"id":"02","title":"Sign in","status":"fail","duration_ms":500,"evidence_paths":[],"error":"no button\nin <form>","summary":"","warnings":["odd"]},
{"id":"03","title":"Leave","status":"skipped","duration_ms":0,"evidence_paths":[],"error":null,"summary":""}]}`

func TestParseRun(t *testing.T) {
	t.Parallel()
	r, err := scenario.ParseRun([]byte(stored), "sign-in", "r1")
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
		_, err := scenario.ParseRun([]byte(c[0]), c[1], c[2])
		require.Error(t, err, c)
	}
}

func TestRun_Over(t *testing.T) {
	t.Parallel()
	for status, over := range map[scenario.Status]bool{"": false, scenario.Running: false, scenario.Pass: true, scenario.Fail: true, scenario.Cancelled: true} {
		require.Equal(t, over, scenario.Run{Status: status}.Over(), status)
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	require.Equal(t, scenario.Statistics{}, scenario.Fold(nil))
	runs := []scenario.Run{
		{RunID: "a", RunNumber: 1, Status: scenario.Pass, StartedAt: "2026-11-21T10:00:00Z", DurationMS: 100},
		{RunID: "b", RunNumber: 2, Status: scenario.Fail, StartedAt: "2026-11-21T10:00:05.5Z", DurationMS: 201},
		{RunID: "c", RunNumber: 3, Status: scenario.Cancelled, StartedAt: "2026-11-21T10:00:05Z", DurationMS: 9000},
		{RunID: "d", Status: scenario.Running, StartedAt: "2026-11-21T10:00:09Z"},
	}
	for range 10 {
		rand.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		s := scenario.Fold(runs)
		require.Equal(t, 3, s.TotalRuns, "one is running")
		require.Equal(t, []int{1, 1, 1}, []int{s.PassCount, s.FailCount, s.CancelledCount})
		require.Equal(t, int64(151), s.AvgDurationMS)
		require.Equal(t, scenario.Cancelled, *s.LastResult, "within a second numbers tell")
		require.Equal(t, "2026-11-21T10:00:05Z", *s.LastRun)
		require.Equal(t, 50, s.PassRate())
	}
}

func TestJUnit(t *testing.T) {
	t.Parallel()
	r, err := scenario.ParseRun([]byte(stored), "sign-in", "r1")
	require.NoError(t, err)
	why := "the browser\x1b is gone"
	broken := scenario.Run{RunID: "r2", RunNumber: 4, Scenario: "buy", Status: scenario.Fail, Steps: []scenario.Result{{ID: "01", Title: "Open", Status: scenario.Errored, Error: &why}}}
	data, err := scenario.JUnit([]scenario.Suite{
		{Slug: "sign-in", Title: "Sign in", Run: r},
		{Slug: "buy", Title: "Buy", Run: broken},
		{Slug: "pay", Title: "Pay", Problem: "not started"},
	})
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(data, new(struct {
		XMLName xml.Name `xml:"testsuites"`
	})))
	for _, want := range []string{
		`<?xml version="1.0" encoding="UTF-8"?>`,
		`<testsuites name="conclave scenarios" tests="5" failures="1" errors="2" skipped="1" time="2.000">`,
		`<testsuite name="sign-in" tests="3" failures="1" errors="0" skipped="1" time="2.000" timestamp="2026-11-21T10:00:00Z">`,
		`<property name="run_number" value="3"></property>`,
		`<testcase name="01 Open" classname="sign-in" time="1.500">`,
		"<system-out>It opened.&#xA;evidence: step-01/evidence/after.png</system-out>",
		`<failure message="no button" type="fail">no button&#xA;in &lt;form&gt;</failure>`,
		"<system-out>warning: odd</system-out>",
		`<skipped message="an earlier step did not pass"></skipped>`,
		`<error message="the browser� is gone" type="error">`,
		`<error message="not started" type="error"></error>`,
	} {
		require.Contains(t, string(data), want)
	}
}
