package tools_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/mcp"
	"conclave/activities/sandbox"
	"conclave/activities/tools"
	"conclave/engine/llm"
)

func (d toolbox) names() []string {
	var names []string
	for _, t := range d.set.Tools() {
		names = append(names, t.Name)
	}
	return names
}

func TestOpen_selectsTools(t *testing.T) {
	t.Parallel()
	files := []string{"read_file", "write_file", "edit_file", "list_files", "search_files", "copy_path"}
	shell := &sandbox.Options{Level: sandbox.Off, Host: sandbox.Host{Level: sandbox.Off}}
	require.Equal(t, files, openToolbox(t, tools.Set{Files: true}).names())
	require.Equal(t, []string{"run_command"}, openToolbox(t, tools.Set{Shell: shell}).names())
	require.Equal(t, []string{"mcp__greeter__greet"}, openToolbox(t, tools.Set{Servers: []mcp.Server{greeter(t)}}).names())
	require.Empty(t, openToolbox(t, tools.Set{}).names())
	all := openToolbox(t, tools.Set{Files: true, Shell: shell, Servers: []mcp.Server{greeter(t)}})
	require.Equal(t, append(files, "run_command", "mcp__greeter__greet"), all.names())
}

func TestOpened_runsEachTool(t *testing.T) {
	t.Parallel()
	d := openToolbox(t, tools.Set{Files: true, Servers: []mcp.Server{greeter(t)}})
	require.Equal(t, "created a.txt (1 bytes)", d.run("write_file", "path", "a.txt", "content", "x"))
	require.Equal(t, "Hello Ada, from "+d.dir+".", d.run("mcp__greeter__greet", "name", "Ada"))
}

// The error for an unknown tool suggests the nearest of all tools. A tool that is switched off is unknown.
func TestOpened_unknownTool(t *testing.T) {
	t.Parallel()
	d := openToolbox(t, tools.Set{Files: true, Servers: []mcp.Server{greeter(t)}})
	require.Equal(t, `error: there is no tool "readfile"; did you mean "read_file"?`, d.run("readfile"))
	require.Equal(t, `error: there is no tool "greet"; did you mean "mcp__greeter__greet"?`, d.run("greet"))
	require.Equal(t, `error: there is no tool "mcp__greeter__gret"; did you mean "mcp__greeter__greet"?`, d.run("mcp__greeter__gret"))
	require.Equal(t, `error: there is no tool "run_command"`, d.run("run_command", "command", "id"))

	off := openToolbox(t, tools.Set{Servers: []mcp.Server{greeter(t)}})
	require.Contains(t, off.run("write_file", "path", "a.txt", "content", "x"), `there is no tool "write_file"`)
	require.NoFileExists(t, filepath.Join(off.dir, "a.txt"))
	require.Contains(t, off.run("mcp__other__x"), "there is no tool")
	require.Contains(t, openToolbox(t, tools.Set{}).run("mcp__greeter__greet"), "there is no tool")
}

func TestOpened_followsChangesOfServerTools(t *testing.T) {
	t.Parallel()
	d := openToolbox(t, tools.Set{Servers: []mcp.Server{greeter(t)}})
	require.Contains(t, d.run("mcp__greeter__leave"), "there is no tool")
	d.run("mcp__greeter__greet", "name", "Ada")
	require.Eventually(t, func() bool { return slices.Contains(d.names(), "mcp__greeter__leave") }, time.Minute, 10*time.Millisecond)
	require.Equal(t, "Goodbye.", d.run("mcp__greeter__leave"))
}

func TestOpened_savesALongResultInTheWorkspace(t *testing.T) {
	t.Parallel()
	d := openToolbox(t, tools.Set{Servers: []mcp.Server{greeter(t)}})
	name := strings.Repeat("é", 50_000)
	got := d.run("mcp__greeter__greet", "name", name)
	require.LessOrEqual(t, len(got), 48<<10)
	require.Greater(t, len(got), 47<<10)
	require.True(t, strings.HasPrefix(got, "Hello é"))
	require.Contains(t, got, "the whole of it is in tool-results/mcp__greeter__greet-1.txt")
	kept, err := os.ReadFile(filepath.Join(d.dir, "tool-results/mcp__greeter__greet-1.txt"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(kept), "Hello "+name+", from "))
	require.True(t, strings.HasSuffix(got, string(kept[len(kept)-100:])))

	got = d.run("mcp__greeter__greet", "name", "é", "times", 4_300_000)
	require.Contains(t, got, "its first 8.0 MB is in tool-results/mcp__greeter__greet-2.txt")
	info, err := os.Stat(filepath.Join(d.dir, "tool-results/mcp__greeter__greet-2.txt"))
	require.NoError(t, err)
	require.InDelta(t, 8<<20, info.Size(), 1)
}

// Agents can make links in the workspace.
func TestOpened_savesNoResultOutsideTheWorkspace(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	d := openToolbox(t, tools.Set{Servers: []mcp.Server{greeter(t)}})
	require.NoError(t, os.Symlink(outside, filepath.Join(d.dir, "tool-results")))
	require.Contains(t, d.run("mcp__greeter__greet", "name", strings.Repeat("x", 100_000)), "could not be kept in the workspace")
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestOpen_failureLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	require.NoError(t, os.Mkdir(work, 0o755))
	_, err := tools.Open(t.Context(), work, tools.Set{
		Files: true, Shell: &sandbox.Options{Level: sandbox.Off, Host: sandbox.Host{Level: sandbox.Off}},
		Servers: []mcp.Server{greeter(t), {Name: "broken", Command: "false"}},
	})
	var start *mcp.StartError
	require.ErrorAs(t, err, &start)
	require.Equal(t, "broken", start.Server)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "the sandbox's files are gone")

	_, err = tools.Open(t.Context(), filepath.Join(dir, "missing"), tools.Set{Files: true})
	require.ErrorContains(t, err, "open the workspace")
}

func TestOpened_closed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "work")
	require.NoError(t, os.Mkdir(dir, 0o755))
	set, err := tools.Open(t.Context(), dir, tools.Set{
		Files: true, Shell: &sandbox.Options{Level: sandbox.Off, Host: sandbox.Host{Level: sandbox.Off}}, Servers: []mcp.Server{greeter(t)},
	})
	require.NoError(t, err)
	require.NoError(t, set.Close())
	_, err = set.Run(t.Context(), llm.ToolCall{Name: "list_files"})
	require.Error(t, err)
	_, err = set.Run(t.Context(), llm.ToolCall{Name: "run_command", Arguments: `{"command": "true"}`})
	require.Error(t, err)
	left, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// The file tools and run_command have no effect outside a restored workspace.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	files := openToolbox(t, tools.Set{Files: true}).set.Tools()
	require.Len(t, files, 6)
	for _, tool := range files {
		require.True(t, tools.Repeatable(tool.Name, false), tool.Name)
	}
	require.True(t, tools.Repeatable("run_command", true))
	require.False(t, tools.Repeatable("run_command", false), "an unconfined command may have any effect")
	for _, name := range []string{"", "send_mail", "mcp__mail__send", "mcp__files__read_file", "Read_File", "vote"} {
		require.False(t, tools.Repeatable(name, true), name)
	}
}
