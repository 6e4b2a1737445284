package mcp_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/mcp"
	"conclave/engine/llm"
)

func TestRun_reportsACrashAndReconnects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir, fake(t, "fake", "ordinary"))

	got := run(t, c, "mcp__fake__crash", "{}").Text
	require.True(t, strings.HasPrefix(got, `error: the connection to MCP server "fake" broke during the call of "crash": `), got)
	require.Contains(t, got, "the program ended (exit status 7); it wrote last:\nfatal: out of cheese\n")
	require.Contains(t, got, "Whether the call was carried out is not known")
	require.Contains(t, got, "The server was reconnected")
	require.Equal(t, "2", run(t, c, "mcp__fake__count", "{}").Text, "the crash was called once")
}

// Not parallel: a program that another test is just starting would hold the pipes of the killed one open.
func TestRun_sendsAnUnsentCallToTheNextConnection(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, fake(t, "fake", "ordinary"))
	pid := serverOf(t, run(t, c, "mcp__fake__env", "{}").Text)
	require.NoError(t, pid.Kill())
	gone(t, pid.Pid)

	got := run(t, c, "mcp__fake__count", "{}").Text
	require.Equal(t, "1\n[MCP server \"fake\" was reconnected before this call: state from earlier calls, such as an open page, may be lost]", got)
	require.Equal(t, "2", run(t, c, "mcp__fake__count", "{}").Text)
}

func TestRun_reportsAServerThatDoesNotRestart(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir(), fake(t, "fake", "once"))
	got := run(t, c, "mcp__fake__crash", "{}").Text
	require.Contains(t, got, `Reconnecting failed: connect MCP server "fake": `)
	require.Contains(t, got, "exit status 4")
	got = run(t, c, "mcp__fake__count", "{}").Text
	require.True(t, strings.HasPrefix(got, `error: connect MCP server "fake": `), got)
}

func TestRun_keepsTheConnectionAfterALateCall(t *testing.T) {
	t.Parallel()
	s := fake(t, "fake", "ordinary")
	s.CallTimeout = 5 * time.Second
	c := open(t, t.TempDir(), s)
	before := run(t, c, "mcp__fake__env", "{}").Text
	require.Equal(t, `error: "sleep" of MCP server "fake" took longer than 5s; the server continues. Check the effect of the call before you repeat it`,
		run(t, c, "mcp__fake__sleep", `{"ms": 6000}`).Text)
	require.Equal(t, before, run(t, c, "mcp__fake__env", "{}").Text, "the same process answers")
}

func TestRun_endsAtTheDeadlineOfAHungServer(t *testing.T) {
	t.Parallel()
	s := fake(t, "fake", "ordinary")
	s.CallTimeout = 5 * time.Second
	c, err := mcp.Open(t.Context(), []mcp.Server{s}, mcp.Place{Dir: t.TempDir()})
	require.NoError(t, err)
	pid := serverOf(t, run(t, c, "mcp__fake__env", "{}").Text)
	require.Contains(t, run(t, c, "mcp__fake__stop", "{}").Text, "took longer than 5s")

	// More than a pipe holds: the message cannot be written.
	started := time.Now()
	require.Contains(t, run(t, c, "mcp__fake__echo", `{"text": "`+strings.Repeat("x", 1<<20)+`"}`).Text, "took longer than 5s")
	require.Less(t, time.Since(started), time.Minute)

	started = time.Now()
	require.NoError(t, c.Close())
	require.Less(t, time.Since(started), time.Minute)
	gone(t, pid.Pid)
}

func TestRun_returnsTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir(), fake(t, "fake", "ordinary"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := c.Run(ctx, llm.ToolCall{Name: "mcp__fake__sleep", Arguments: `{"ms": 60000}`})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestRun_disconnectsAServerThatFloods(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir(), fake(t, "fake", "ordinary"))
	require.Equal(t, "said it all", run(t, c, "mcp__fake__chatter", "{}").Text)
	got := run(t, c, "mcp__fake__big", `{"bytes": 40000000}`).Text
	require.Contains(t, got, "it sent a message longer than 32 MiB")
	require.Contains(t, got, "Whether the call was carried out is not known")
	require.Contains(t, run(t, c, "mcp__fake__spam", "{}").Text, "it sends requests faster than it reads the responses")
	require.Equal(t, "hello", run(t, c, "mcp__fake__echo", `{"text": "hello"}`).Text)

	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	require.Less(t, memory.Sys, uint64(1<<30))
}

func TestRun_showsEveryKindOfContent(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir(), fake(t, "fake", "ordinary"))
	out := run(t, c, "mcp__fake__mixed", "{}")
	require.Len(t, out.Images, 4)
	for _, shown := range out.Images {
		require.Equal(t, llm.Image{MediaType: "image/png", Data: picture(4, 4)}, shown)
	}
	size := len(picture(4, 4))
	require.Equal(t, strings.ReplaceAll(`first
[image 1: image/png, SIZE bytes]
[an image (image/gif, 20 bytes) is not shown: it is not a PNG, JPEG, GIF or WebP]
[an image (image/png, 6.0 MB) is not shown: it has more than 5 MiB]
[an image (image/png, WIDE bytes) is not shown: it has 9000×1 pixels, more than 8000 on a side or 32 million in all]
[an image (image/png, 20 bytes) is not shown: it is damaged]
[audio (audio/wav, 4 bytes) is not played]
[link to a resource: file:///a.txt (a.txt; text/plain)]
[resource mem://1]
embedded words
[resource mem://2 (application/zip, 2 bytes) is not shown]
[image 2: image/png, SIZE bytes]
[image 3: image/png, SIZE bytes]
[image 4: image/png, SIZE bytes]
[an image (image/png, SIZE bytes) is not shown: a call can show 4]`, "SIZE", itoa(size)), strings.ReplaceAll(out.Text, itoa(len(picture(9000, 1)))+" bytes", "WIDE bytes"))
}

func TestRun_showsStructuredResultsOnce(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir(), fake(t, "fake", "ordinary"))
	for arguments, want := range map[string]string{
		`{}`: `{"city":"Oslo","degrees":4}`,
		`{"text": "{\"degrees\": 4, \"city\": \"Oslo\"}"}`: `{"degrees": 4, "city": "Oslo"}`,
		`{"text": "It is 4 degrees in Oslo."}`:             `It is 4 degrees in Oslo.`,
		`{"text": "Done."}`:                                "Done.\n" + `{"city":"Oslo","degrees":4}`,
	} {
		require.Equal(t, want, run(t, c, "mcp__fake__structured", arguments).Text)
	}
}
