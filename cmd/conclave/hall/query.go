package hall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/workflows/drive"
)

// Query is the QUERY or REQUEST of a command: its last argument, standard input if that is
// "-", or the file of --query-file.
type Query struct {
	cli  *CLI
	name string // name in the usage line
	file string
}

// NewQuery returns the query of a command and adds its flag.
func NewQuery(c *CLI, name string, flags *pflag.FlagSet) *Query {
	q := &Query{cli: c, name: name}
	flags.StringVar(&q.file, "query-file", "", "read the "+name+" from `FILE`; - is standard input, also in place of the "+name)
	return q
}

// Arguments requires the named arguments followed by the query, unless it is in a file.
func (q *Query) Arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case q.file == "":
			return Arguments(append(names, q.name)...)(cmd, args)
		case len(args) > len(names):
			return fmt.Errorf("--query-file and %s exclude each other; leave one out", q.name)
		}
		return Arguments(names...)(cmd, args)
	}
}

// Read returns the query. Args are the arguments that Arguments accepted.
func (q *Query) Read(ctx context.Context, args []string) (string, error) {
	var query string
	var err error
	switch last := len(args) - 1; {
	case q.file == "-", q.file == "" && args[last] == "-":
		query, err = whileOpen(ctx, func() (string, error) { return q.read(q.cli.Stdin, "standard input") })
	case q.file != "":
		query, err = whileOpen(ctx, q.readFile)
	default:
		return args[last], checkQuery(q.name, args[last])
	}
	if err != nil {
		return "", err
	}
	if err := checkQuery(q.name, query); err != nil {
		return "", err
	}
	if query = strings.TrimRight(query, "\r\n"); strings.TrimSpace(query) == "" {
		return "", fmt.Errorf("the %s is empty; nothing was started", strings.ToLower(q.name))
	}
	return query, nil
}

// whileOpen calls read and returns early if ctx ends, because a terminal or a pipe may never reach
// its end.
func whileOpen(ctx context.Context, read func() (string, error)) (string, error) {
	type reading struct {
		query string
		err   error
	}
	done := make(chan reading, 1)
	go func() {
		query, err := read()
		done <- reading{query, err}
	}()
	select {
	case r := <-done:
		return r.query, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (q *Query) readFile() (string, error) {
	file, err := os.Open(q.file)
	if err != nil {
		return "", fmt.Errorf("read the %s: %w", q.name, err)
	}
	defer func() { _ = file.Close() }()
	return q.read(file, q.file)
}

// read stops reading a text once it exceeds the limit.
func (q *Query) read(from io.Reader, source string) (string, error) {
	content, err := io.ReadAll(io.LimitReader(from, drive.MaxInput+1))
	if pathError, ok := errors.AsType[*os.PathError](err); ok {
		err = pathError.Err
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("read the %s from %s: %w", q.name, source, err)
	case len(content) > drive.MaxInput:
		return "", fmt.Errorf("the %s in %s has more than %d KiB, the most that is accepted; put large material where the agents can read it",
			q.name, source, drive.MaxInput>>10)
	}
	return string(content), nil
}
