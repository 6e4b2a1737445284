package scenario

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/project"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/scenario"
)

// stepPrefix is the prefix of a step's ID in the name of its activity.
const stepPrefix = "step-"

// showActivities prints long calls and waits of the running step.
func (b *board) showActivities(ctx context.Context, conn *hall.Connection, r *run) {
	if r.result.Over() || time.Since(r.described) < runs.DescribeInterval {
		return
	}
	r.described = time.Now()
	news := r.activities.News(runs.Activities(ctx, conn, r.workflow()), time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range news {
		b.print(r.slug + " " + strings.TrimPrefix(line, stepPrefix))
	}
}

// connectOpen connects to the store of open runs. If the address is known, it also
// connects to the server.
func connectOpen(ctx context.Context, c *hall.CLI) (*hall.Connection, error) {
	t, err := c.Target()
	if err == nil && t.Cluster == (c.Bucket != "") {
		if conn, err := c.Connect(ctx, t, slog.New(slog.DiscardHandler)); err == nil {
			return conn, nil
		}
	}
	return c.ConnectStore(ctx)
}

// present is the server's information about a run without a result.
type present struct {
	activities []progress.Activity
	end        *artifact.Error // how Temporal cut it off; nil if it did not
}

// presentOf returns the server's information about the open runs of scenarios, by run ID.
func presentOf(ctx context.Context, conn *hall.Connection, in *project.Project, slugs []string) map[string]present {
	all := map[string]present{}
	if conn.Client == nil {
		return all
	}
	for _, slug := range slugs {
		open, _ := openRuns(in, slug) // catchUp has already reported the error
		for _, r := range open {
			if r.wasCutOff(ctx, conn) {
				all[r.id] = present{end: r.end}
			} else {
				all[r.id] = present{activities: runs.Activities(ctx, conn, r.workflow())}
			}
		}
	}
	return all
}

// set adds the running step and its activity, or the end of a run that was cut off.
func (r *recentRun) set(p present) {
	r.setActivities(p.activities)
	if p.end != nil {
		r.Status, r.text, r.Error = scenario.Fail, strings.ToLower(p.end.Type), &p.end.Message
	}
}

// setActivities adds the running step and its activity.
func (r *recentRun) setActivities(all []progress.Activity) {
	for _, a := range all {
		id, isStep := strings.CutPrefix(a.Agent, stepPrefix)
		if !isStep {
			continue
		}
		r.Step, r.now = &id, a
		if a.Kind != "" {
			r.Doing = &a.Doing
		}
	}
}

// why returns the reason why a run failed, or the activity of an open run.
func (r *recentRun) why(now time.Time) string {
	var why []string
	if r.FailedStep != nil {
		why = append(why, *r.FailedStep)
	}
	if r.Error != nil {
		why = append(why, *r.Error)
	}
	if len(why) == 0 && r.Step != nil {
		why = append(why, *r.Step, r.now.Timed(now))
	}
	return strings.Join(why, ": ")
}

// doing is the activity of the running step in the status of a run.
type doing struct {
	Step  *string             `json:"step"`  // ID of the running step; null if it is unknown
	Doing *coordination.Doing `json:"doing"` // its activity; null if it is unknown

	now progress.Activity
}
