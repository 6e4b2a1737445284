package openai_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

const (
	h     = `{"choices":[{"index":0,"delta":{"role":"assistant","content":"h"},"finish_reason":null}]}`
	i     = `{"choices":[{"index":0,"delta":{"content":"i"},"finish_reason":null}]}`
	role  = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	stop  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	spent = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`
	done  = `[DONE]`
)

// Long prompts and servers' buffers cause long silences.
func TestWatchdog_allowsSlowStreams(t *testing.T) {
	t.Parallel()
	for name, beats := range map[string][]beat{
		"a long prompt, before the headers": {pauses(9 * time.Minute), streams(), says(h), says(i), says(stop), says(spent), says(done), ends()},
		"a long prompt, after the headers":  {streams(), pauses(9 * time.Minute), says(h), says(i), says(stop), says(spent), says(done), ends()},
		"hidden thoughts after the role":    {streams(), says(role), pauses(9 * time.Minute), says(h), says(i), says(stop), says(spent), says(done), ends()},
		"keep-alives before the first word": {
			streams(), chunk(": processing\n\n"), pauses(4 * time.Minute), chunk(": processing\n\n"), pauses(5 * time.Minute),
			says(h), says(i), says(stop), says(spent), says(done), ends(),
		},
		"keep-alives between the words": {
			streams(), says(h), pauses(2 * time.Minute), chunk(":\n\n"), pauses(2 * time.Minute), chunk("\n"), pauses(2 * time.Minute),
			says(i), says(stop), says(spent), says(done), ends(),
		},
		"a buffered call":          {streams(), says(h), pauses(170 * time.Second), says(i), says(stop), says(spent), says(done), ends()},
		"no end after the reply":   {streams(), says(h), says(i), says(spent), says(stop), stalls(nil)},
		"cut after the reply":      {streams(), says(h), says(i), says(spent), says(stop)},
		"nothing after the mark":   {streams(), says(h), says(i), says(stop), says(spent), says(done), stalls(nil)},
		"byte by byte":             slices.Concat([]beat{streams()}, chunks("data: "+h+"\r\n\r\ndata:"+i+"\n\ndata: "+stop+"\n\ndata: "+spent+"\n\n"), []beat{ends()}),
		"compressed":               {begins("text/event-stream", "Content-Encoding", "gzip"), chunk(zipped(readEvents(h, i, stop, spent))), ends()},
		"under a wrong media type": {begins("text/plain"), chunk(": hello\n\n"), says(h), says(i), says(stop), says(spent), ends()},
		"one object instead": {
			begins("application/json"), chunk("\n \n"), pauses(time.Minute),
			chunk(`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`), ends(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, w := serve(t, openai.Options{}, plays(beats...))
				reply, err := client.Generate(t.Context(), hello)
				require.NoError(t, err)
				require.Equal(t, "hi", reply.Message.Content)
				require.Equal(t, llm.Usage{InputTokens: 9, OutputTokens: 2, ModelCalls: 1}, reply.Usage)
				require.Len(t, w.seen(), 1)
			})
		})
	}
}

// A configured limit of silence replaces the default; it may be longer or shorter.
func TestWatchdog_silentTimeout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limit, pause time.Duration
		fails        bool
	}{
		"a queue of an hour": {time.Hour, 50 * time.Minute, false},
		"longer than that":   {time.Hour, 61 * time.Minute, true},
		"a short limit":      {20 * time.Second, 30 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, openai.Options{
					SilentTimeout: tc.limit,
					Patience:      func(context.Context, bool) time.Duration { return 0 },
				}, plays(pauses(tc.pause), streams(), says(h), says(i), says(stop), says(spent), says(done), ends()))
				_, err := client.Generate(t.Context(), hello)
				if !tc.fails {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, "nothing of a reply for "+tc.limit.String())
				require.ErrorContains(t, err, "raise silent_timeout_seconds")
				<-time.After(2 * time.Minute) // until the script notices
			})
		})
	}
}

func TestWatchdog_endsStalledStreams(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		beats []beat
		takes time.Duration
		kind  llm.Kind
		says  string
	}{
		"no headers":       {[]beat{stalls(nil)}, 10 * time.Minute, llm.Network, "nothing of a reply for 10m0s"},
		"no first byte":    {[]beat{streams(), stalls(nil)}, 10 * time.Minute, llm.Network, "nothing of a reply for 10m0s"},
		"no first word":    {[]beat{streams(), says(role), stalls(nil)}, 10 * time.Minute, llm.Network, "nothing of a reply"},
		"no second word":   {[]beat{streams(), says(h), stalls(nil)}, 3 * time.Minute, llm.Network, "stalled"},
		"in mid-chunk":     {[]beat{streams(), says(h), chunk(`data: {"choi`), stalls(nil)}, 3 * time.Minute, llm.Network, "stalled"},
		"only keep-alives": {[]beat{streams(), drips(": processing\n\n", 15*time.Second)}, 10 * time.Minute, llm.Network, "nothing of a reply"},
		"then only keep-alives": {
			[]beat{streams(), says(h), drips(": processing\n\n", 15*time.Second)}, 10 * time.Minute, llm.Network, "nothing of a reply for 10m0s",
		},
		"an endless line":     {[]beat{streams(), says(h), drips("x", 15*time.Second)}, 10 * time.Minute, llm.Network, "nothing of a reply"},
		"an endless reply":    {[]beat{streams(), drips("data: "+h+"\n\n", 15*time.Second)}, 30 * time.Minute, llm.Network, "no end of the response within 30m0s"},
		"a flood":             {[]beat{streams(), floods(`data: {"choices":[{"delta":{"content":"` + strings.Repeat("h", 1<<20) + "\"}}]}\n\n")}, 0, llm.BadReply, "larger than 32 MiB"},
		"a flood of comments": {[]beat{streams(), floods(": " + strings.Repeat("processing ", 1<<17) + "\n\n")}, 0, llm.BadReply, "larger than 32 MiB"},
		"half an object":      {[]beat{begins("application/json"), chunk(`{"choi`), stalls(nil)}, 10 * time.Minute, llm.Network, "nothing of a reply"},
		"garbage":             {[]beat{sends("\x00\x01\x02 garbage\r\n\r\n")}, 0, llm.Network, "no response"},
		"garbled chunks":      {[]beat{streams(), says(h), sends("zz\r\n")}, 0, llm.Network, "the response broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, openai.Options{}, plays(tc.beats...))
				start := time.Now()
				_, err := client.Generate(t.Context(), hello)
				failed, ok := errors.AsType[*llm.Error](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, tc.kind, failed.Kind, failed.Message)
				require.Contains(t, failed.Message, tc.says)
				if tc.takes > 0 {
					require.InDelta(t, tc.takes.Seconds(), time.Since(start).Seconds(), 1)
				}
				<-time.After(time.Minute) // until the script notices
			})
		})
	}
}

// Both the broken and the repeated stream count.
func TestRetry_repeatsABrokenStreamOnce(t *testing.T) {
	t.Parallel()
	cut := plays(streams(), says(spent), says(h))
	for name, tc := range map[string]struct {
		second []beat
		says   string
	}{
		"and arrives":        {second: []beat{streams(), says(h), says(i), says(stop), says(spent), says(done), ends()}},
		"and breaks off too": {second: []beat{streams(), says(spent), says(h)}, says: "the response broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, w := serve(t, openai.Options{}, cut, plays(tc.second...))
				reply, err := client.Generate(t.Context(), hello)
				if tc.says == "" {
					require.NoError(t, err)
					require.Equal(t, "hi", reply.Message.Content)
				} else {
					require.ErrorContains(t, err, tc.says)
				}
				require.Equal(t, llm.Usage{InputTokens: 18, OutputTokens: 4, ModelCalls: 2}, reply.Usage)
				require.Len(t, w.seen(), 2)
			})
		})
	}
}

// A call without counts makes the sum unknown; the known part of the cost is kept.
func TestRetry_addsKnownCosts(t *testing.T) {
	t.Parallel()
	good := []beat{streams(), says(h), says(i), says(stop), says(spent), says(done), ends()}
	price := func(u llm.Usage) float64 { return float64(u.InputTokens) + 2*float64(u.OutputTokens) }
	for name, tc := range map[string]struct {
		first []beat
		total bool
	}{
		"counted both times": {[]beat{streams(), says(spent), says(h)}, true},
		"counted once":       {[]beat{streams(), says(h)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, openai.Options{Price: price}, plays(tc.first...), plays(good...))
				reply, err := client.Generate(t.Context(), hello)
				require.NoError(t, err)
				require.Equal(t, int64(2), reply.Usage.ModelCalls)
				if tc.total {
					require.NotNil(t, reply.Usage.TotalUSD)
					require.InDelta(t, 2*(9+4), *reply.Usage.TotalUSD, 1e-9)
					return
				}
				require.Nil(t, reply.Usage.TotalUSD)
				require.InDelta(t, 9+4, reply.Usage.AtLeastUSD(), 1e-9)
			})
		})
	}
}

// Servers stop when the connection is closed.
func TestGenerate_closesTheConnectionWhenCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		enough := errors.New("the session was finished")
		var hungUp time.Time
		client, _ := serve(t, openai.Options{}, plays(streams(), says(h), stalls(&hungUp)))
		ctx, cancel := context.WithCancelCause(t.Context())
		start := time.Now()
		time.AfterFunc(2*time.Second, func() { cancel(enough) })
		_, err := client.Generate(ctx, hello)
		require.ErrorIs(t, err, enough)
		synctest.Wait()
		require.Equal(t, start.Add(2*time.Second), hungUp)
	})
}
