package outputs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
	"conclave/engine/files/patch"
)

// Wrong arguments are refused before anything is connected.
func TestCommands_refuse(t *testing.T) {
	s := stage.NewShell(t, Commands)
	for says, line := range map[string][]string{
		"--stat and --name-only exclude each other":                                                    {"diff", "s1", "--stat", "--name-only"},
		`"agent1" is not the label of an answer; give one such as agent1.2, agent1.final, or 003-lint`: {"diff", "s1", "agent1"},
		`"main.go" is not the label of an answer`:                                                      {"apply", "s1", "main.go"},
		"diff needs ID":             {"diff"},
		"apply takes":               {"apply", "s1", "agent1.1", "dir"},
		"files takes":               {"files", "s1", "agent1.1", "a", "b"},
		"session id":                {"files", "s 1"},
		"is not a slug":             {"files", "../s1"},
		"unknown flag: --three-way": {"apply", "s1", "--three-way"},
	} {
		code, stdout, stderr := s.Run(line...)
		require.Equal(t, cli.ExitUsage, code, "%v: %s", line, stderr)
		require.Empty(t, stdout)
		require.Contains(t, stderr, says)
	}
	s.StartedNothing()
}

// Open gives the answer to programs: its paths, patch and files.
func TestOpen(t *testing.T) {
	t.Parallel()
	conn, _ := sessionOf(t, "agent1.1")
	a, err := Open(t.Context(), conn, "s1", "")
	require.NoError(t, err)
	require.Equal(t, []string{"s1", "agent1.1", "agent_a"}, []string{a.ID, a.Label, a.Agent})
	require.Equal(t, []string{"bin/run.sh", "link", "logo\a.png", "main.go"}, a.Paths())
	change, stat, err := a.Patch(t.Context())
	require.NoError(t, err)
	require.Contains(t, change, "+package main\n")
	require.Contains(t, stat, "main.go")
	content, err := a.File(t.Context(), "main.go")
	require.NoError(t, err)
	require.Equal(t, "package main\n", string(content))
	for _, missing := range []string{"", "none.go", "bin", "../session.json", "./main.go"} {
		_, err := a.File(t.Context(), missing)
		require.ErrorIs(t, err, artifact.ErrNotFound, missing)
	}

	empty, err := Open(t.Context(), conn, "s1", "agent2.1")
	require.NoError(t, err)
	require.Empty(t, empty.Paths())
	change, _, err = empty.Patch(t.Context())
	require.NoError(t, err)
	require.Empty(t, change)
	for _, wrong := range [][2]string{{"s9", ""}, {"s1", "agent9.1"}, {"empty", ""}} {
		_, err := Open(t.Context(), conn, wrong[0], wrong[1])
		require.Error(t, err, wrong)
	}
}

// A terminal is shown no control characters of a text; other bytes are those of the file.
func TestShown(t *testing.T) {
	t.Parallel()
	file := func(content string) *patch.File {
		return &patch.File{Path: "a.txt", Mode: "100644", Content: []byte(content)}
	}
	changes := []patch.Change{
		{Old: file("plain\n"), New: file("\x1b[2Jcleared\n"), Similarity: 7},
		{New: file("\x00\x1b[2Jbinary")},
		{Old: file("gone\x9b1m\n")},
	}
	clean := withoutControls(changes)
	require.Len(t, clean, 3)
	require.Equal(t, "plain\n", string(clean[0].Old.Content))
	require.NotContains(t, string(clean[0].New.Content), "\x1b")
	require.Contains(t, string(clean[0].New.Content), "cleared\n")
	require.Equal(t, 7, clean[0].Similarity)
	require.Equal(t, changes[1].New, clean[1].New, "the patch of a binary file is encoded")
	require.Nil(t, clean[1].Old)
	require.Nil(t, clean[2].New)
	require.Equal(t, "\x1b[2Jcleared\n", string(changes[0].New.Content), "the changes stay as they are")
}

// A pager is the user's own command. If it does not work, the text is printed.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	conn := &cli.Connection{CLI: &cli.CLI{Stdout: &out, Stderr: &out}}
	shown := func(pager string) (string, bool) {
		out.Reset()
		ok := showInPager(t.Context(), conn, pager, []byte("one\ntwo\n"))
		return out.String(), ok
	}
	text, ok := shown("sed s/^/:/")
	require.True(t, ok)
	require.Equal(t, ":one\n:two\n", text)
	text, ok = shown("no-such-pager -x")
	require.False(t, ok)
	require.Empty(t, text)
	_, ok = shown("sh -c 'exit 3'")
	require.False(t, ok, "a pager that fails has shown nothing")

	less := filepath.Join(dir, "less")
	require.NoError(t, os.WriteFile(less, []byte("#!/bin/sh\necho \"LESS=$LESS\"; cat\n"), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, unset := range []string{"", " ", "\t"} {
		t.Setenv("LESS", "")
		require.NoError(t, os.Unsetenv("LESS"))
		text, ok = shown(unset)
		require.True(t, ok, "%q", unset)
		require.Equal(t, "LESS=FRX\none\ntwo\n", text)
		t.Setenv("LESS", "-i")
		text, _ = shown(unset)
		require.Equal(t, "LESS=-i\none\ntwo\n", text, "the user's options stay")
	}
}

// Outputs other than terminals are 80 columns wide.
func TestWidth(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	for _, out := range []any{file, &bytes.Buffer{}} {
		width, terminal := cli.TerminalWidth(out)
		require.Equal(t, 80, width)
		require.False(t, terminal)
	}
}

// The names of an answer's files are listed in a message, shortened.
func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "none", listPaths(artifact.Manifest{}))
	require.Equal(t, `a b.txt, "x\012y"`, listPaths(artifact.Manifest{Files: []artifact.File{{Path: "a b.txt"}, {Path: "x\ny"}}}))
	var many artifact.Manifest
	for range 200 {
		many.Files = append(many.Files, artifact.File{Path: strings.Repeat("d/", 20) + "f"})
	}
	require.LessOrEqual(t, len(listPaths(many)), 400)
}
