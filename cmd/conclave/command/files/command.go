package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/session"
	"conclave/engine/text"
	"conclave/workflows"
)

// PullCommand returns `conclave pull`.
func PullCommand(c *cli.CLI) *cobra.Command {
	var verify bool
	cmd := &cobra.Command{
		Use:   "pull ID DIR",
		Short: "Copy the session directory to DIR",
		Long: `Copy the files of a session, or of a run of a pipeline or a scenario, to DIR:
answers, votes, workspaces, evidence, transcripts, the ledger. A running session can be
pulled, and pulled again later: only new files are copied. It never runs a step. Files
with names that git would take for .git are refused.

A run of a scenario is named as SLUG/RUN_ID, or by RUN_ID if only one scenario has it.

It also writes index.html, a page that needs no server and no network, and ANSWER.md, the answer of the session or the final text of a pipeline's run.

Every file of a workspace is compared with its manifest: one that differs is copied
again, and one that the store has damaged is left out and named. With --verify the
records are compared as well: every step with its claim, commit and ledger entry, the
ledger with itself and the events, and the final answer with the one it was made from;
files that no manifest lists are named. Problems are printed by path, and the exit code
is 2, as for files that could not be copied.

Without an address the session is taken from the local stack; from a cluster,
name its bucket with --bucket.`,
		Example: `  conclave pull 20261121-153012-k3f9 ./session
  conclave pull --verify 20261121-153012-k3f9 ./session
  conclave pull buy/20261121-153012-k3f9 ./run           # a scenario's run
  conclave pull --json 20261121-153012-k3f9 ./session | jq -r '.left_out[].path'
  conclave pull --bucket sessions --prefix team-a 20261121-153012-k3f9 ./session`,
		Args: cli.Arguments("ID", "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPull(cmd.Context(), c, args[0], args[1], verify)
		},
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "compare the copy with its commits and its ledger")
	return cmd
}

func runPull(ctx context.Context, c *cli.CLI, id, dir string, verify bool) error {
	if err := record.CheckID(id); err != nil {
		return err
	}
	if err := checkPlace(dir); err != nil {
		return err
	}
	conn, err := c.ConnectStore(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return pullFrom(ctx, conn, id, dir, verify)
}

func pullFrom(ctx context.Context, conn *cli.Connection, id, dir string, verify bool) error {
	printed := time.Now()
	copied, err := copyRun(ctx, conn.Store, id, dir, verify, func(done, total int) {
		if !conn.Scripted() && time.Since(printed) > time.Second {
			printed = time.Now()
			conn.Infof("%d of %d files", done, total)
		}
	})
	switch {
	case errors.Is(err, record.ErrNone):
		return conn.NoRun(ctx, id)
	case ctx.Err() != nil && err != nil:
		return cli.Exitf(cli.ExitInterrupted, "interrupted: the files copied to %s are kept; `%s` resumes", dir, retryLine(conn, id, dir, verify))
	case err != nil && copied.run.Kind == nil:
		return err
	case errors.Is(err, errDeleting):
		return fmt.Errorf("pull %s: %w; `%s` finishes that", copied.run, err, conn.CommandLine("delete", id))
	case err != nil:
		return fmt.Errorf("pull %s: %w", copied.run, err)
	}
	return printResult(conn.CLI, copied)
}

func retryLine(conn *cli.Connection, id, dir string, verify bool) string {
	command := "pull"
	if verify {
		command += " --verify"
	}
	return conn.CommandLine(command, id, dir)
}

// printResult prints the numbers of an incomplete copy as well; the error comes last.
func printResult(c *cli.CLI, r pullResult) error {
	for _, p := range r.LeftOut {
		c.Warnf("%s", cli.Line(p.String()))
	}
	found := cmp.Or(r.Verified, &verification{})
	if c.Scripted() {
		if err := c.PrintJSON(r); err != nil || len(r.LeftOut)+len(found.Problems) == 0 {
			return err
		}
		return cli.Exit(cli.ExitNoAnswer)
	}
	if r.Status == workflows.Running {
		c.Infof("its last record says that it is still running; pull again for the rest")
	}
	if r.Continues != "" {
		c.Infof("it continues session %s; %s has the earlier turns", r.Continues, session.HistoryFile)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %d files, %d of them copied now (%s)\n", r.Dir, r.Files, r.Copied, text.Size(r.Bytes))
	if r.Page != "" {
		fmt.Fprintf(&out, "page: %s\n", r.Page)
	}
	for _, p := range found.Problems {
		fmt.Fprintln(&out, cli.Line(p.String()))
	}
	if r.Verified != nil && len(found.Problems)+len(r.LeftOut) == 0 {
		fmt.Fprintf(&out, "verified: %s, %s\n", cli.Plural(found.Manifests, "manifest"), cli.Plural(found.Steps, "step"))
		for _, dir := range found.Uncounted {
			fmt.Fprintf(&out, "%s does not count: it committed after a decision, a cancellation or a reset, or was refused\n", cli.Line(dir))
		}
	}
	if err := c.Print(out.String()); err != nil {
		return err
	}
	return r.incompleteError(len(found.Problems))
}

// incompleteError returns an error if the copy is incomplete, or if the verification found problems.
func (r pullResult) incompleteError(found int) error {
	var what []string
	if n := len(r.LeftOut); n > 0 {
		were, them := "file was", "it"
		if n > 1 {
			were, them = "files were", "them"
		}
		what = append(what, fmt.Sprintf("pull %s: %d %s left out, refused, or damaged or missing in the store; everything else is copied. Restore %s there, from a backup or an older version of the bucket's object, and pull again",
			r.run, n, were, them))
	}
	if found > 0 {
		what = append(what, fmt.Sprintf("verify %s: %s in %s; problems that remain after a pull into a new directory are in the store",
			r.run, cli.Plural(found, "problem"), r.Dir))
	}
	if len(what) == 0 {
		return nil
	}
	return cli.Exitf(cli.ExitNoAnswer, "%s", strings.Join(what, "; "))
}
