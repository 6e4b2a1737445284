package hall

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/engine/artifact"
	"conclave/engine/text"
	"conclave/workflows/drive"
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
			hint := ""
			if len(names) > 0 {
				if last := names[len(names)-1]; last == "QUERY" || last == "TEXT" || last == "REQUEST" {
					hint = "; put the " + last + " in quotes"
				}
			}
			return fmt.Errorf("%s takes %d argument(s), got %d%s; see `%s --help`",
				cmd.Name(), len(names), len(args), hint, cmd.CommandPath())
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

// checkQuery applies CheckText to the query or request of a run.
func checkQuery(name, content string) error {
	return CheckText(name, content, drive.MaxInput, "put large material where the agents can read it")
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

// flagError adds the most similar flag to an unknown-flag error.
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
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
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
