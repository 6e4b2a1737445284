package answer

import (
	"context"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/engine/artifact"
	"conclave/engine/patch"
	"conclave/engine/text"
)

func filesCommand(c *hall.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "files ID [LABEL] [PATH]",
		Short: "List or print an answer's files",
		Long: `List the files of an answer, those below a directory, or print one of them unchanged.
Without LABEL the answer is the decision. For a link its target is printed. For the run
of a pipeline LABEL is the directory of a step, such as 003-lint, and the files are those
after it. Unusual names are listed in quotes, as git does.

Without an address, conclave looks for the session in the local stack; for a
session of a cluster, name the bucket with --bucket.`,
		Example: `  conclave files 20261121-153012-k3f9
  conclave files 20261121-153012-k3f9 agent2.1
  conclave files 20261121-153012-k3f9 src/
  conclave files 20261121-153012-k3f9 report.md | less
  conclave files 20261121-153012-k3f9 agent2.1 src/main.go > main.go`,
		Args: between(1, "ID", "LABEL", "PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			label, name := labelOf(args), ""
			switch {
			case len(args) == 3:
				name = args[2]
			case label != "" && !isLabel(label):
				label, name = "", label
			}
			return use(cmd.Context(), c, args[0], label, func(conn *hall.Connection, f *found) error {
				if below := f.below(name); name == "" || len(below) > 0 {
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

// below returns the files below a directory, or all files if dir is empty.
func (f *found) below(dir string) []artifact.File {
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

func printList(conn *hall.Connection, f *found, files []artifact.File) error {
	list := make([]listed, 0, len(files))
	var table strings.Builder
	for _, file := range files {
		entry := listed{Path: file.Path, Mode: string(mode(file)), Size: file.Size, Link: file.Link}
		if !utf8.ValidString(file.Path) {
			entry.PathBase64 = []byte(file.Path)
		}
		list = append(list, entry)
		name := quoted(file.Path)
		if file.Dir {
			name += "/"
		}
		if file.Link != "" {
			name += " -> " + quoted(file.Link)
		}
		fmt.Fprintf(&table, "%s\t%s\t%s\n", mode(file), text.Size(file.Size), name)
	}
	if conn.Scripted() {
		return conn.PrintJSON(struct {
			SessionID string   `json:"session_id"`
			Label     string   `json:"label"`
			Files     []listed `json:"files"`
		}{f.Session, f.Label, list})
	}
	if len(list) == 0 {
		conn.Infof("%s of %s has no files", f.Label, f.Run)
		return nil
	}
	return conn.Print(hall.Table(table.String()))
}

func printFile(ctx context.Context, conn *hall.Connection, f *found, name string) error {
	for _, file := range f.Files.Files {
		if file.Path != path.Clean(name) {
			continue
		}
		content, err := f.content(ctx, file)
		if err != nil {
			return fmt.Errorf("print %s of %s in %s: %w", name, f.Label, f.Run, err)
		}
		if _, err := conn.Stdout.Write(content); err != nil {
			return hall.Exitf(hall.ExitNoAnswer, "print %s: %w", name, err)
		}
		return nil
	}
	return hall.Exitf(hall.ExitUsage, "%s of %s has no file %s; it has %s", f.Label, f.Run, text.Truncate(name, hall.MaxEcho), names(f.Files))
}

// quoted formats a path for one line of a terminal.
func quoted(name string) string { return text.Terminal(patch.Quote(name)) }

// names lists the paths of a manifest for a message.
func names(m artifact.Manifest) string {
	if len(m.Files) == 0 {
		return "none"
	}
	paths := make([]string, 0, len(m.Files))
	for _, f := range m.Files {
		paths = append(paths, quoted(f.Path))
	}
	return text.Truncate(strings.Join(paths, ", "), 400)
}
