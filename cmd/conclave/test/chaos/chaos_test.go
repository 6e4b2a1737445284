//go:build e2e

package chaos

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// size is the number of concurrent runs; CONCLAVE_CHAOS=short selects the small one of CI.
type size struct {
	sessions, pipelines, scenarios int
	starts                         time.Duration // the time over which they start
	pause                          time.Duration // before each fault
	rounds                         int           // the most of each fault
}

func chosen() size {
	if os.Getenv("CONCLAVE_CHAOS") == "short" {
		return size{20, 3, 3, 100 * time.Second, 2 * time.Second, 1}
	}
	return size{200, 30, 30, 4 * time.Minute, 8 * time.Second, 3}
}

// All runs end well on a cluster whose parts are killed, stalled and cut off, and no action is
// doubled.
func TestChaos(t *testing.T) {
	began := time.Now()
	c := newCluster(t)
	c.startWorkers()
	n := chosen()
	runs := plannedRuns(n.sessions, n.pipelines, n.scenarios)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.startAll(runs, n.starts)
		c.awaitAll(runs)
	}()
	report := &report{began: began, struck: map[string]int{}}
	c.strike(report, ended, n)
	report.lasted = time.Since(began)

	for _, r := range runs {
		if r.failed != "" {
			report.badEnds = append(report.badEnds, r.id+": "+r.failed)
		}
		report.recorded += int(r.usage.ModelCalls)
		if n := c.model.byRun[r.id]; n < int(r.usage.ModelCalls) {
			report.overcounted = append(report.overcounted, fmt.Sprintf("%s: %d calls on record, %d paid", r.id, r.usage.ModelCalls, n))
		}
	}
	for _, r := range of(runs, "session") {
		report.doubled = append(report.doubled, c.doubled(r.id)...)
	}
	for _, r := range of(runs, "scenario") {
		report.unverified = append(report.unverified, c.evidence(r.id)...)
	}
	report.unverified = append(report.unverified, c.verifyAll(t, of(runs, "session", "pipeline"))...)
	report.paid, report.exposed = c.model.paid()
	report.write(t, c, runs)
	if len(report.badEnds) > 0 {
		for _, w := range c.workers {
			t.Logf("the end of the log of the worker %s:\n%s", w.name, w.tail())
		}
	}
	require.Empty(t, report.badEnds)
	require.Empty(t, report.doubled)
	require.Empty(t, report.unverified)
	require.LessOrEqual(t, report.paid-report.recorded, report.exposed, "only calls in flight at a fault are paid again")
	require.Empty(t, report.overcounted, "every call on record was paid")
}

// strike causes one fault after another until the runs have ended: each kind at least once and at
// most n.rounds times, so that a busy machine can follow. Then it waits for the end.
func (c *cluster) strike(report *report, ended <-chan struct{}, n size) {
	for i := range n.rounds * len(faults) {
		select {
		case <-ended:
			if i >= len(faults) {
				return
			}
		case <-time.After(n.pause):
		}
		f := faults[i%len(faults)]
		over := c.model.during(f.hits(c)...)
		f.run(c)
		c.revive(report)
		// A step whose heartbeats were lost is given to another worker within this time.
		c.pass(4 * time.Second)
		over()
		report.struck[f.name]++
		c.t.Logf("%s: %s", time.Since(report.began).Round(time.Second), f.name)
	}
	for waiting := true; waiting; c.revive(report) {
		select {
		case <-ended:
			waiting = false
		case <-time.After(n.pause):
		}
	}
}

// revive starts the workers that ended by themselves.
func (c *cluster) revive(report *report) {
	for _, w := range c.workers {
		if w.revive() {
			report.struck["workers that ended by themselves and were started again"]++
		}
	}
}

// report is what a run of the test has found.
type report struct {
	began                        time.Time
	lasted                       time.Duration
	struck                       map[string]int
	badEnds, doubled, unverified []string
	overcounted                  []string
	paid, recorded, exposed      int
}

// write logs the report as a Markdown table, and stores it where CONCLAVE_CHAOS_REPORT says.
func (r *report) write(t *testing.T, c *cluster, runs []*run) {
	t.Helper()
	var b strings.Builder
	row := func(name, value string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, fmt.Sprintf(value, args...))
	}
	row("runs", "%d sessions, %d pipelines, %d scenarios in %s", len(of(runs, "session")), len(of(runs, "pipeline")), len(of(runs, "scenario")), r.lasted.Round(time.Second))
	for _, f := range faults {
		row(f.name, "%d times", r.struck[f.name])
	}
	row("S3 requests answered 503, without an answer", "%d, %d", c.storageFaults("busy"), c.storageFaults("silence"))
	row("faults of the model", "%s", counted(c.model.faults))
	row("runs that did not end well", "%d", len(r.badEnds))
	row("actions doubled or lost", "%d", len(r.doubled))
	row("artifacts that do not verify", "%d", len(r.unverified))
	row("model calls paid", "%d", r.paid)
	row("model calls on record", "%d", r.recorded)
	row("runs with more calls on record than were paid", "%d", len(r.overcounted))
	row("paid again, of the calls in flight at a fault", "%d of %d", r.paid-r.recorded, r.exposed)
	for _, skipped := range c.notRun {
		row("not run", "%s", skipped)
	}
	t.Log("\n" + b.String())
	for _, faults := range [][]string{r.badEnds, r.doubled, r.unverified, r.overcounted} {
		for _, fault := range faults {
			t.Log(fault)
		}
	}
	if file := os.Getenv("CONCLAVE_CHAOS_REPORT"); file != "" {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	}
}
