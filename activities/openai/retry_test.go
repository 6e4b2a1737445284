package openai_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// gaps returns the waits between the requests.
func gaps(requests []recorded) []time.Duration {
	var out []time.Duration
	for i := 1; i < len(requests); i++ {
		out = append(out, requests[i].at.Sub(requests[i-1].at))
	}
	return out
}

func TestRetry_triesSevenTimes(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"500":     rawFields(500, `{"error":{"message":"oops"}}`),
		"429":     rawFields(429, `{}`),
		"network": hangUp(""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, w := serve(t, openai.Options{}, handler)
				start := time.Now()
				_, err := client.Generate(t.Context(), hello)
				failed, ok := errors.AsType[*llm.Error](err)
				require.True(t, ok, "%v", err)
				require.Zero(t, failed.RetryAfter, "the server did not say")
				require.LessOrEqual(t, time.Since(start), time.Minute)

				waits := gaps(w.seen())
				require.Len(t, waits, 6)
				for i, most := range []time.Duration{1, 2, 4, 8, 16, 20} {
					require.LessOrEqual(t, waits[i], most*time.Second)
					require.GreaterOrEqual(t, waits[i], most*time.Second*3/4, "jitter takes at most a quarter")
				}
			})
		})
	}
}

func TestRetry_succeedsAfterRecovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, w := serve(t, openai.Options{}, rawFields(503, ``), hangUp(""), rawFields(429, ``), rawFields(200, saysHi))
		reply, err := client.Generate(t.Context(), hello)
		require.NoError(t, err)
		require.Equal(t, "hi", reply.Message.Content)
		require.Equal(t, int64(1), reply.Usage.ModelCalls, "refused requests are not paid for")
		require.Len(t, w.seen(), 4)
		for _, r := range w.seen() {
			require.Equal(t, w.seen()[0].body, r.body)
		}
	})
}

func TestRetry_waitsAsAsked(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header, value string
		wait          time.Duration
	}{
		"seconds":             {"Retry-After", "12", 12 * time.Second},
		"half seconds":        {"Retry-After", "7.5", 7500 * time.Millisecond},
		"milliseconds":        {"Retry-After-Ms", "4250", 4250 * time.Millisecond},
		"shorter than ours":   {"Retry-After", "0", 0},
		"nonsense":            {"Retry-After", "soon", 0},
		"negative":            {"Retry-After", "-5", 0},
		"not a number at all": {"Retry-After-Ms", "NaN", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, w := serve(t, openai.Options{}, rawFields(429, ``, tc.header, tc.value), rawFields(200, saysHi))
				_, err := client.Generate(t.Context(), hello)
				require.NoError(t, err)
				require.Len(t, w.seen(), 2)
				wait := gaps(w.seen())[0]
				if tc.wait > 0 {
					honoured(t, tc.wait, wait)
				} else {
					require.Less(t, wait, 1100*time.Millisecond)
				}
			})
		})
	}
}

// honoured checks that a wait is the one asked for, and little more.
func honoured(t *testing.T, asked, waited time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, waited, asked)
	require.LessOrEqual(t, waited, asked*9/8+time.Nanosecond)
}

// A server asks every client for the same wait. Clients return at different moments,
// all within the time for retries.
func TestRetry_spreadsEqualWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const agents = 8
		came := map[time.Duration]bool{}
		for range agents {
			start := time.Now()
			client, w := serve(t, openai.Options{}, rawFields(429, ``, "Retry-After", "59"), rawFields(200, saysHi))
			_, err := client.Generate(t.Context(), hello)
			require.NoError(t, err)
			honoured(t, 59*time.Second, gaps(w.seen())[0])
			require.LessOrEqual(t, time.Since(start), time.Minute)
			came[gaps(w.seen())[0]] = true
		}
		require.Greater(t, len(came), 1)
	})
}

// Waits are reported with their reason and end. The last wait is over when the server
// accepts a try, before the reply has arrived, or when the call fails.
func TestRetry_reportsItsWaits(t *testing.T) {
	t.Parallel()
	const away, limited = "overloaded (HTTP 503)", "rate limited (HTTP 429)"
	for name, tt := range map[string]struct {
		responses []http.HandlerFunc
		want      []string
		seconds   []float64 // of the waits
	}{
		"accepted": {[]http.HandlerFunc{rawFields(429, `{}`, "Retry-After", "12"), rawFields(200, saysHi)}, []string{limited, "over"}, []float64{12}},
		"accepted at last": {
			[]http.HandlerFunc{rawFields(503, `{}`, "Retry-After", "3"), rawFields(429, `{}`, "Retry-After", "7"), rawFields(200, saysHi)},
			[]string{away, limited, "over"},
			[]float64{3, 7},
		},
		"failed":      {[]http.HandlerFunc{rawFields(503, `{}`, "Retry-After", "3"), rawFields(401, `{}`)}, []string{away, "over"}, []float64{3}},
		"a slow try":  {[]http.HandlerFunc{rawFields(503, `{}`, "Retry-After", "3"), slowly(rawFields(429, `{}`, "Retry-After", "7")), rawFields(200, saysHi)}, []string{away, "over", limited, "over"}, []float64{3, 7}},
		"a quick try": {[]http.HandlerFunc{rawFields(503, `{}`, "Retry-After", "3"), rawFields(429, `{}`, "Retry-After", "7"), slowly(rawFields(200, saysHi))}, []string{away, limited, "over"}, []float64{3, 7}},
		"at once":     {[]http.HandlerFunc{rawFields(200, saysHi)}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var told []string
				var seconds []float64
				waiting := func(_ context.Context, failed *llm.Error, until time.Time) func() {
					told, seconds = append(told, failed.Message), append(seconds, time.Until(until).Seconds())
					return func() { told = append(told, "over") }
				}
				client, _ := serve(t, openai.Options{Waiting: waiting}, tt.responses...)
				_, _ = client.Generate(t.Context(), hello)
				require.Len(t, told, len(tt.want))
				for i, want := range tt.want {
					require.Contains(t, told[i], want)
				}
				for i, want := range tt.seconds {
					require.InDelta(t, want, seconds[i], want/8+0.1)
				}
			})
		})
	}
}

// slowly delays a response by ten seconds.
func slowly(then http.HandlerFunc) http.HandlerFunc {
	return func(res http.ResponseWriter, req *http.Request) {
		time.Sleep(10 * time.Second)
		then(res, req)
	}
}

// Google sends the wait in the body.
func TestRetry_waitsAsAskedInTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		body := `[{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[
			{"@type":"type.googleapis.com/google.rpc.Help"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}]`
		client, w := serve(t, openai.Options{}, rawFields(429, body), rawFields(200, saysHi))
		_, err := client.Generate(t.Context(), hello)
		require.NoError(t, err)
		honoured(t, 34500*time.Millisecond, gaps(w.seen())[0])
	})
}

func TestRetry_waitsUntilADate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, w := serve(t, openai.Options{}, func(res http.ResponseWriter, req *http.Request) {
			rawFields(503, ``, "Retry-After", time.Now().Add(9*time.Second).UTC().Format(http.TimeFormat))(res, req)
		}, rawFields(200, saysHi))
		_, err := client.Generate(t.Context(), hello)
		require.NoError(t, err)
		honoured(t, 9*time.Second, gaps(w.seen())[0])
	})
}

func TestRetry_leavesLongWaitsToTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, w := serve(t, openai.Options{}, rawFields(429, ``, "Retry-After", "25"), rawFields(429, ``, "Retry-After", "90"))
		start := time.Now()
		_, err := client.Generate(t.Context(), hello)
		failed, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, llm.RateLimited, failed.Kind)
		require.Equal(t, 90*time.Second, failed.RetryAfter)
		honoured(t, 25*time.Second, time.Since(start))
		require.Len(t, w.seen(), 2)
	})
}

func TestRetry_boundsTheWaitAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, openai.Options{}, rawFields(503, ``, "Retry-After", "8640000"))
		_, err := client.Generate(t.Context(), hello)
		failed, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, time.Hour, failed.RetryAfter)
	})
}

func TestRetry_notAfterARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, w := serve(t, openai.Options{}, rawFields(400, ``, "Retry-After", "1"))
		_, err := client.Generate(t.Context(), hello)
		failed, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, "%v", err)
		require.Zero(t, failed.RetryAfter)
		require.Len(t, w.seen(), 1)
	})
}
