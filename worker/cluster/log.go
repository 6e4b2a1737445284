package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

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

// Announce returns plain, which prints messages for people, or with the JSON format a function that logs
// them, so that every line of the log is JSON.
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

// Handle implements slog.Handler.
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

// WithAttrs implements slog.Handler.
func (c calm) WithAttrs(attrs []slog.Attr) slog.Handler { return calm{c.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (c calm) WithGroup(name string) slog.Handler { return calm{c.Handler.WithGroup(name)} }

// attemptLevel returns the log level for a failed attempt.
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
