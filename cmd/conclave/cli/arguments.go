package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/engine/files/artifact"
	"conclave/engine/text"
	"conclave/workflows"
)

// MaxEcho is the maximum length, in bytes, of an invalid value that an error message repeats.
const MaxEcho = 80

// Arguments requires the named arguments, all non-empty.
func Arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s needs %s; see `%s --help`", cmd.Name(), strings.Join(names[len(args):], " and "), cmd.CommandPath())
		}
		if len(args) > len(names) {
			hint, takes := "", "no arguments"
			if len(names) > 0 {
				takes = strings.Join(names, " and ")
				if last := names[len(names)-1]; last == "QUERY" || last == "TEXT" || last == "REQUEST" {
					hint = "; put the " + last + " in quotes"
				}
			}
			return fmt.Errorf("%s takes %s, got %s%s; see `%s --help`", cmd.Name(), takes, Plural(len(args), "argument"), hint, cmd.CommandPath())
		}
		for i, name := range names {
			if strings.TrimSpace(args[i]) == "" {
				return fmt.Errorf("%s: the %s is empty; nothing was started", strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "), strings.ToLower(name))
			}
			if name == "ID" {
				if err := checkID(args[i]); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// OptionalLast is like Arguments, but the last argument may be missing.
func OptionalLast(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return Arguments(names[:len(names)-1]...)(cmd, args)
		}
		return Arguments(names...)(cmd, args)
	}
}

// CheckText refuses a text that is not UTF-8 or has more than limit bytes. Name is the
// argument's name in the usage line.
func CheckText(name, content string, limit int, remedy string) error {
	switch {
	case len(content) > limit:
		return fmt.Errorf("the %s has %d bytes, at most %d are accepted; %s", name, len(content), limit, remedy)
	case !utf8.ValidString(content):
		return fmt.Errorf("the %s is not UTF-8 text; convert it, for instance with iconv", name)
	}
	return nil
}

func checkQuery(name, content string) error {
	return CheckText(name, content, workflows.MaxInput, "put large material where the agents can read it")
}

// refuseEmptyFlags refuses empty values, which unset variables often cause. A prefix may be empty.
func refuseEmptyFlags(cmd *cobra.Command) error {
	var empty error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Name != "prefix" && strings.TrimSpace(f.Value.String()) == "" {
			empty = fmt.Errorf("--%s is given but empty; give it a value, or leave it out", f.Name)
		}
	})
	return empty
}

func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if near, ok := nearestFlag(cmd, unknown.GetSpecifiedName()); ok {
			return fmt.Errorf("%w; did you mean --%s? See `%s --help`", err, near, cmd.CommandPath())
		}
	}
	return fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())
}

func nearestFlag(cmd *cobra.Command, name string) (string, bool) {
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { // those of the commands above it are among them
		if !f.Hidden {
			flags = append(flags, f.Name)
		}
	})
	return text.Nearest(name, flags)
}

// checkID refuses an argument that cannot be a workflow ID, before any connection is made.
func checkID(id string) error {
	const most = 1000 // Temporal's limit on a workflow ID
	if len(id) > most {
		return fmt.Errorf("the ID %q has %d bytes; IDs have at most %d", text.Truncate(id, MaxEcho), len(id), most)
	}
	if strings.IndexFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
		return fmt.Errorf("the ID %q has characters that no ID has; `conclave list` lists the sessions", text.Truncate(id, MaxEcho))
	}
	return nil
}

// CheckRunID checks the ID of a run. Its error truncates a long ID.
func CheckRunID(id string) error {
	if strings.HasPrefix(id, "-") {
		return fmt.Errorf("%s would be taken for a flag; begin the ID with a letter or a digit", text.ShellQuote(text.Truncate(id, MaxEcho)))
	}
	err := artifact.CheckSessionID(id)
	if wrong, ok := errors.AsType[*artifact.NameError](err); ok {
		wrong.Name = text.Truncate(wrong.Name, MaxEcho)
	}
	return err
}

// ChooseRunID returns the ID given by a flag, or a new one.
func ChooseRunID(flag, asked string) (string, error) {
	if asked == "" {
		return NewRunID(time.Now()), nil
	}
	if err := CheckRunID(asked); err != nil {
		return "", fmt.Errorf("use %s: %w", flag, err)
	}
	return asked, nil
}

// NewRunID returns the time in UTC followed by four random characters, which add 20 bits for runs
// started in the same second.
func NewRunID(now time.Time) string {
	return now.UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:4])
}

// Query is the QUERY or REQUEST of a command: its last argument, standard input if that is
// "-", or the file of --query-file.
type Query struct {
	cli  *CLI
	name string // name in the usage line
	file string

	// Instead reports whether flags say what is asked, so that the query can be left out. It may be nil.
	Instead func() bool
	omitted bool
}

// NewQuery returns the query of a command and adds its flag.
func NewQuery(c *CLI, name string, flags *pflag.FlagSet) *Query {
	q := &Query{cli: c, name: name}
	flags.StringVar(&q.file, "query-file", "", "read the "+name+" from `FILE`; - is standard input, also in place of the "+name)
	return q
}

// Arguments requires the named arguments followed by the query, unless it is in a file or can be left out.
func (q *Query) Arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case q.file == "" && len(args) == len(names) && q.Instead != nil && q.Instead():
			q.omitted = true
			return nil
		case q.file == "":
			return Arguments(append(names, q.name)...)(cmd, args)
		case len(args) > len(names):
			return fmt.Errorf("--query-file and %s exclude each other; leave one out", q.name)
		}
		return Arguments(names...)(cmd, args)
	}
}

// Read returns the query, which is empty if it was left out. Args are the arguments that Arguments accepted.
func (q *Query) Read(ctx context.Context, args []string) (string, error) {
	if q.omitted {
		return "", nil
	}
	var query string
	var err error
	switch last := len(args) - 1; {
	case q.file == "-", q.file == "" && args[last] == "-":
		query, err = whileOpen(ctx, func() (string, error) { return q.readLimited(q.cli.Stdin, "standard input") })
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
	return q.readLimited(file, q.file)
}

func (q *Query) readLimited(from io.Reader, source string) (string, error) {
	content, err := io.ReadAll(io.LimitReader(from, workflows.MaxInput+1))
	if pathError, ok := errors.AsType[*os.PathError](err); ok {
		err = pathError.Err
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("read the %s from %s: %w", q.name, source, err)
	case len(content) > workflows.MaxInput:
		return "", fmt.Errorf("the %s in %s has more than %d KiB, the most that is accepted; put large material where the agents can read it",
			q.name, source, workflows.MaxInput>>10)
	}
	return string(content), nil
}

// Day is a unit of Age.
const Day = 24 * time.Hour

// Age is a flag value: a duration in hours, days or weeks.
type Age time.Duration

// Type implements pflag.Value.
func (a *Age) Type() string { return "age" }

// String implements pflag.Value.
func (a *Age) String() string {
	switch d := time.Duration(*a); {
	case d == 0:
		return ""
	case d%Day == 0:
		return strconv.Itoa(int(d/Day)) + "d"
	default:
		return d.String()
	}
}

// Set implements pflag.Value.
func (a *Age) Set(value string) error {
	const most = 100 * 365 * Day
	unit := map[byte]time.Duration{'d': Day, 'w': 7 * Day}[(value + " ")[max(0, len(value)-1)]]
	d, err := time.ParseDuration(value)
	if unit > 0 {
		var n float64
		n, err = strconv.ParseFloat(value[:len(value)-1], 64)
		if d = 0; n < float64(most/unit) {
			d = time.Duration(n * float64(unit))
		}
	}
	if err != nil || d <= 0 || d > most {
		return errors.New("give an age such as 36h, 30d or 12w")
	}
	*a = Age(d)
	return nil
}
