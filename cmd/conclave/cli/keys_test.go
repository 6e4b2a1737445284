//go:build linux

package cli_test

import (
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

// Keys are read at once and not shown. Afterwards the terminal is as before, and what was typed before
// and after is nobody's input.
func TestKeys(t *testing.T) {
	term := stage.NewTerminal(t)
	c := &cli.CLI{Stdin: term.TTY, Stderr: term.TTY}
	term.Type("", "typed before\n")
	term.Type("typed before\n", "") // the terminal has echoed it
	typed := make(chan string)
	stop := c.Keys(cli.NewDisplay(term.TTY), func(key string, _ func(string) string) { typed <- key })
	require.Eventually(t, func() bool { return !echoes(t, term.TTY) }, time.Minute, time.Millisecond)
	for _, key := range []string{"p", "é", "\x1b[A"} {
		term.Type("", key)
		require.Equal(t, key, <-typed)
	}
	stop()
	require.True(t, echoes(t, term.TTY))
	require.Contains(t, term.Shown(), "? lists the keys")
	require.NotContains(t, term.Shown(), "é")
}

// The answer to a question is a line. The block stands still until it is there, and the next one is drawn
// below it.
func TestKeys_question(t *testing.T) {
	term := stage.NewTerminal(t)
	c, block := &cli.CLI{Stdin: term.TTY, Stderr: term.TTY}, cli.NewDisplay(term.TTY)
	answers := make(chan string)
	stop := c.Keys(block, func(_ string, ask func(string) string) { answers <- ask("say: ") })
	block.Show(cli.Snapshot{})
	require.Eventually(t, func() bool { return !echoes(t, term.TTY) }, time.Minute, time.Millisecond)
	term.Type("", "s")
	term.Type("say: ", " wë\x7fe\n")
	block.Show(cli.Snapshot{})
	require.Equal(t, "we", <-answers)
	block.Show(cli.Snapshot{Offline: true})
	_, after, asked := strings.Cut(term.Shown(), "say: ")
	require.True(t, asked)
	require.NotContains(t, after, "\x1b[A", "nothing above the answer is drawn again")
	require.Contains(t, after, "offline models")

	term.Type("", "s")
	require.Eventually(t, func() bool { return strings.HasSuffix(term.Shown(), "say: ") }, time.Minute, time.Millisecond)
	go stop()
	require.Empty(t, <-answers, "the end is no answer")
}

// Without a person at a terminal that redraws a block there are no keys.
func TestKeys_needAPerson(t *testing.T) {
	term := stage.NewTerminal(t)
	block := cli.NewDisplay(term.TTY)
	(&cli.CLI{Stdin: term.TTY, Stderr: term.TTY}).Keys(cli.NewLines(term.TTY), nil)()
	(&cli.CLI{Stdin: term.TTY, Stderr: term.TTY, Automation: true}).Keys(block, nil)()
	(&cli.CLI{Stdin: strings.NewReader("p"), Stderr: term.TTY}).Keys(block, nil)()
	require.Empty(t, term.Shown())
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
