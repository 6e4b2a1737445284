package pull

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/workflows/drive"
)

// Command is `conclave pull`.
func Command(c *hall.CLI) *cobra.Command {
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
	if err := CheckDir(dir); err != nil {
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
	summary, err := copyRun(ctx, conn, id, dir, verify)
	var damage *DamageError
	if err != nil && !(verify && errors.As(err, &damage)) {
		return err
	}
	if verify {
		verified, err := Verify(ctx, summary.Dir)
		if err != nil {
			return orInterrupted(ctx, conn, err, id, dir, true)
		}
		summary.Verified = &verified
	}
	if err != nil && len(summary.Verified.Problems) == 0 {
		return err // it is no problem of the copy, but one all the same
	}
	return printSummary(conn.CLI, summary)
}

// copyRun copies a run and reports progress.
func copyRun(ctx context.Context, conn *hall.Connection, id, dir string, verify bool) (Summary, error) {
	told := time.Now()
	summary, err := Session(ctx, conn.Store, id, dir, func(done, total int) {
		if !conn.Scripted() && time.Since(told) > time.Second {
			told = time.Now()
			conn.Infof("%d of %d files", done, total)
		}
	})
	var damage *DamageError
	switch {
	case errors.Is(err, ErrNoSession):
		return summary, conn.NoFiles(id)
	case errors.As(err, &damage):
		return summary, hall.Exitf(hall.ExitNoAnswer, "pull session %s: %w; all else is copied, and `%s` lists what is wrong", id, err, retryLine(conn, id, dir, true))
	case err != nil:
		return summary, orInterrupted(ctx, conn, fmt.Errorf("pull session %s: %w", id, err), id, dir, verify)
	}
	return summary, nil
}

// orInterrupted replaces the error of an interrupted command by the way to go on.
func orInterrupted(ctx context.Context, conn *hall.Connection, err error, id, dir string, verify bool) error {
	if ctx.Err() == nil {
		return err
	}
	return hall.Exitf(hall.ExitInterrupted, "interrupted: what was copied to %s is kept; `%s` goes on", dir, retryLine(conn, id, dir, verify))
}

// retryLine is the command line that repeats a pull.
func retryLine(conn *hall.Connection, id, dir string, verify bool) string {
	command := "pull"
	if verify {
		command += " --verify"
	}
	return conn.CommandLine(command, id, hall.ShellQuote(dir))
}

// printSummary prints the numbers of a pull and the problems of the copy.
func printSummary(c *hall.CLI, s Summary) error {
	broken := 0
	if s.Verified != nil {
		broken = len(s.Verified.Problems)
	}
	if c.Scripted() {
		if err := c.PrintJSON(s); err != nil || broken == 0 {
			return err
		}
		return hall.Exit(hall.ExitNoAnswer)
	}
	if s.Status == drive.Running {
		c.Infof("it is still running: pull again for the rest")
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
	if _, err := io.WriteString(c.Stdout, out.String()); err != nil {
		return hall.PrintError(err)
	}
	if broken > 0 {
		return hall.Exitf(hall.ExitNoAnswer, "verify session %s: %s in %s; pulled into a new directory, what is wrong there too is wrong in the store",
			s.SessionID, progress.Plural(broken, "problem"), s.Dir)
	}
	return nil
}
