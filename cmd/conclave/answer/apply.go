package answer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/material"
	"conclave/engine/patch"
)

func applyCommand(c *hall.CLI) *cobra.Command {
	var to string
	var o patch.Options
	cmd := &cobra.Command{
		Use:   "apply ID [LABEL]",
		Short: "Apply an answer's change to a directory",
		Long: `Apply the change of an answer's files to a directory: all of it or nothing.
Nothing outside the directory is touched. Without LABEL the change is the
decision's, or that of a pipeline's run; without --to the directory is the one that --base named when the
session was started from this machine.

If a file differs from the version that was changed, nothing is written, and the
exit code is 1; changes that the directory already has are skipped. If apply is
killed, the next one reverts its partial changes.

--3way merges the change of a text file with changes that the directory's file has
in other lines, even if the change renames the file.`,
		Example: `  conclave apply 20261121-153012-k3f9
  conclave apply 20261121-153012-k3f9 --to .
  conclave apply 20261121-153012-k3f9 --to . --check
  conclave apply 20261121-153012-k3f9 agent2.1 --to ../project --3way`,
		Args: hall.OptionalLast("ID", "LABEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return use(cmd.Context(), c, args[0], labelOf(args), func(conn *hall.Connection, f *found) error {
				dir, err := target(conn, f, to)
				if err != nil {
					return err
				}
				changes, err := f.changes(cmd.Context())
				if err != nil {
					return err
				}
				return apply(conn, f, dir, changes, o)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the `DIR` to change")
	cmd.Flags().BoolVar(&o.Check, "check", false, "only report whether the change can be made")
	cmd.Flags().BoolVar(&o.Merge, "3way", false, "merge the change with other changes of the same file")
	return cmd
}

// target returns the directory given by --to, or else the directory of the session's base.
func target(conn *hall.Connection, f *found, to string) (string, error) {
	if to != "" {
		return to, nil
	}
	dir, err := material.Directory(conn, f.Session)
	switch {
	case err != nil:
		return "", err
	case dir == "" && f.layout.Base() == nil:
		return "", hall.Exitf(hall.ExitUsage, "%s was started without --base, so it has no directory of its own; name one with --to DIR", f.Run)
	case dir == "":
		return "", hall.Exitf(hall.ExitUsage, "the directory of %s is not remembered here: it was started from another machine or data directory; name it with --to DIR", f.Run)
	}
	return dir, nil
}

// Offer shows the change of a session's decision and applies it to a directory if the person
// agrees.
func Offer(ctx context.Context, conn *hall.Connection, id, dir string) error {
	f, err := find(ctx, conn, id, "")
	if err != nil {
		return err
	}
	changes, err := f.changes(ctx)
	if err != nil {
		return err
	}
	later := conn.CommandLine("apply", id)
	if len(changes) == 0 {
		conn.Infof("%s changes no files", f.Label)
		return nil
	}
	conn.Infof("\n%s", strings.TrimRight(patch.FormatStats(patch.Stats(changes), width(conn.Stderr)), "\n"))
	yes, err := conn.Confirm(fmt.Sprintf("Apply this change to %s?", dir))
	if err != nil || !yes {
		conn.Infof("nothing was changed; `%s` applies it later, `%s` shows it", later, conn.CommandLine("diff", id))
		return err
	}
	if err := apply(conn, f, dir, changes, patch.Options{}); err != nil {
		return hall.Exitf(hall.ExitNoAnswer, "%w; `%s` tries again", err, later)
	}
	return nil
}

// apply makes the changes in dir and prints the outcome.
func apply(conn *hall.Connection, f *found, dir string, changes []patch.Change, o patch.Options) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return hall.Exitf(hall.ExitUsage, "apply %s of %s: %w; make the directory first", f.Label, f.Run, err)
	}
	defer root.Close()
	written, err := recoverAndApply(conn, root, changes, o)
	if conflict, ok := errors.AsType[*patch.ConflictError](err); ok {
		return hall.Exitf(hall.ExitUsage, "apply %s of %s to %s: %w; nothing was written. %s",
			f.Label, f.Run, dir, &patch.ConflictError{Paths: terminal(conflict.Paths)}, mergeRemedy(o))
	}
	if errors.Is(err, patch.ErrInterrupted) {
		return hall.Exitf(hall.ExitUsage, "apply %s of %s to %s: %w; without --check its changes are reverted first", f.Label, f.Run, dir, err)
	}
	if unreverted, ok := errors.AsType[*patch.UnrevertedError](err); ok {
		return hall.Exitf(hall.ExitUsage, "apply %s of %s to %s: %w. Remove the cause and apply again, which puts them back first",
			f.Label, f.Run, dir, unreverted)
	}
	if err != nil {
		return hall.Exitf(hall.ExitUsage, "apply %s of %s to %s: %w; nothing was changed", f.Label, f.Run, dir, err)
	}
	if conn.Scripted() {
		return conn.PrintJSON(struct {
			SessionID string   `json:"session_id"`
			Label     string   `json:"label"`
			Directory string   `json:"directory"`
			Checked   bool     `json:"checked"` // nothing was written
			Files     []string `json:"files"`
		}{f.Session, f.Label, dir, o.Check, append([]string{}, written...)})
	}
	return conn.Print(summary(f, dir, written, o))
}

// mergeRemedy says how to proceed after a conflict.
func mergeRemedy(o patch.Options) string {
	if o.Merge {
		return "Only changes of different lines of a text file can be merged; move these files away"
	}
	return "Move them away, or merge them with --3way"
}

// recoverAndApply reverts an apply that was killed and then applies the changes.
func recoverAndApply(conn *hall.Connection, root *os.Root, changes []patch.Change, o patch.Options) ([]string, error) {
	if !o.Check {
		recovered, err := patch.Recover(root)
		if err != nil {
			return nil, err
		}
		if recovered {
			conn.Warnf("an earlier apply was interrupted; its changes were reverted")
		}
	}
	return patch.Apply(root, changes, o)
}

func summary(f *found, dir string, written []string, o patch.Options) string {
	switch {
	case len(written) == 0:
		return fmt.Sprintf("%s already has the change of %s\n", dir, f.Label)
	case o.Check:
		return fmt.Sprintf("%s can be applied to %s: %s would change\n", f.Label, dir, patch.Count(len(written), "file"))
	}
	return strings.Join(terminal(written), "\n") + fmt.Sprintf("\n%s of %s applied to %s: %s changed\n", f.Label, f.Run, dir, patch.Count(len(written), "file"))
}

func terminal(paths []string) []string {
	clean := make([]string, 0, len(paths))
	for _, p := range paths {
		clean = append(clean, quoted(p))
	}
	return clean
}
