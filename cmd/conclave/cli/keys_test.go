//go:build linux

package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
)

func echoes(t *testing.T, tty *os.File) bool {
	t.Helper()
	now, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return now.Lflag&(unix.ECHO|unix.ICANON) == unix.ECHO|unix.ICANON
}

// Keys are read one by one and not shown. Afterwards the terminal is as before, and what was typed
// before and after is nobody's input.
func TestKeys(t *testing.T) {
	term := stage.NewTerminal(t)
	c := &cli.CLI{Stdin: term.TTY, Stderr: term.TTY}
	keys := c.OpenKeys(cli.NewDisplay(term.TTY))
	require.NotNil(t, keys)
	term.Type("", "typed before\n")
	term.Type("typed before\n", "") // the terminal has echoed it
	ctx, end := context.WithCancel(t.Context())
	typed := make(chan string, 9)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		keys.Listen(ctx, func(s string) { typed <- s })
	}()
	require.Eventually(t, func() bool { return !echoes(t, term.TTY) }, time.Minute, time.Millisecond)
	for _, key := range []string{"p", "é", "\x1b[A"} {
		term.Type("", key)
		require.Equal(t, key, <-typed)
	}
	require.Equal(t, "typed before\n", term.Shown())
	end()
	<-ended
	require.True(t, echoes(t, term.TTY))
	require.Empty(t, typed)
}

// Without a person at a terminal that redraws a block there are no keys.
func TestKeys_needAPerson(t *testing.T) {
	term := stage.NewTerminal(t)
	block := cli.NewDisplay(term.TTY)
	require.Nil(t, (&cli.CLI{Stdin: term.TTY, Stderr: term.TTY}).OpenKeys(cli.NewLines(term.TTY)))
	require.Nil(t, (&cli.CLI{Stdin: term.TTY, Stderr: term.TTY, Automation: true}).OpenKeys(block))
	require.Nil(t, (&cli.CLI{Stdin: strings.NewReader("p"), Stderr: term.TTY}).OpenKeys(block))
}

// What was typed before a question is no answer to it.
func TestAsk_discardsTypeAhead(t *testing.T) {
	term := stage.NewTerminal(t)
	c := &cli.CLI{Stdin: term.TTY, Stderr: term.TTY}
	term.Type("", "y\n")
	term.Type("y\n", "") // the terminal has echoed it
	answers := make(chan string)
	go func() {
		answer, _ := c.AskAfterWait("Apply?")
		answers <- answer
	}()
	term.Type("Apply? ", "D\n")
	require.Equal(t, "d", <-answers)
}

func TestPrintAnswer_terminal(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for term, want := range map[string]string{
		"xterm": strings.Repeat("─", 79) + "\na b\n\n• c\n",
		"dumb":  "\n# a **b**\n\n- c\n",
	} {
		t.Setenv("TERM", term)
		screen := stage.NewTerminal(t)
		require.NoError(t, (&cli.CLI{Stdout: screen.TTY}).PrintAnswer("# a **b**\n\n- c\n"))
		screen.Type(want, "")
		require.Equal(t, want, screen.Shown())
	}
}

// The summary of a run breaks between its parts on a narrow terminal only.
func TestSummarize(t *testing.T) {
	screen := stage.NewTerminal(t)
	line := "agent_a (agent1.1) by consensus · 3 fresh votes · 2 rounds · 0:11 · 6.6k tokens, cost unknown"
	(&cli.CLI{Stderr: screen.TTY}).Summarize(line)
	screen.Type("cost unknown\n", "")
	require.Equal(t, "\n"+strings.Replace(line, " · 6.6k", "\n6.6k", 1)+"\n", screen.Shown())
}

func TestOpenBrowser(t *testing.T) {
	seen := filepath.Join(t.TempDir(), "seen")
	browser := filepath.Join(t.TempDir(), "browser")
	require.NoError(t, os.WriteFile(browser, []byte("#!/bin/sh\necho \"$@\" > "+seen+".new && mv "+seen+".new "+seen+"\n"), 0o755))
	t.Setenv("BROWSER", browser+" --new")
	require.NoError(t, cli.OpenBrowser("http://127.0.0.1:1/sessions/s1"))
	require.Eventually(t, func() bool { _, err := os.Stat(seen); return err == nil }, time.Minute, 5*time.Millisecond)
	content, err := os.ReadFile(seen)
	require.NoError(t, err)
	require.Equal(t, "--new http://127.0.0.1:1/sessions/s1\n", string(content))

	t.Setenv("BROWSER", filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, cli.OpenBrowser("http://x"), "open http://x in a browser")
	for _, name := range []string{"BROWSER", "DISPLAY", "WAYLAND_DISPLAY"} {
		t.Setenv(name, "")
	}
	require.ErrorContains(t, cli.OpenBrowser("http://x"), "there is no screen")
}
