package scenario

import (
	"context"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/engine/scenario"
	"conclave/workflows/drive"
	scenarioflow "conclave/workflows/scenario"
)

// Kind describes scenario runs for `conclave retry` and `conclave say`.
func Kind() *runs.Kind {
	return &runs.Kind{
		Type: scenarioflow.Type, Noun: "scenario run", List: "scenario list", MemoID: scenarioflow.MemoRun, MemoSlug: scenarioflow.MemoScenario, Failed: string(scenario.Fail), Dirs: artifact.InScenario("*", "*").Root(),
		Page:   "/scenarios/",
		Adapt:  adapt,
		Reopen: reopen,
		Follow: func(conn *hall.Connection, r runs.Run) string {
			return conn.CommandLine("scenario watch", "DIR", slugOf(r), r.ID)
		},
	}
}

// slugOf returns the scenario of a run, or "" before the run is prepared.
func slugOf(r runs.Run) string { return runs.Memo(r.Memo, scenarioflow.MemoScenario, "") }

// adapt refuses to retry an open run, and refuses messages to a single agent or an
// ended run.
func adapt(conn *hall.Connection, r runs.Run, u *runs.Update) error {
	switch {
	case u.Name == drive.RetrySignal && r.Running():
		return hall.Exitf(hall.ExitUsage, "%s %s: it is still running; `%s` follows it", u.Action, r, r.Kind.Follow(conn, r))
	case u.Name == drive.RetrySignal:
	case !r.Running():
		return hall.Exitf(hall.ExitUsage, "%s %s: it has ended (%s), so no step would read it", u.Action, r, r.Status)
	case u.Agent != "":
		return hall.Exitf(hall.ExitUsage, "%s %s: one agent runs every step; leave out --agent", u.Action, r)
	default:
		u.Accepted = "sent; the running step, or else the next one, reads it at its next safe point; %s follows the run"
	}
	return nil
}

// reopen returns the input of a run that continues from the first step that did not pass.
func reopen(_ context.Context, conn *hall.Connection, r runs.Run, asked drive.Request) (any, error) {
	switch {
	case asked.Agent != "":
		return nil, hall.Exitf(hall.ExitUsage, "retry %s: one agent runs every step; leave out --agent", r)
	case r.Status == string(scenario.Pass):
		return nil, hall.Exitf(hall.ExitUsage, "retry %s: it passed; nothing was started, `%s` starts a new run",
			r, conn.CommandLine("scenario run", "DIR", slugOf(r)))
	}
	in := scenarioflow.Input{Resume: true}
	if slug := slugOf(r); slug != "" {
		in.RunID, in.Plan.Slug = r.ID, slug
	}
	return in, nil
}
