package outputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/inputs"
	"conclave/engine/files/patch"
	"conclave/engine/text"
)

func applyCommand(c *cli.CLI) *cobra.Command {
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
killed, the next one with the same data directory reverts its partial changes. Names
that git would take for .git, on any file system, are refused.

--3way merges the change of a text file with changes that the directory's file has
in other lines, even if the change renames the file.`,
		Example: `  conclave apply 20261121-153012-k3f9
  conclave apply 20261121-153012-k3f9 --to .
  conclave apply 20261121-153012-k3f9 --to . --check
  conclave apply 20261121-153012-k3f9 agent2.1 --to ../project --3way`,
		Args: cli.OptionalLast("ID", "LABEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withAnswer(cmd.Context(), c, args[0], labelOf(args), func(conn *cli.Connection, f *Answer) error {
				changes, err := f.readChanges(cmd.Context())
				if err != nil {
					return err
				}
				dir, err := targetDir(conn, f, to)
				if err != nil {
					return err
				}
				return applyChanges(conn, f, dir, changes, o)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the `DIR` to change")
	cmd.Flags().BoolVar(&o.Check, "check", false, "only report whether the change can be made")
	cmd.Flags().BoolVar(&o.Merge, "3way", false, "merge the change with other changes of the same file")
	return cmd
}

func targetDir(conn *cli.Connection, f *Answer, to string) (string, error) {
	if to != "" {
		return to, nil
	}
	dir, err := inputs.Directory(conn, f.ID)
	switch {
	case err != nil:
		return "", err
	case dir == "" && f.Layout.Base() == nil:
		return "", cli.Exitf(cli.ExitUsage, "%s was started without --base, so it has no directory of its own; name one with --to DIR", f.Run)
	case dir == "":
		return "", cli.Exitf(cli.ExitUsage, "the directory of %s is not remembered here: it was started from another machine or data directory; name it with --to DIR", f.Run)
	}
	return dir, nil
}

// Offer shows the change of a session's decision and applies it to a directory if the person
// agrees, or has agreed before.
func Offer(ctx context.Context, conn *cli.Connection, id, dir string, agreed bool) error {
	f, changes, err := readDecision(ctx, conn, id)
	if err != nil {
		return err
	}
	later := conn.CommandLine("apply", id)
	if len(changes) == 0 {
		conn.Infof("%s changes no files", f.Label)
		return nil
	}
	conn.Infof("\n%s", strings.TrimRight(formatStats(changes, conn.Stderr), "\n"))
	aside := conn.PrintingTo(conn.Stderr) // stdout has the answer, or the result for a program
	for !agreed {
		answer, err := conn.AskAfterWait(fmt.Sprintf("Apply this change to %s? [y/N, d shows it]", dir))
		if answer == "d" && err == nil {
			if err := printPatch(ctx, aside, changes); err != nil {
				return err
			}
			continue
		}
		if agreed = answer == "y" || answer == "yes"; err != nil || !agreed {
			conn.Infof("nothing was changed; `%s` applies it later, `%s` shows it", later, conn.CommandLine("diff", id))
			return err
		}
	}
	if conn.Scripted() {
		conn = aside
	}
	if err := applyChanges(conn, f, dir, changes, patch.Options{}); err != nil {
		return cli.Exitf(cli.ExitNoAnswer, "%w; `%s` tries again", err, later)
	}
	return nil
}

// Apply applies the change of the decision of a run to a directory, without a question.
func Apply(ctx context.Context, conn *cli.Connection, id, dir string) error {
	f, changes, err := readDecision(ctx, conn, id)
	if err != nil {
		return err
	}
	return applyChanges(conn, f, dir, changes, patch.Options{})
}

// PrintChanged prints how many files the decision of a run changed, and the command that shows them.
func PrintChanged(ctx context.Context, conn *cli.Connection, id string) {
	_, changes, err := readDecision(ctx, conn, id)
	switch n := len(patch.OfFiles(changes)); {
	case err != nil:
		conn.Infof("what it changed cannot be read: %v", err)
	case n == 0:
		conn.Infof("no files changed")
	default:
		conn.Infof("%s changed: %s", patch.Count(n, "file"), conn.CommandLine("diff", id))
	}
}

func readDecision(ctx context.Context, conn *cli.Connection, id string) (*Answer, []patch.Change, error) {
	f, err := findAnswer(ctx, conn, id, "")
	if err != nil {
		return nil, nil, err
	}
	changes, err := f.readChanges(ctx)
	return f, changes, err
}

func applyChanges(conn *cli.Connection, f *Answer, dir string, changes []patch.Change, o patch.Options) error {
	root, err := openTarget(dir)
	if err != nil {
		return cli.Exitf(cli.ExitUsage, "apply %s: %w", f, err)
	}
	defer root.Close()
	made, err := recoverAndApply(conn, root, changes, o)
	if err != nil {
		return cli.Exitf(cli.ExitUsage, "apply %s to %s: %w", f, dir, explainRefusal(err, o))
	}
	if conn.Scripted() {
		return conn.PrintJSON(struct {
			SessionID string   `json:"session_id"`
			Label     string   `json:"label"`
			Directory string   `json:"directory"`
			Checked   bool     `json:"checked"` // whether the command only looked
			Files     []string `json:"files"`
		}{f.ID, f.Label, dir, o.Check, filesOf(made)})
	}
	return conn.Print(appliedSummary(f, dir, changes, made, o))
}

func openTarget(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; make the directory first", err)
	}
	if info, failed := os.Stat(dir); err != nil && failed == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; name a directory", dir)
	}
	return root, err
}

// explainRefusal adds to an error of patch.Apply how the directory was left, and the remedy.
func explainRefusal(err error, o patch.Options) error {
	if _, ok := errors.AsType[*patch.UnrevertedError](err); ok { // perhaps because of a conflict
		return fmt.Errorf("%w. Remove the cause and apply again, which reverts them first", err)
	}
	if conflict, ok := errors.AsType[*patch.ConflictError](err); ok {
		shown := &patch.ConflictError{Paths: quotePaths(conflict.Paths), Links: quotePaths(conflict.Links)}
		return fmt.Errorf("%w; nothing was written. %s", shown, conflictRemedy(conflict, o))
	}
	if errors.Is(err, patch.ErrInterrupted) {
		return fmt.Errorf("%w; without --check its changes are reverted first", err)
	}
	return fmt.Errorf("%w; nothing was changed", err)
}

func conflictRemedy(conflict *patch.ConflictError, o patch.Options) string {
	switch {
	case len(conflict.Paths) == 0:
		return "Move them away"
	case o.Merge:
		return "Only changes of different lines of a text file can be merged; move these files away"
	case len(conflict.Links) > 0:
		return "Move them away, or the links, and merge the files with --3way"
	}
	return "Move them away, or merge them with --3way"
}

func recoverAndApply(conn *cli.Connection, root *os.Root, changes []patch.Change, o patch.Options) ([]patch.Change, error) {
	kept, err := conn.KeepDir()
	if err != nil {
		return nil, err
	}
	journals := filepath.Join(kept, "applies")
	if !o.Check {
		recovered, err := patch.Recover(root, journals)
		if err != nil {
			return nil, err
		}
		if recovered {
			conn.Warnf("an earlier apply was interrupted; its changes were reverted")
		}
	}
	return patch.Apply(root, journals, changes, o)
}

func appliedSummary(f *Answer, dir string, changes, made []patch.Change, o patch.Options) string {
	if len(changes) == 0 {
		return f.Label + " changes no files\n"
	}
	if len(made) == 0 {
		return fmt.Sprintf("%s already has the change of %s\n", dir, f.Label)
	}
	size := patch.Count(len(patch.OfFiles(made)), "file")
	if o.Check {
		return fmt.Sprintf("%s can be applied to %s: %s would change\n", f.Label, dir, size)
	}
	var b strings.Builder
	for _, c := range made {
		b.WriteString(text.Terminal(c.Name()) + "\n")
	}
	fmt.Fprintf(&b, "%s applied to %s: %s changed\n", f, dir, size)
	return b.String()
}

// filesOf returns the path of each changed file, the new one if it was renamed.
func filesOf(changes []patch.Change) []string {
	files := []string{}
	for _, c := range patch.OfFiles(changes) {
		files = append(files, c.Path())
	}
	return files
}

func quotePaths(paths []string) []string {
	clean := make([]string, 0, len(paths))
	for _, p := range paths {
		clean = append(clean, quotePath(p))
	}
	return clean
}
