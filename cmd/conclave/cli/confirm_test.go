//go:build linux

package cli_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
)

func TestConfirm(t *testing.T) {
	for keys, want := range map[string]bool{"y\n": true, "Yes\n": true, "n\n": false, "\n": false, "yy\n": false, "\x04": false} {
		term := stage.NewTerminal(t)
		c := &cli.CLI{Stdin: term.TTY, Stderr: term.TTY}
		require.True(t, c.CanConfirm())
		answered := make(chan struct{})
		var yes bool
		var err error
		go func() {
			defer close(answered)
			yes, err = c.Confirm("Sure?\x1b[2J")
		}()
		term.Type("Sure? [y/N] ", keys)
		<-answered
		require.NoError(t, err)
		require.Equal(t, want, yes, "%q", keys)
	}
}

func TestConfirm_interrupted(t *testing.T) {
	term := stage.NewTerminal(t)
	c := &cli.CLI{Stdin: term.TTY, Stderr: term.TTY}
	answered := make(chan error)
	go func() {
		_, err := c.Confirm("Sure?")
		answered <- err
	}()
	term.Type("Sure? [y/N] ", "")
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	require.ErrorIs(t, <-answered, context.Canceled)
	term.Type("\n", "\n") // ends the read
}

func TestCanConfirm_needsAPerson(t *testing.T) {
	term := stage.NewTerminal(t)
	for name, c := range map[string]*cli.CLI{
		"input from a pipe": {Stdin: strings.NewReader("y\n"), Stderr: term.TTY},
		"messages to a log": {Stdin: term.TTY, Stderr: &bytes.Buffer{}},
		"--automation":      {Stdin: term.TTY, Stderr: term.TTY, Automation: true},
		"--json":            {Stdin: term.TTY, Stderr: term.TTY, JSON: true},
	} {
		require.False(t, c.CanConfirm(), name)
	}
}
