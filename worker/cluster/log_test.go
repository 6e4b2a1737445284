package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

func parsed(t *testing.T, args ...string) Log {
	t.Helper()
	var l Log
	set := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	l.Flags(set)
	require.NoError(t, set.Parse(args))
	return l
}

func TestLog_flags(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := parsed(t).New(&out)
	require.NoError(t, err)
	log.Debug("hidden")
	log.Info("working", "team", "default")
	require.Contains(t, out.String(), `level=INFO msg=working team=default`)
	require.NotContains(t, out.String(), "hidden")

	out.Reset()
	log, err = parsed(t, "--log-format", "json", "--log-level", "debug").New(&out)
	require.NoError(t, err)
	log.With("team", "default").WithGroup("step").Debug("shown", "n", 1)
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "shown", line["msg"])
	require.Equal(t, "default", line["team"])
	require.Equal(t, map[string]any{"n": 1.}, line["step"])

	_, err = parsed(t, "--log-format", "xml").New(&out)
	require.EqualError(t, err, `--log-format is "xml"; it takes text or json`)
	_, err = parsed(t, "--log-level", "loud").New(&out)
	require.EqualError(t, err, `--log-level is "loud"; it takes debug, info, warn or error`)
}

// With the JSON format messages for people are lines of the log, too.
func TestLog_announce(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"text": "printed", "json": "working"} {
		var out bytes.Buffer
		flags := parsed(t, "--log-format", format)
		log, err := flags.New(&out)
		require.NoError(t, err)
		printed := ""
		flags.Announce(log, func(string, ...any) { printed = "printed" })("%s", "working")
		var line struct{ Msg string }
		if format == "json" {
			require.NoError(t, json.Unmarshal(out.Bytes(), &line))
		}
		require.Equal(t, want, line.Msg+printed)
	}
}

// A worker that stops ends its polls, which causes no warning.
func TestLog_endOfPolls(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := sdklog.NewStructuredLogger(Warnings(&out))
	log.Warn("Failed to poll for task.", "WorkerType", "WorkflowWorker", "Error", errors.New("worker stopping"))
	require.Empty(t, out.String())
	log.Warn("Failed to poll for task.", "WorkerType", "WorkflowWorker", "Error", errors.New("connection refused"))
	require.Contains(t, out.String(), "level=WARN")
}

// Attempts that are retried or cancelled are normal work, not errors.
func TestLog_normalWorkIsNoError(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err   error
		level string
	}{
		"retried":    {temporal.NewApplicationError("the server is busy", "RateLimited"), "INFO"},
		"cancelled":  {temporal.NewCanceledError(), "INFO"},
		"handedOver": {context.Canceled, "INFO"},
		"final":      {temporal.NewNonRetryableApplicationError("no such model", "BadRequest", nil), "WARN"},
		"unknown":    {errors.New("a bug"), "ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			log, err := parsed(t).New(&out)
			require.NoError(t, err)
			sdklog.NewStructuredLogger(log).Error("Activity error.", "Attempt", 2, "Error", tc.err)
			require.Contains(t, out.String(), "level="+tc.level)

			out.Reset()
			sdklog.NewStructuredLogger(Warnings(&out)).Error("Activity error.", "Error", tc.err)
			require.Equal(t, tc.level != "INFO", out.Len() > 0)

			out.Reset()
			log, err = parsed(t, "--log-level", "error").New(&out)
			require.NoError(t, err)
			sdklog.NewStructuredLogger(log).Error("Activity error.", "Error", tc.err)
			require.Equal(t, tc.level == "ERROR", out.Len() > 0)
		})
	}
}

func TestIdentity_hasVersionAndHost(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^conclave-worker/\S+@\S+#\d+-[A-Z2-7]{8}$`, WorkerIdentity())
	require.Regexp(t, `^conclave/\S+@\S+#\d+-[A-Z2-7]{8}$`, clientIdentity())
}
