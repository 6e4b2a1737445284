package outputs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"conclave/cmd/conclave/cli"
	"conclave/engine/files/patch"
	"conclave/engine/text"
)

func diffCommand(c *cli.CLI) *cobra.Command {
	var stat, nameOnly bool
	cmd := &cobra.Command{
		Use:   "diff ID [LABEL]",
		Short: "Show what an answer changed, as a patch",
		Long: `Print the change of an answer's files as a patch for git apply and patch -p1.
Without LABEL the change is the decision's. In a session without a base every
file is new. For the run of a pipeline LABEL is the directory of a step, such as
003-lint; without it the change is that of the whole run.

git apply takes all of the patch. GNU patch takes neither binary files nor a
directory in the place of a file, or the other way round.

The checks that agents hand in, under .conclave/, and their memory are left out.

On a terminal the patch is coloured and goes through $PAGER, or less. The exit
code is 0 with and without changes.`,
		Example: `  conclave diff 20261121-153012-k3f9
  conclave diff 20261121-153012-k3f9 agent2.1 --stat
  conclave diff 20261121-153012-k3f9 | git apply
  conclave diff 20261121-153012-k3f9 --name-only
  conclave diff release-42 003-lint                   # a step of a pipeline`,
		Args: cli.OptionalLast("ID", "LABEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if stat && nameOnly {
				return errors.New("--stat and --name-only exclude each other; give one of them")
			}
			return withAnswer(cmd.Context(), c, args[0], labelOf(args), func(conn *cli.Connection, f *Answer) error {
				changes, err := f.readChanges(cmd.Context())
				switch {
				case err != nil:
					return err
				case conn.Scripted():
					return printChanges(conn, f, changes)
				case stat:
					return conn.Print(text.Terminal(formatStats(changes, conn.Stdout)))
				case nameOnly:
					return conn.Print(changedPaths(changes))
				}
				return printPatch(cmd.Context(), conn, changes)
			})
		},
	}
	cmd.Flags().BoolVar(&stat, "stat", false, "print the number of changed lines of each file")
	cmd.Flags().BoolVar(&nameOnly, "name-only", false, "print the paths of changed files")
	return cmd
}

// changed is a file in the output of diff --json.
type changed struct {
	Path    string `json:"path"`
	From    string `json:"from,omitempty"` // the old path of a renamed file
	Added   int    `json:"added"`          // number of lines
	Deleted int    `json:"deleted"`
	Binary  bool   `json:"binary"`
}

func printChanges(conn *cli.Connection, f *Answer, changes []patch.Change) error {
	var p bytes.Buffer
	if err := patch.Write(&p, changes, patch.Style{}); err != nil {
		return err
	}
	list := make([]changed, 0, len(changes))
	for _, s := range patch.Stats(changes) {
		list = append(list, changed{Path: s.Path, From: s.Renamed, Added: s.Added, Deleted: s.Deleted, Binary: s.Binary})
	}
	return conn.PrintJSON(struct {
		SessionID string    `json:"session_id"`
		Label     string    `json:"label"`
		Files     []changed `json:"files"`
		Patch     string    `json:"patch"`
	}{f.ID, f.Label, list, p.String()})
}

func changedPaths(changes []patch.Change) string {
	var b strings.Builder
	for _, name := range filesOf(changes) {
		b.WriteString(patch.Quote(name) + "\n")
	}
	return b.String()
}

// formatStats counts the changed lines of each file, as wide as the terminal.
func formatStats(changes []patch.Change, out io.Writer) string {
	width, _ := cli.TerminalWidth(out)
	return patch.FormatStats(patch.Stats(changes), width)
}

func printPatch(ctx context.Context, conn *cli.Connection, changes []patch.Change) error {
	f, ok := conn.Stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		if err := patch.Write(conn.Stdout, changes, patch.Style{}); err != nil {
			return cli.Exitf(cli.ExitNoAnswer, "print the patch: %w", err)
		}
		return nil
	}
	var p bytes.Buffer
	if err := patch.Write(&p, withoutControls(changes), patch.Style{Colour: os.Getenv("NO_COLOR") == ""}); err != nil {
		return err
	}
	if pager := os.Getenv("PAGER"); pager != "cat" && showInPager(ctx, conn, pager, p.Bytes()) {
		return nil
	}
	return conn.Print(p.String())
}

// withoutControls returns the changes without the control characters in their texts, which a
// terminal would interpret.
func withoutControls(changes []patch.Change) []patch.Change {
	clean := func(f *patch.File) *patch.File {
		if f == nil || bytes.IndexByte(f.Content, 0) >= 0 {
			return f
		}
		return &patch.File{Path: f.Path, Mode: f.Mode, Content: []byte(text.Terminal(string(f.Content)))}
	}
	all := make([]patch.Change, 0, len(changes))
	for _, c := range changes {
		all = append(all, patch.Change{Old: clean(c.Old), New: clean(c.New), Similarity: c.Similarity})
	}
	return all
}

// showInPager shows a text in a pager. It returns false if it cannot.
func showInPager(ctx context.Context, conn *cli.Connection, pager string, content []byte) bool {
	if strings.TrimSpace(pager) == "" {
		pager = "less"
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", pager) //nolint:gosec // the user's own PAGER
	cmd.Env = append(os.Environ(), "LESS="+lessOptions())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(content), conn.Stdout, conn.Stderr
	if _, err := exec.LookPath(strings.Fields(pager)[0]); err != nil {
		return false
	}
	return cmd.Run() == nil
}

func lessOptions() string {
	if set, ok := os.LookupEnv("LESS"); ok {
		return set
	}
	return "FRX"
}
