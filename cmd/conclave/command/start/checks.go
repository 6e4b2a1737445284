package start

import (
	"context"
	"errors"
	"fmt"
	"os"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/inputs"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/session/check"
	"conclave/engine/text"
)

// checkChecks refuses a missing directory of checks and a team that runs no checks. A zero Team
// is not checked, because it is unknown here.
func checkChecks(dir string, t config.Team) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("--checks %s: %w; name a directory", dir, err)
	case !info.IsDir():
		return fmt.Errorf("--checks %s: it is a file; name a directory", dir)
	case len(t.Agents) > 0 && !t.Orchestrator.RunsChecks():
		return fmt.Errorf("--checks %s: the team runs no checks; set orchestrator.ballot to checks_shown, checks_break_ties or checks_decide", dir)
	}
	return nil
}

// reportBroken names the checks that fail on every answer, if the user gave checks. They were
// left out, so that a mistake in one would otherwise go unnoticed.
func reportBroken(ctx context.Context, conn *cli.Connection, id string) {
	if conn.Store == nil {
		return
	}
	layout := artifact.InBucket(id)
	began, err := artifact.ReadJSON[artifact.Session](ctx, conn.Store, layout.File("session.json"))
	if err != nil || began.Checks == "" {
		return
	}
	s, err := record.NewReader(conn.Store, layout, nil).Read(ctx)
	if err != nil {
		return // the answer counts more than a remark about it
	}
	for _, c := range s.Broken() {
		conn.Warnf("the check %s fails on every answer and was left out; see its output with %s", text.OneLine(text.Terminal(c.Title())), conn.CommandLine("view", id))
	}
}

func (o *sessionOrder) showChecks(dir string) (err error) {
	switch {
	case dir == "":
		return errors.New("--show-checks shows the checks of --checks: name their directory with --checks DIR")
	case len(o.team.Agents) == 0:
		return errors.New("--show-checks changes a team of this machine: name one with --config FILE, or set orchestrator.show_checks in the team")
	}
	o.team.Orchestrator.ShowChecks = true
	if o.input.Config != nil {
		o.input.Config, err = o.team.Canonical()
	}
	return err
}

// uploadChecks stores the user's checks and returns their reference, or "" without checks. It
// refuses a directory without a valid check, so that no session begins with it.
func uploadChecks(ctx context.Context, conn *cli.Connection, dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	if conn.Store == nil {
		return "", fmt.Errorf("--checks needs the bucket of the cluster's sessions: name it with --bucket (and --prefix)")
	}
	done, err := inputs.Upload(ctx, conn.CLI, conn.Store, dir, false)
	if err != nil {
		return "", err
	}
	stored, err := snapshot.Open(ctx, conn.Store, done.Hash)
	if err != nil {
		return "", err
	}
	if _, err := check.OfUser(ctx, stored.Manifest(), stored.ReadFile); err != nil {
		return "", fmt.Errorf("--checks %s: %w", dir, err)
	}
	return snapshot.Reference(done.Hash), nil
}
