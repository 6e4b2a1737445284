package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"go.temporal.io/sdk/temporal"
)

// Log holds the flags for a worker's log.
type Log struct{ Format, Level string }

// Formats of a log.
const (
	textFormat = "text"
	jsonFormat = "json"
)

// Flags adds the flags.
func (l *Log) Flags(set *pflag.FlagSet) {
	set.StringVar(&l.Format, "log-format", textFormat, "`FORMAT` of the log on standard error: text or json")
	set.StringVar(&l.Level, "log-level", "info", "the lowest `LEVEL` that is logged: debug, info, warn or error")
}

// New returns the logger that the flags select.
func (l Log) New(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return nil, fmt.Errorf("--log-level is %q; it takes debug, info, warn or error", l.Level)
	}
	o := &slog.HandlerOptions{Level: level}
	switch l.Format {
	case textFormat:
		return slog.New(calm{slog.NewTextHandler(w, o)}), nil
	case jsonFormat:
		return slog.New(calm{slog.NewJSONHandler(w, o)}), nil
	}
	return nil, fmt.Errorf("--log-format is %q; it takes text or json", l.Format)
}

// Announce returns plain, which prints messages for people, or with the JSON format a function that
// logs them, so that every line of the log is JSON.
func (l Log) Announce(log *slog.Logger, plain func(format string, args ...any)) func(format string, args ...any) {
	if l.Format != jsonFormat {
		return plain
	}
	return func(format string, args ...any) { log.Info(fmt.Sprintf(format, args...)) }
}

// Warnings returns a logger of warnings and errors, as text.
func Warnings(w io.Writer) *slog.Logger {
	return slog.New(calm{slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn})})
}

// calm lowers the level of the SDK's messages about normal events. A failed attempt that is
// retried, or that ended with its session, is logged at level info, and so is a poll that ended
// with its worker. A final failure is only a warning, because the session handles it.
type calm struct{ slog.Handler }

// Parts of the SDK's log messages: the texts for a failed attempt and for a failed poll, the key of
// the error, and the error of a poll whose worker stops.
const (
	activityError = "Activity error."
	pollError     = "Failed to poll for task."
	errorKey      = "Error"
	stopping      = "worker stopping"
)

// Enabled implements slog.Handler. The final level is only known in Handle.
func (c calm) Enabled(ctx context.Context, level slog.Level) bool {
	return c.Handler.Enabled(ctx, level)
}

func (c calm) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == activityError || r.Message == pollError {
		r.Attrs(func(a slog.Attr) bool {
			err, ok := a.Value.Any().(error)
			switch {
			case !ok || a.Key != errorKey:
			case r.Message == activityError:
				r.Level = attemptLevel(err)
			case err.Error() == stopping:
				r.Level = slog.LevelInfo
			}
			return true
		})
		if !c.Handler.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return c.Handler.Handle(ctx, r)
}

func (c calm) WithAttrs(attrs []slog.Attr) slog.Handler { return calm{c.Handler.WithAttrs(attrs)} }

func (c calm) WithGroup(name string) slog.Handler { return calm{c.Handler.WithGroup(name)} }

func attemptLevel(err error) slog.Level {
	_, cancelled := errors.AsType[*temporal.CanceledError](err)
	application, classified := errors.AsType[*temporal.ApplicationError](err)
	switch {
	case cancelled, errors.Is(err, context.Canceled), classified && !application.NonRetryable():
		return slog.LevelInfo
	case classified:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// WorkerFlags are the flags that `conclave worker` and conclave-worker share.
type WorkerFlags struct {
	Settings   string // path of the operator's file
	MaxSteps   int    // 0 for the default
	StateDir   string
	Deployment string
	Log        Log
	Offline    bool
}

// Flags adds the flags.
func (f *WorkerFlags) Flags(set *pflag.FlagSet) {
	set.StringVar(&f.Settings, "worker-config", "", "the operator's configuration `FILE`: providers, teams, limits")
	set.IntVar(&f.MaxSteps, "max-concurrent-steps", 0, "how many steps run at a time (default from --worker-config, else 32)")
	set.StringVar(&f.StateDir, "state-dir", "", "the `DIR` in which the next worker of a cluster finds the steps of one that was killed (default ~/.local/state/conclave/workers)")
	set.StringVar(&f.Deployment, "deployment", "", "belong to the worker deployment `NAME` of a cluster: a run stays with the build of the worker that it began with")
	f.Log.Flags(set)
	set.BoolVar(&f.Offline, "offline", false, "the default team uses the built-in deterministic model")
}

// Check refuses a number of steps that is out of range.
func (f WorkerFlags) Check() error {
	if f.MaxSteps < 0 {
		return fmt.Errorf("--max-concurrent-steps is %d; it must be at least 1", f.MaxSteps)
	}
	return nil
}

// UserDir returns conclave's directory in one of the user's base directories: that of an XDG
// variable or, if the variable is unset or relative, its default below the home directory.
func UserDir(variable string, below ...string) (string, error) {
	if base := os.Getenv(variable); filepath.IsAbs(base) {
		return filepath.Join(base, "conclave"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, filepath.Join(below...), "conclave"), nil
}

// IsLoopback reports whether an address, HOST or HOST:PORT, refers to this machine alone.
func IsLoopback(address string) bool {
	host := address
	if h, _, err := net.SplitHostPort(address); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}
