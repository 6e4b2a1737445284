package pull

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/workflows/drive"
)

// Command returns `conclave pull`.
func Command(c *hall.CLI) *cobra.Command {
	var verify bool
	cmd := &cobra.Command{
		Use:   "pull ID DIR",
		Short: "Copy the session directory to DIR",
		Long: `Copy the files of a session, or of a pipeline's run, to DIR: answers, votes,
workspaces, transcripts, the ledger. A running session can be pulled, and pulled
again later: only new files are copied. It never runs a step.

With --verify the copy is compared with itself afterwards: every workspace with
its manifest (content, links, executable bits, nothing missing, nothing extra),
every step with its commit, and the final answer with the one it was made from.
Problems are printed by path, and the exit code is 2.

Without an address the session is taken from the local stack; from a cluster,
name its bucket with --bucket.`,
		Example: `  conclave pull 20261121-153012-k3f9 ./session
  conclave pull --verify 20261121-153012-k3f9 ./session
  conclave pull --bucket sessions --prefix team-a 20261121-153012-k3f9 ./session`,
		Args: hall.Arguments("ID", "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), c, args[0], args[1], verify) },
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "compare the copy with its manifests and commits")
	return cmd
}

func run(ctx context.Context, c *hall.CLI, id, dir string, verify bool) error {
	if err := hall.CheckRunID(id); err != nil {
		return err
	}
	if err := checkDir(dir); err != nil {
		return err
	}
	conn, err := c.ConnectStore(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return pullFrom(ctx, conn, id, dir, verify)
}

// pullFrom copies a run from the store of a connection.
func pullFrom(ctx context.Context, conn *hall.Connection, id, dir string, verify bool) error {
	copied, err := copyRun(ctx, conn, id, dir, verify)
	if _, damaged := errors.AsType[*damageError](err); err != nil && !(verify && damaged) {
		return err
	}
	if verify {
		verified, err := verifyDir(ctx, copied.Dir)
		if err != nil {
			return orInterrupted(ctx, conn, err, id, dir, true)
		}
		copied.Verified = &verified
	}
	if err != nil && len(copied.Verified.Problems) == 0 {
		return err // the store is damaged where the verification does not look
	}
	return printResult(conn.CLI, copied)
}

// copyRun copies a run and reports progress.
func copyRun(ctx context.Context, conn *hall.Connection, id, dir string, verify bool) (result, error) {
	printed := time.Now()
	copied, err := copySession(ctx, conn.Store, id, dir, func(done, total int) {
		if !conn.Scripted() && time.Since(printed) > time.Second {
			printed = time.Now()
			conn.Infof("%d of %d files", done, total)
		}
	})
	_, damaged := errors.AsType[*damageError](err)
	switch {
	case errors.Is(err, errNoSession):
		return copied, conn.NoFiles(id)
	case damaged:
		return copied, hall.Exitf(hall.ExitNoAnswer, "pull session %s: %w; all else is copied, and `%s` lists what is wrong", id, err, retryLine(conn, id, dir, true))
	case err != nil:
		return copied, orInterrupted(ctx, conn, fmt.Errorf("pull session %s: %w", id, err), id, dir, verify)
	}
	return copied, nil
}

// orInterrupted replaces the error of an interrupted command by the command line that resumes it.
func orInterrupted(ctx context.Context, conn *hall.Connection, err error, id, dir string, verify bool) error {
	if ctx.Err() == nil {
		return err
	}
	return hall.Exitf(hall.ExitInterrupted, "interrupted: what was copied to %s is kept; `%s` resumes", dir, retryLine(conn, id, dir, verify))
}

// retryLine returns the command line that repeats a pull.
func retryLine(conn *hall.Connection, id, dir string, verify bool) string {
	command := "pull"
	if verify {
		command += " --verify"
	}
	return conn.CommandLine(command, id, hall.ShellQuote(dir))
}

// printResult prints the numbers of a pull and the problems of the copy.
func printResult(c *hall.CLI, r result) error {
	problems := 0
	if r.Verified != nil {
		problems = len(r.Verified.Problems)
	}
	if c.Scripted() {
		if err := c.PrintJSON(r); err != nil || problems == 0 {
			return err
		}
		return hall.Exit(hall.ExitNoAnswer)
	}
	if r.Status == drive.Running {
		c.Infof("it is still running: pull again for the rest")
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %d files, %d of them copied now (%d bytes)\n", r.Dir, r.Files, r.Copied, r.Bytes)
	if r.Verified != nil {
		for _, p := range r.Verified.Problems {
			fmt.Fprintln(&out, progress.Line(p.String()))
		}
		if problems == 0 {
			fmt.Fprintf(&out, "verified: %s, %s\n", progress.Plural(r.Verified.Manifests, "manifest"), progress.Plural(r.Verified.Steps, "step"))
		}
	}
	if err := c.Print(out.String()); err != nil {
		return err
	}
	if problems > 0 {
		return hall.Exitf(hall.ExitNoAnswer, "verify session %s: %s in %s; pulled into a new directory, what is wrong there too is wrong in the store",
			r.SessionID, progress.Plural(problems, "problem"), r.Dir)
	}
	return nil
}
