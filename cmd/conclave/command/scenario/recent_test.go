package scenario

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
)

func TestRecentRun_activities(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	now := since.Add(41 * time.Second)
	record := cli.Activity{Work: "RecordScenario", Doing: coordination.Doing{Kind: coordination.Queued, Since: since, What: "no worker has taken it yet"}}
	calling := cli.Activity{Agent: "step-02", Doing: coordination.Doing{Kind: coordination.CallsModel, Since: since, What: "model call 3"}}
	setUp := cli.Activity{Agent: "step-02", Doing: coordination.Doing{Since: since, What: "attempt 2 after the loss of its worker"}}
	failed, message := "01", "no lamp"
	cutOff := recentRun{Run: scenario.Run{Status: scenario.Running}, text: "running"}
	cutOff.addServerState(&run{end: &artifact.Error{Type: "Terminated", Message: "terminated by kim@desk: wrong scenario"}})
	require.Equal(t, scenario.Fail, cutOff.Status)
	require.Equal(t, "terminated", cutOff.text)
	for name, tt := range map[string]struct {
		run        recentRun
		activities []cli.Activity
		why        string
		json       string
	}{
		"at work":      {recentRun{}, []cli.Activity{record, calling}, "02: 0:41 model call 3", `{"step":"02","doing":{"kind":"model","since":"2026-11-22T08:00:00Z","what":"model call 3"}}`},
		"being set up": {recentRun{}, []cli.Activity{setUp}, "02: 0:41 attempt 2 after the loss of its worker", `{"step":"02","doing":null}`},
		"unknown":      {recentRun{}, nil, "", `{"step":null,"doing":null}`},
		"cut off":      {cutOff, nil, "terminated by kim@desk: wrong scenario", `{"step":null,"doing":null}`},
		"failed":       {recentRun{FailedStep: &failed, Error: &message}, nil, "01: no lamp", `{"step":null,"doing":null}`},
	} {
		tt.run.setActivities(tt.activities)
		require.Equal(t, tt.why, tt.run.reasonText(now), name)
		document, err := json.Marshal(tt.run.doing)
		require.NoError(t, err)
		require.JSONEq(t, tt.json, string(document), name)
	}
}
