package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/pull"
	"conclave/engine/artifact"
)

func (c *cli) pullCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pull ID DIR",
		Short: "Copy the session directory to DIR",
		Long: `Copy everything that is on record of a session to DIR: answers, votes, workspaces,
transcripts, the ledger. A session that still runs can be pulled too, and again
later: only what is new is copied. It never runs a step.

Without an address the session is taken from the local stack; from a cluster,
name its bucket with --bucket.`,
		Example: `  conclave pull 20261121-153012-k3f9 ./session
  conclave pull --bucket sessions --prefix team-a 20261121-153012-k3f9 ./session`,
		Args: arguments("ID", "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.pull(cmd.Context(), args[0], args[1]) },
	}
}

func (c *cli) pull(ctx context.Context, id, dir string) error {
	if err := checkSessionID(id); err != nil {
		return err
	}
	if err := pull.CheckDir(dir); err != nil {
		return err
	}
	p, err := c.connectStore(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	told := time.Now()
	summary, err := pull.Session(ctx, p.store, id, dir, func(done, total int) {
		if c.people() && time.Since(told) > time.Second {
			told = time.Now()
			c.say("%d of %d files", done, total)
		}
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return end(exitInterrupted, "interrupted: what was copied to %s is kept; `%s` goes on", dir, c.again("pull", id+" "+shellQuote(dir)))
	case errors.Is(err, artifact.ErrNotFound):
		return end(exitUsage, "there is no session %s in %s; `%s` shows those there are, and a session has files once it is prepared",
			id, p.store.URL("sessions/"), c.again("list", ""))
	case err != nil:
		return fmt.Errorf("pull session %s: %w", id, err)
	}
	if !c.people() {
		return c.printJSON(summary)
	}
	if summary.Status == "running" {
		c.say("the session is still running: pull again for the rest")
	}
	_, err = fmt.Fprintf(c.stdout, "%s: %d files, %d of them copied now (%d bytes)\n", summary.Dir, summary.Files, summary.Copied, summary.Bytes)
	return unprinted(err)
}

// connectStore reaches only the store: of the bucket that is named, else of
// the local stack.
func (c *cli) connectStore(ctx context.Context) (*place, error) {
	p := &place{target: target{cluster: true}}
	if c.bucket == "" {
		t, err := c.target()
		if err != nil {
			return nil, err
		}
		if t.cluster {
			return nil, errors.New("the files of a cluster's sessions are in its bucket: name it with --bucket (and --prefix)")
		}
		p.target = t
		if err := c.joinStack(ctx, p); err != nil {
			return nil, err
		}
	}
	if err := c.openStore(ctx, p); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}
