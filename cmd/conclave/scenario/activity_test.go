package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/hall/halltest"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/scenario"
	scenarioflow "conclave/workflows/scenario"
)

func TestRecentRun_activities(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	now := since.Add(41 * time.Second)
	record := progress.Activity{Work: "RecordScenario", Doing: coordination.Doing{Kind: coordination.Queued, Since: since, What: "no worker has taken it yet"}}
	calling := progress.Activity{Agent: "step-02", Doing: coordination.Doing{Kind: coordination.CallsModel, Since: since, What: "model call 3"}}
	setUp := progress.Activity{Agent: "step-02", Doing: coordination.Doing{Since: since, What: "attempt 2 after the loss of its worker"}}
	failed, message := "01", "no lamp"
	cutOff := recentRun{Status: scenario.Running, text: "running"}
	cutOff.set(present{end: &artifact.Error{Type: "Terminated", Message: "terminated by kim@desk: wrong scenario"}})
	require.Equal(t, scenario.Fail, cutOff.Status)
	require.Equal(t, "terminated", cutOff.text)
	for name, tt := range map[string]struct {
		run        recentRun
		activities []progress.Activity
		why        string
		json       string
	}{
		"at work":      {recentRun{}, []progress.Activity{record, calling}, "02: 0:41 model call 3", `{"step":"02","doing":{"kind":"model","since":"2026-11-22T08:00:00Z","what":"model call 3"}}`},
		"being set up": {recentRun{}, []progress.Activity{setUp}, "02: 0:41 attempt 2 after the loss of its worker", `{"step":"02","doing":null}`},
		"unknown":      {recentRun{}, nil, "", `{"step":null,"doing":null}`},
		"cut off":      {cutOff, nil, "terminated by kim@desk: wrong scenario", `{"step":null,"doing":null}`},
		"failed":       {recentRun{FailedStep: &failed, Error: &message}, nil, "01: no lamp", `{"step":null,"doing":null}`},
	} {
		tt.run.setActivities(tt.activities)
		require.Equal(t, tt.why, tt.run.why(now), name)
		document, err := json.Marshal(tt.run.doing)
		require.NoError(t, err)
		require.JSONEq(t, tt.json, string(document), name)
	}
}

// A command prints once that no worker polls the queue, and again after a worker has polled.
func TestBoard_noteSilence(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := newBoard(&hall.CLI{Stderr: &out}, &order{})
	for _, polled := range []bool{false, false, true, true, false} {
		b.noteSilence(fmt.Sprintf("polled: %v", polled), polled)
	}
	require.Equal(t, "polled: false\npolled: true\npolled: true\npolled: false\n", out.String())
}

// On a local stack, a run of another task queue has no worker in this process.
func TestLookUp_foreignQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &halltest.Server{NoWorker: true}
		server.Add(&halltest.Execution{ID: "scenario-buy-r1", Type: scenarioflow.Type, Queue: "team-q"})
		conn, _, _ := server.Connect(nil)
		conn.Target = hall.Target{DataDir: "/data"}
		r, notes := &run{slug: "buy", id: "r1"}, make(chan string, 1)
		defer runs.NoteSilence(t.Context(), conn, r.lookUp(t.Context(), conn), func(why string, _ bool) { notes <- why })()
		require.Contains(t, <-notes, "no worker polls the task queue team-q")
	})
}
