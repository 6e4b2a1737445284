package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func ask(ctx context.Context, stdin io.Reader, args ...string) (query, stderr string, code int) {
	var errs bytes.Buffer
	c := &CLI{Stdin: stdin, Stdout: io.Discard, Stderr: &errs}
	cmd := &cobra.Command{Use: "ask FILE QUERY"}
	q := NewQuery(c, "QUERY", cmd.Flags())
	instead := cmd.Flags().Bool("instead", false, "")
	q.Instead = func() bool { return *instead }
	cmd.Args = q.Arguments("FILE")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		query, err = q.Read(cmd.Context(), args)
		return err
	}
	root := &cobra.Command{Use: "conclave"}
	root.AddCommand(cmd)
	code = c.Execute(ctx, root, append([]string{"ask"}, args...))
	return query, errs.String(), code
}

func TestQuery(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	full, long := strings.Repeat("x", 256<<10), strings.Repeat("x", 256<<10+1)
	for name, tt := range map[string]struct {
		stdin string
		args  []string
		query string
		says  string
	}{
		"an argument":       {args: []string{"f", "Why?"}, query: "Why?"},
		"standard input":    {stdin: "Why\nnot?\n", args: []string{"f", "-"}, query: "Why\nnot?"},
		"a file":            {args: []string{"f", "--query-file", file("q", "Why?\r\n")}, query: "Why?"},
		"- as a file":       {stdin: "Why?", args: []string{"f", "--query-file", "-"}, query: "Why?"},
		"the largest":       {stdin: full, args: []string{"f", "-"}, query: full},
		"a larger one":      {stdin: long, args: []string{"f", "-"}, says: "the QUERY in standard input has more than 256 KiB"},
		"a larger file":     {args: []string{"f", "--query-file", file("long", long)}, says: "long has more than 256 KiB"},
		"an empty file":     {args: []string{"f", "--query-file", file("empty", " \n")}, says: "the query is empty; nothing was started"},
		"no input":          {args: []string{"f", "-"}, says: "the query is empty; nothing was started"},
		"no file":           {args: []string{"f", "--query-file", "nowhere"}, says: "read the QUERY: open nowhere"},
		"a directory":       {args: []string{"f", "--query-file", dir}, says: "is a directory"},
		"not UTF-8":         {stdin: "caf\xe9", args: []string{"f", "-"}, says: "not UTF-8"},
		"left out":          {args: []string{"f", "--instead"}},
		"not left out":      {args: []string{"f", "Why?", "--instead"}, query: "Why?"},
		"both":              {args: []string{"f", "Why?", "--query-file", "q"}, says: "--query-file and QUERY exclude each other"},
		"neither":           {args: []string{"f"}, says: "ask needs QUERY"},
		"no other argument": {args: []string{"--query-file", "q"}, says: "ask needs FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			query, stderr, code := ask(t.Context(), strings.NewReader(tt.stdin), tt.args...)
			require.Equal(t, tt.query, query)
			require.Contains(t, stderr, tt.says)
			require.Equal(t, tt.says != "", code == ExitUsage, stderr)
		})
	}
}

// Ctrl-C ends a command that waits for a query on standard input or from a named pipe.
func TestQuery_interrupted(t *testing.T) {
	t.Parallel()
	waiting, _ := io.Pipe()
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"f", "-"}, {"f", "--query-file", pipe}} {
		_, stderr, code := ask(ctx, waiting, args...)
		require.Equal(t, ExitInterrupted, code)
		require.Contains(t, stderr, "interrupted before anything was started")
	}
}
