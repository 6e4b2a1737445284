package pull

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/team"
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
again later: only new files are copied. It never runs a step. Files with names that
git would take for .git are refused.

It also writes index.html, a page that needs no server and no network, and ANSWER.md, the answer of the session or the final text of the run.

With --verify the copy is compared with itself afterwards: every workspace with
its manifest (content, links, executable bits, nothing missing, nothing extra),
every step with its commit and the ledger, the ledger with itself, the agents with
the status, and the final answer with the one it was made from. Problems are printed
by path, and the exit code is 2, as for files that could not be copied.

Without an address the session is taken from the local stack; from a cluster,
name its bucket with --bucket.`,
		Example: `  conclave pull 20261121-153012-k3f9 ./session
  conclave pull --verify 20261121-153012-k3f9 ./session
  conclave pull --json 20261121-153012-k3f9 ./session | jq -r '.left_out[].path'
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
	if err != nil {
		return err
	}
	if verify {
		verified, err := verifyDir(ctx, copied.Dir)
		if err != nil {
			return orInterrupted(ctx, conn, err, id, dir, true)
		}
		// A file that was left out is not reported again.
		verified.Problems = slices.DeleteFunc(verified.Problems, func(p problem) bool {
			return slices.ContainsFunc(copied.LeftOut, func(left problem) bool { return left.Path == p.Path })
		})
		copied.Verified = &verified
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
	switch {
	case errors.Is(err, errNoSession):
		return copied, conn.NoRun(id)
	case errors.Is(err, errDeleting):
		return copied, fmt.Errorf("pull session %s: %w; `%s` finishes that", id, err, conn.CommandLine("delete", id))
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
	return hall.Exitf(hall.ExitInterrupted, "interrupted: the files copied to %s are kept; `%s` resumes", dir, retryLine(conn, id, dir, verify))
}

// retryLine returns the command line that repeats a pull.
func retryLine(conn *hall.Connection, id, dir string, verify bool) string {
	command := "pull"
	if verify {
		command += " --verify"
	}
	return conn.CommandLine(command, id, dir)
}

// printResult prints the numbers of a pull, and the problems in the copy and the store.
func printResult(c *hall.CLI, r result) error {
	for _, p := range r.LeftOut {
		c.Warnf("%s", progress.Line(p.String()))
	}
	if c.Scripted() {
		if err := c.PrintJSON(r); err != nil || len(r.LeftOut)+len(r.Verified.problems()) == 0 {
			return err
		}
		return hall.Exit(hall.ExitNoAnswer)
	}
	if r.Status == drive.Running {
		c.Infof("its last record says that it is still running; pull again for the rest")
	}
	if r.Continues != "" {
		c.Infof("it continues session %s; %s has the earlier turns", r.Continues, team.HistoryFile)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %d files, %d of them copied now (%d bytes)\n", r.Dir, r.Files, r.Copied, r.Bytes)
	if r.Page != "" {
		fmt.Fprintf(&out, "page: %s\n", r.Page)
	}
	for _, p := range r.Verified.problems() {
		fmt.Fprintln(&out, progress.Line(p.String()))
	}
	if r.Verified != nil && len(r.Verified.Problems)+len(r.LeftOut) == 0 {
		fmt.Fprintf(&out, "verified: %s, %s\n", progress.Plural(r.Verified.Manifests, "manifest"), progress.Plural(r.Verified.Steps, "step"))
		for _, dir := range r.Verified.Uncounted {
			fmt.Fprintf(&out, "%s does not count: it committed after a decision, a cancellation or a reset, or was refused\n", progress.Line(dir))
		}
	}
	if err := c.Print(out.String()); err != nil {
		return err
	}
	return r.problem()
}

// problem returns an error if the copy is incomplete.
func (r result) problem() error {
	var what []string
	if n := len(r.LeftOut); n > 0 {
		were, them := "file was", "it"
		if n > 1 {
			were, them = "files were", "them"
		}
		what = append(what, fmt.Sprintf("pull session %s: %d %s left out, refused, or damaged or missing in the store; everything else is copied. Restore %s there, from a backup or an older version of the bucket's object, and pull again",
			r.SessionID, n, were, them))
	}
	if n := len(r.Verified.problems()); n > 0 {
		what = append(what, fmt.Sprintf("verify session %s: %s in %s; problems that remain after a pull into a new directory are in the store",
			r.SessionID, progress.Plural(n, "problem"), r.Dir))
	}
	if len(what) == 0 {
		return nil
	}
	return hall.Exitf(hall.ExitNoAnswer, "%s", strings.Join(what, "; "))
}
