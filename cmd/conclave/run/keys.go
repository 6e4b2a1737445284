package runs

import (
	"cmp"
	"context"
	"strings"

	"conclave/cmd/conclave/cli"
	"conclave/workflows"
)

const keyHelp = "p pause or resume · f decide now · s say something to the agents · o open the page · Ctrl-C stop watching, nothing is lost"

// pressKey does what a key means for a followed run. What the block does not show of it is noted above.
func pressKey(ctx context.Context, conn *cli.Connection, run Run, d cli.Display, key string, ask func(question string) string) {
	r := Request{}
	var err error
	switch key {
	case "p":
		if r.Verb = workflows.PauseSignal; Refreshed(ctx, conn, run).waiting == workflows.Paused {
			r.Verb = workflows.ResumeSignal
		}
	case "f":
		var state struct{ Leader string }
		_ = Query(ctx, conn, run.Workflow, workflows.StateQuery, &state)
		if strings.EqualFold(ask("decide now for "+cmp.Or(cli.Line(state.Leader), "no answer")+"? Running steps are ended. [y/N] "), "y") {
			r.Verb = workflows.FinishSignal
		}
	case "s":
		if r.Text = ask("say to all agents: "); r.Text != "" {
			r.Verb = workflows.SaySignal
		}
	case "o":
		err = conn.OpenPage(run.page(conn.Pages))
	case "?":
		d.Note(keyHelp)
	}
	if r.Verb != "" {
		_, err = Steer(ctx, conn, []*Kind{run.Kind}, run.Name(), r)
	}
	if err != nil {
		d.Note(err.Error())
	}
}
