package scenario

import (
	"encoding/xml"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/scenario"
)

const stored = `{"run_id":"r1","run_number":3,"scenario":"sign-in","status":"fail","started_at":"2026-11-21T10:00:00Z",
"completed_at":"2026-11-21T10:00:02Z","duration_ms":2000,"steps":[
{"id":"01","title":"Open","status":"pass","duration_ms":1500,"evidence_paths":["step-01/evidence/after.png"],"error":null,"summary":"It opened."},
{"id":"02","title":"Sign in","status":"fail","duration_ms":500,"evidence_paths":[],"error":"no button\nin <form>","summary":"","warnings":["odd"]},
{"id":"03","title":"Leave","status":"skipped","duration_ms":0,"evidence_paths":[],"error":null,"summary":""}]}`

func TestJUnit(t *testing.T) {
	t.Parallel()
	r, err := scenario.ParseRun([]byte(stored), "sign-in", "r1")
	require.NoError(t, err)
	why := "the browser\x1b is gone"
	broken := scenario.Run{RunID: "r2", RunNumber: 4, Scenario: "buy", Status: scenario.Fail, Steps: []scenario.Result{{ID: "01", Title: "Open", Status: scenario.Errored, Error: &why}}}
	data, err := marshalJUnit([]*run{
		{slug: "sign-in", title: "Sign in", result: r},
		{slug: "buy", title: "Buy", result: broken},
		{slug: "pay", title: "Pay", problem: errors.New("not started")},
	}, func(*run, string) string { return "" })
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

// A flaky step lists its failures, and the evidence of all attempts is attached.
func TestJUnit_flakyAndAttached(t *testing.T) {
	t.Parallel()
	why, cancelled := "no button", "the run was cancelled"
	r := &run{slug: "buy", id: "r1", title: "Buy", result: scenario.Run{RunID: "r1", Status: scenario.Pass, Only: []string{"02"}, Steps: []scenario.Result{
		{ID: "01", Title: "Open", Status: scenario.Skipped},
		{ID: "02", Title: "Buy", Status: scenario.Pass, Flaky: true, Attempts: []scenario.Attempt{
			{Status: scenario.Fail, Error: &why, EvidencePaths: []string{"step-02/evidence/after.png"}},
			{Status: scenario.Cancelled, Error: &cancelled},
			{Status: scenario.Pass, EvidencePaths: []string{"step-02/attempt-3/evidence/trace.zip", "gone.png"}},
		}},
	}}}
	data, err := marshalJUnit([]*run{r}, func(_ *run, path string) string {
		if path == "gone.png" {
			return ""
		}
		return "shop/" + path
	})
	require.NoError(t, err)
	for _, want := range []string{
		`<testsuite name="buy" tests="2" failures="0" errors="0" skipped="1"`,
		`<skipped message="left out by --only"></skipped>`,
		`<flakyFailure message="no button" type="fail">no button</flakyFailure>`,
		"attempt 1: fail&#xA;[[ATTACHMENT|shop/step-02/evidence/after.png]]&#xA;attempt 2: cancelled&#xA;" +
			"attempt 3: pass&#xA;[[ATTACHMENT|shop/step-02/attempt-3/evidence/trace.zip]]&#xA;evidence: gone.png",
	} {
		require.Contains(t, string(data), want)
	}
	require.Equal(t, 1, strings.Count(string(data), "<flakyFailure"), "a cancellation is no failure")
	require.Equal(t, "pass (flaky)", r.statusWord())
	require.Equal(t, "02 Buy passed in attempt 3, after: no button", r.failureReason())
}
