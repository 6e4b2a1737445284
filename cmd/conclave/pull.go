package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/pull"
	"conclave/workflows/drive"
)

func (c *cli) pullCommand() *cobra.Command {
	var verify bool
	cmd := &cobra.Command{
		Use:   "pull ID DIR",
		Short: "Copy the session directory to DIR",
		Long: `Copy everything that is on record of a session, or of a run of a pipeline, to DIR:
answers, votes, workspaces, transcripts, the ledger. A session that still runs can be pulled too, and again
later: only what is new is copied. It never runs a step.

With --verify the copy is compared with itself afterwards: every workspace with
its manifest (content, links, executable bits, nothing missing, nothing extra),
every step with its commit, and the final answer with the one it is made from.
What is wrong is printed by path, and the exit code is 2.

Without an address the session is taken from the local stack; from a cluster,
name its bucket with --bucket.`,
		Example: `  conclave pull 20261121-153012-k3f9 ./session
  conclave pull --verify 20261121-153012-k3f9 ./session
  conclave pull --bucket sessions --prefix team-a 20261121-153012-k3f9 ./session`,
		Args: arguments("ID", "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.pull(cmd.Context(), args[0], args[1], verify) },
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "compare the copy with its manifests and commits")
	return cmd
}

func (c *cli) pull(ctx context.Context, id, dir string, verify bool) error {
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
	return c.pullFrom(ctx, p, id, dir, verify)
}

// pullFrom copies a session of the place's store.
func (c *cli) pullFrom(ctx context.Context, p *place, id, dir string, verify bool) error {
	summary, err := c.copySession(ctx, p, id, dir, verify)
	var damage *pull.DamageError
	if err != nil && !(verify && errors.As(err, &damage)) {
		return err
	}
	if verify {
		verified, err := pull.Verify(ctx, summary.Dir)
		if err != nil {
			return c.orInterrupted(ctx, err, id, dir, true)
		}
		summary.Verified = &verified
	}
	if err != nil && len(summary.Verified.Problems) == 0 {
		return err // it is no problem of the copy, but one all the same
	}
	return c.printPulled(summary)
}

// copySession is the copying itself.
func (c *cli) copySession(ctx context.Context, p *place, id, dir string, verify bool) (pull.Summary, error) {
	told := time.Now()
	summary, err := pull.Session(ctx, p.store, id, dir, func(done, total int) {
		if c.people() && time.Since(told) > time.Second {
			told = time.Now()
			c.say("%d of %d files", done, total)
		}
	})
	var damage *pull.DamageError
	switch {
	case errors.Is(err, pull.ErrNoSession):
		return summary, c.noFiles(p, id)
	case errors.As(err, &damage):
		return summary, end(exitNoAnswer, "pull session %s: %w; all else is copied, and `%s` lists what is wrong", id, err, c.pullAgain(id, dir, true))
	case err != nil:
		return summary, c.orInterrupted(ctx, fmt.Errorf("pull session %s: %w", id, err), id, dir, verify)
	}
	return summary, nil
}

// orInterrupted is err, unless it is only that somebody has interrupted the command.
func (c *cli) orInterrupted(ctx context.Context, err error, id, dir string, verify bool) error {
	if ctx.Err() == nil {
		return err
	}
	return end(exitInterrupted, "interrupted: what was copied to %s is kept; `%s` goes on", dir, c.pullAgain(id, dir, verify))
}

func (c *cli) pullAgain(id, dir string, verify bool) string {
	command := "pull"
	if verify {
		command += " --verify"
	}
	return c.again(command, id+" "+shellQuote(dir))
}

// printPulled prints what a pull did, and what is wrong with the copy.
func (c *cli) printPulled(s pull.Summary) error {
	broken := 0
	if s.Verified != nil {
		broken = len(s.Verified.Problems)
	}
	if !c.people() {
		if err := c.printJSON(s); err != nil || broken == 0 {
			return err
		}
		return silent(exitNoAnswer)
	}
	if s.Status == drive.Running {
		c.say("it is still running: pull again for the rest")
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %d files, %d of them copied now (%d bytes)\n", s.Dir, s.Files, s.Copied, s.Bytes)
	if s.Verified != nil {
		for _, problem := range s.Verified.Problems {
			fmt.Fprintln(&out, progress.Line(problem.String()))
		}
		if broken == 0 {
			fmt.Fprintf(&out, "verified: %s, %s\n", progress.Plural(s.Verified.Manifests, "manifest"), progress.Plural(s.Verified.Steps, "step"))
		}
	}
	if _, err := io.WriteString(c.stdout, out.String()); err != nil {
		return unprinted(err)
	}
	if broken > 0 {
		return end(exitNoAnswer, "verify session %s: %s in %s; pulled into a new directory, what is wrong there too is wrong in the store",
			s.SessionID, progress.Plural(broken, "problem"), s.Dir)
	}
	return nil
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
