package start

import (
	"context"
	"errors"
	"fmt"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/inputs"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/files/artifact"
	turns "conclave/engine/session"
)

// continueSession checks that the session to continue has a decision, and uses its team unless o has
// one. Without a store the workers do this.
func (o *sessionOrder) continueSession(ctx context.Context, conn *cli.Connection, w *teams.Worker, here bool) error {
	id := o.input.Continues
	if conn.Store == nil {
		if o.offline {
			return fmt.Errorf("--offline with --continue needs --bucket, to read the team of session %s; else name a team with --config", id)
		}
		o.source = "the team of session " + id
		return nil
	}
	c, err := acts.Continue(ctx, conn.Store, id)
	refused, ok := errors.AsType[*acts.ContinueError](err)
	if ok && runs.IsOpen(ctx, conn, []*runs.Kind{Kind()}, id) {
		return cli.Exitf(cli.ExitUsage, "session %s cannot be continued: it is still open; `%s` waits for its decision, `%s` decides it now",
			id, conn.CommandLine("watch", id), conn.CommandLine("finish", id))
	}
	if ok {
		return cli.Exitf(cli.ExitUsage, "%w; `%s` shows all sessions with their states", refused, conn.CommandLine("list"))
	}
	if err != nil {
		return err
	}
	if left := len(c.Turns) - len(turns.NewestTurns(o.input.Query, c.Turns)); left > 0 {
		conn.Infof("the oldest %s left out: a query and its earlier turns have at most %d KB", cli.Plural(left, "turn"), turns.MaxConversation>>10)
	}
	if len(o.team.Agents) > 0 || o.input.Team != "" {
		return nil
	}
	if err := o.inheritTeam(ctx, conn, w, c.Session); err != nil {
		return err
	}
	if err := w.Serves(ctx, o.team); preventsStart(err, here) {
		return err
	}
	return nil
}

// rememberBase records the directory of the session's base. It is that of --base, or else that of
// the continued session.
func (f sessionFlags) rememberBase(conn *cli.Connection, id string) error {
	dir := f.material.Directory()
	if dir == "" && f.continues != "" && conn.Store != nil {
		var err error
		if dir, err = inputs.Directory(conn, f.continues); err != nil {
			return err
		}
	}
	inputs.Remember(conn, id, dir)
	return nil
}

func (o *sessionOrder) inheritTeam(ctx context.Context, conn *cli.Connection, w *teams.Worker, session artifact.Session) error {
	id := o.input.Continues
	o.source = "session " + id
	if conn.Cluster && !o.offline {
		return nil // the workers take it
	}
	of, err := teams.Registry(conn.Target).ByHash(ctx, conn.Store, artifact.InBucket(id), session.ConfigHash)
	if err != nil {
		return fmt.Errorf("read the team of session %s: %w; name a team with --config", id, err)
	}
	if o.offline {
		of = of.Offline()
	}
	o.team = of
	if conn.Cluster {
		o.input.Config, err = of.Canonical()
		return err
	}
	o.offline = of.OfflineKind() != ""
	_, err = w.Prepare(conn.CLI, of)
	return err
}
