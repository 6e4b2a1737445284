package outputs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/patch"
	"conclave/engine/files/snapshot"
	"conclave/engine/text"
)

// Answer is an answer of a session, the files after a step of a pipeline's run, or the evidence of a
// scenario's run.
type Answer struct {
	record.Run

	Label  string            // label of the answer, or directory of the step; empty for evidence
	Agent  string            // author of the answer
	Files  artifact.Manifest // all files of the answer
	Change artifact.Change   // change of the base
}

// String names the answer in messages.
func (f *Answer) String() string {
	if f.Label == "" {
		return f.Run.String()
	}
	return f.Label + " of " + f.Run.String()
}

// labelForm is the form of labels: agent<N>.<M> of an answer, agent<N>.final of a presented one, and
// the directory of a pipeline's step.
var labelForm = regexp.MustCompile(`^(agent[1-9][0-9]*\.([1-9][0-9]*|final)|[0-9]{3,}-[a-z][a-z0-9_-]{0,31})$`)

// findAnswer returns the answer with a label in the run with an ID, or the result of the run for an empty
// label.
func findAnswer(ctx context.Context, conn *cli.Connection, id, label string) (*Answer, error) {
	run, err := record.Find(ctx, conn.Store, id)
	if errors.Is(err, record.ErrNone) {
		return nil, conn.NoRun(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	f, err := findIn(ctx, run, label)
	if unknown, ok := errors.AsType[*UnknownError](err); ok && len(unknown.Labels) == 0 && unknown.Run.Kind != record.Scenarios {
		err = fmt.Errorf("%w; `%s` shows its state", err, conn.CommandLine("status", id))
	}
	return f, err
}

// findIn takes the label under which a decision is presented for the decision itself.
func findIn(ctx context.Context, run record.Run, label string) (*Answer, error) {
	if run.Kind == record.Scenarios {
		files, err := run.Evidence(ctx)
		if err == nil && label != "" {
			err = &UnknownError{Run: run, Label: label}
		}
		return &Answer{Run: run, Files: artifact.Manifest{Files: files}}, err
	}
	run, err := run.OnBase(ctx)
	if err != nil {
		return nil, err
	}
	outputs, err := run.Outputs(ctx)
	if err != nil {
		return nil, err
	}
	result, err := run.Result(ctx, outputs)
	if err != nil {
		return nil, err
	}
	if label == "" || run.Kind == record.Sessions && label == coordination.FinalLabelOf(result) {
		label = result
	}
	var labels []string
	for _, o := range outputs {
		labels = append(labels, o.Label)
		if o.Label == label {
			f := &Answer{Run: run, Label: label, Agent: o.Agent}
			return f, f.loadFiles(ctx, run.Layout.File(o.Dir+"action.json"))
		}
	}
	return nil, &UnknownError{run, label, labels}
}

// loadFiles reads the answer's changes to the base from the commit at key.
func (f *Answer) loadFiles(ctx context.Context, key string) error {
	commit, err := artifact.ReadJSON[artifact.Commit](ctx, f.Store, key)
	if err == nil {
		f.Change, err = artifact.LoadChange(ctx, f.Store, f.Layout, commit.Manifest)
	}
	if err != nil {
		return fmt.Errorf("read the files of %s: %w", f, err)
	}
	f.Files = f.Change.Tree(f.Layout.Base())
	return nil
}

// UnknownError reports an answer that a run does not have.
type UnknownError struct {
	Run    record.Run
	Label  string   // empty for the result
	Labels []string // labels of its answers
}

func (e *UnknownError) Error() string {
	switch {
	case e.Run.Kind == record.Scenarios:
		return fmt.Sprintf("%s has evidence and no answers; leave out %s", e.Run, text.Truncate(e.Label, cli.MaxEcho))
	case len(e.Labels) == 0:
		return fmt.Sprintf("%s has no answers yet", e.Run)
	case e.Label == "":
		return fmt.Sprintf("%s has no decision yet; name an answer: %s", e.Run, strings.Join(e.Labels, ", "))
	}
	return fmt.Sprintf("%s has no answer %s; it has %s", e.Run, text.Truncate(e.Label, cli.MaxEcho), strings.Join(e.Labels, ", "))
}

// readContent reads the content of a file, or the target of a link.
func (f *Answer) readContent(ctx context.Context, file artifact.File) (data []byte, err error) {
	switch {
	case f.Kind == record.Scenarios:
		data, err = f.Store.Get(ctx, f.Layout.File(file.Path))
	case file.SHA256 == "":
		return []byte(file.Link), nil
	default:
		data, err = artifact.ReadFile(ctx, f.Store, f.Layout, file)
	}
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, fmt.Errorf("the content of %s is missing in the store; `conclave pull --verify` shows all that is", file.Path)
	}
	return data, err
}

func (f *Answer) readChanges(ctx context.Context) ([]patch.Change, error) {
	if f.Kind == record.Scenarios {
		return nil, fmt.Errorf("%s changes no files; `conclave files %s` lists its evidence", f, f.ID)
	}
	changes, err := snapshot.Changes(ctx, f.Store, f.Layout, f.Change)
	if errors.Is(err, artifact.ErrNotFound) {
		err = fmt.Errorf("%w; `conclave pull --verify` shows what is missing in the store", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the files of %s: %w", f, err)
	}
	return changes, nil
}

func modeOf(file artifact.File) patch.Mode {
	switch {
	case file.Dir:
		return patch.Dir
	case file.Link != "":
		return patch.Link
	case file.Mode&0o100 != 0:
		return patch.Executable
	default:
		return patch.Regular
	}
}

// Open returns the answer of a session with a label, or the decision for an empty label. If there
// is no such answer, the error is an *UnknownError.
func Open(ctx context.Context, conn *cli.Connection, session, label string) (*Answer, error) {
	run := record.Sessions.At(conn.Store, session)
	prepared, err := conn.Store.Exists(ctx, run.Layout.File(run.Kind.Claim))
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", run, err)
	}
	if !prepared {
		return nil, &UnknownError{Run: run, Label: label}
	}
	return findIn(ctx, run, label)
}

// Paths returns the paths of the answer's files.
func (f *Answer) Paths() []string {
	return text.Each(f.Files.Files, func(file artifact.File) string { return file.Path })
}

// Patch returns the answer's changes as a patch for git apply, and their statistics.
func (f *Answer) Patch(ctx context.Context) (text, stat string, err error) {
	const columns = 80
	changes, err := f.readChanges(ctx)
	if err != nil {
		return "", "", err
	}
	var b strings.Builder
	if err := patch.Write(&b, changes, patch.Style{}); err != nil {
		return "", "", err
	}
	return b.String(), patch.FormatStats(patch.Stats(changes), columns), nil
}

// File returns the content of one of the answer's files.
func (f *Answer) File(ctx context.Context, path string) ([]byte, error) {
	for _, file := range f.Files.Files {
		if file.Path == path {
			return f.readContent(ctx, file)
		}
	}
	return nil, fmt.Errorf("read %s of %s: %w", path, f.Label, artifact.ErrNotFound)
}

func filesCommand(c *cli.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "files ID [LABEL] [PATH]",
		Short: "List or print an answer's files",
		Long: `List the files of an answer, those below a directory, or print one of them unchanged.
Without LABEL the answer is the decision. For a link its target is printed. For the run
of a pipeline LABEL is the directory of a step, such as 003-lint, and the files are those
after it. The files of a scenario's run, SLUG/RUN_ID, are its evidence. Unusual names are
listed in quotes, as git does.

Without an address, conclave looks for the session in the local stack; for a
session of a cluster, name the bucket with --bucket.`,
		Example: `  conclave files 20261121-153012-k3f9
  conclave files 20261121-153012-k3f9 agent2.1
  conclave files 20261121-153012-k3f9 src/
  conclave files 20261121-153012-k3f9 report.md | less
  conclave files 20261121-153012-k3f9 agent2.1 src/main.go > main.go
  conclave files buy/20261121-153012-k3f9 step-02/`,
		Args: argumentsBetween(1, "ID", "LABEL", "PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			label, name := labelOf(args), ""
			switch {
			case len(args) == 3:
				name = args[2]
			case label != "" && !labelForm.MatchString(label):
				label, name = "", label
			}
			return withAnswer(cmd.Context(), c, args[0], label, func(conn *cli.Connection, f *Answer) error {
				if below := f.filesBelow(name); name == "" || len(below) > 0 {
					return printList(conn, f, below)
				}
				return printFile(cmd.Context(), conn, f, name)
			})
		},
	}
}

// listed is a file in the output of files --json.
type listed struct {
	Path       string `json:"path"`
	PathBase64 []byte `json:"path_base64,omitempty"` // path of a name that is not UTF-8
	Mode       string `json:"mode"`                  // mode as git writes it
	Size       int64  `json:"size"`
	Link       string `json:"link,omitempty"`
}

// filesBelow returns the files below a directory, or all files if dir is empty.
func (f *Answer) filesBelow(dir string) []artifact.File {
	if dir = path.Clean(dir); dir == "." {
		return f.Files.Files
	}
	var below []artifact.File
	for _, file := range f.Files.Files {
		if strings.HasPrefix(file.Path, dir+"/") {
			below = append(below, file)
		}
	}
	return below
}

func printList(conn *cli.Connection, f *Answer, files []artifact.File) error {
	list := make([]listed, 0, len(files))
	var table strings.Builder
	for _, file := range files {
		entry := listed{Path: file.Path, Mode: string(modeOf(file)), Size: file.Size, Link: file.Link}
		if !utf8.ValidString(file.Path) {
			entry.PathBase64 = []byte(file.Path)
		}
		list = append(list, entry)
		name := quotePath(file.Path)
		if file.Dir {
			name += "/"
		}
		if file.Link != "" {
			name += " -> " + quotePath(file.Link)
		}
		fmt.Fprintf(&table, "%s\t%s\t%s\n", modeOf(file), text.Size(file.Size), name)
	}
	if conn.Scripted() {
		return conn.PrintJSON(struct {
			SessionID string   `json:"session_id"`
			Label     string   `json:"label"`
			Files     []listed `json:"files"`
		}{f.ID, f.Label, list})
	}
	if len(list) == 0 {
		conn.Infof("%s has no files", f)
		return nil
	}
	return conn.Print(cli.Table(table.String()))
}

func printFile(ctx context.Context, conn *cli.Connection, f *Answer, name string) error {
	for _, file := range f.Files.Files {
		if file.Path != path.Clean(name) {
			continue
		}
		content, err := f.readContent(ctx, file)
		if err != nil {
			return fmt.Errorf("print %s of %s: %w", name, f, err)
		}
		if _, err := conn.Stdout.Write(content); err != nil {
			return cli.Exitf(cli.ExitNoAnswer, "print %s: %w", name, err)
		}
		return nil
	}
	return cli.Exitf(cli.ExitUsage, "%s has no file %s; it has %s", f, text.Truncate(name, cli.MaxEcho), listPaths(f.Files))
}

// quotePath formats a path for one line of a terminal.
func quotePath(name string) string { return text.Terminal(patch.Quote(name)) }

func listPaths(m artifact.Manifest) string {
	if len(m.Files) == 0 {
		return "none"
	}
	paths := text.Each(m.Files, func(f artifact.File) string { return quotePath(f.Path) })
	return text.Truncate(strings.Join(paths, ", "), 400)
}

// Commands returns `conclave files`, `conclave diff` and `conclave apply`.
func Commands(c *cli.CLI) []*cobra.Command {
	return []*cobra.Command{filesCommand(c), diffCommand(c), applyCommand(c)}
}

func withAnswer(ctx context.Context, c *cli.CLI, id, label string, do func(*cli.Connection, *Answer) error) error {
	if err := record.CheckID(id); err != nil {
		return err
	}
	if label != "" && !labelForm.MatchString(label) {
		return fmt.Errorf("%q is not the label of an answer; give one such as agent1.2, agent1.final, or 003-lint for a step of a pipeline", label)
	}
	conn, err := c.ConnectStore(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	f, err := findAnswer(ctx, conn, id, label)
	if err == nil {
		err = do(conn, f)
	}
	if err != nil && ctx.Err() != nil {
		return cli.Exitf(cli.ExitInterrupted, "interrupted")
	}
	return err
}

func labelOf(args []string) string {
	if len(args) < 2 {
		return ""
	}
	return args[1]
}

// argumentsBetween accepts the arguments of a command whose last arguments are optional.
func argumentsBetween(least int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return cli.Arguments(names[:min(max(least, len(args)), len(names))]...)(cmd, slices.Clone(args))
	}
}
