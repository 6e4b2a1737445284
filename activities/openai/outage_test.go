package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// A server that is away is probed by one request at a time. A caller that waited for a failed probe
// shares its error, and a response lets all callers through.
func TestOutages_oneProbeAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var inFlight, most atomic.Int64
		away := atomic.Bool{}
		away.Store(true)
		handler := func(res http.ResponseWriter, req *http.Request) {
			n := inFlight.Add(1)
			defer inFlight.Add(-1)
			if n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			if away.Load() {
				rawFields(503, ``)(res, req)
				return
			}
			rawFields(200, saysHi)(res, req)
		}
		var turns atomic.Int64 // waited for
		client, w := serve(t, openai.Options{Waiting: func(_ context.Context, failed *llm.Error, until time.Time) func() {
			if until.IsZero() {
				assert.NotZero(t, failed.Since)
				turns.Add(1)
			}
			return func() {}
		}}, handler)
		_, err := client.Generate(t.Context(), hello)
		require.Error(t, err)
		tries := len(w.seen())
		most.Store(0)
		time.Sleep(2 * time.Minute)

		var wg sync.WaitGroup
		ask := func(n int) {
			for range n {
				wg.Go(func() {
					_, err := client.Generate(t.Context(), hello)
					failed, ok := errors.AsType[*llm.Error](err)
					if away.Load() && ok {
						require.WithinDuration(t, w.seen()[0].at, failed.Since, 2*time.Second, "the outage began with the first failure")
					}
				})
			}
			wg.Wait()
		}
		ask(20)
		require.EqualValues(t, 1, most.Load())
		require.Len(t, w.seen(), tries+1, "twenty callers share a probe")
		require.EqualValues(t, 19, turns.Load(), "waits for the probe are reported")

		away.Store(false)
		ask(20)
		require.Greater(t, most.Load(), int64(1), "the server is back")
	})
}

// A server that has never responded is given up after seconds; one that has is tried for
// a minute, counted from the beginning of the outage.
func TestOutages_patience(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		limit   time.Duration
		longest time.Duration
		tries   int
	}{
		"never reached":                   {hangUp(""), 5 * time.Second, 5 * time.Second, 3},
		"reached before":                  {hangUp(""), time.Minute, time.Minute, 7},
		"it responds that it is starting": {rawFields(503, `{"error":{"message":"Loading model"}}`), 5 * time.Second, time.Minute, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := openai.Options{Patience: func(_ context.Context, responded bool) time.Duration {
					if responded {
						return time.Minute
					}
					return tt.limit
				}}
				client, w := serve(t, o, tt.handler)
				start := time.Now()
				_, err := client.Generate(t.Context(), hello)
				require.Error(t, err)
				require.LessOrEqual(t, time.Since(start), tt.longest)
				require.Len(t, w.seen(), tt.tries)

				time.Sleep(2 * time.Minute)
				_, err = client.Generate(t.Context(), hello)
				require.Error(t, err)
				require.Len(t, w.seen(), tt.tries+1, "a later call makes a single probe")
			})
		})
	}
}

// A reply that breaks off does not end an outage; a refusal does.
func TestOutages_endWithAWholeReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := hangUp("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 999\r\n\r\ndata: {\"id\":\"1\",")
		handler := broken
		client, _ := serve(t, openai.Options{}, func(res http.ResponseWriter, req *http.Request) { handler(res, req) })
		since := func() time.Duration {
			t.Helper()
			time.Sleep(2 * time.Minute)
			_, err := client.Generate(t.Context(), hello)
			failed, ok := errors.AsType[*llm.Error](err)
			require.True(t, ok, "%v", err)
			return time.Since(failed.Since).Truncate(time.Minute)
		}
		began := since()
		require.Equal(t, began+2*time.Minute, since(), "it lasts")
		handler = rawFields(401, ``)
		since()
		handler = broken
		require.Less(t, since(), 2*time.Minute)
	})
}

// A server that breaks off within its reply has responded.
func TestOutages_brokenReplyHasAStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, openai.Options{}, hangUp("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 999\r\n\r\ndata: {\"id\":\"1\","))
		_, err := client.Generate(t.Context(), hello)
		failed, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, llm.Network, failed.Kind)
		require.Equal(t, 200, failed.Status)
	})
}

// answers is a server as a transport without connections: an error that it returns is one
// of connecting.
type answers func(model string) (status int, err error)

func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	var asked struct{ Model string }
	if err := json.NewDecoder(req.Body).Decode(&asked); err != nil {
		return nil, err
	}
	status, err := a(asked.Model)
	if err != nil {
		return nil, err
	}
	body := `{"error":{"message":"Loading model"}}`
	if status == http.StatusOK {
		body = saysHi
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: req,
	}, nil
}

// ask calls a model of the server, with one try.
func (a answers) ask(t *testing.T, outages *openai.Outages, model string) *llm.Error {
	t.Helper()
	client, err := openai.New(openai.Options{
		BaseURL: "http://gateway.test/v1", Model: model, Outages: outages, HTTPClient: &http.Client{Transport: a},
		Patience: func(context.Context, bool) time.Duration { return 0 },
	})
	require.NoError(t, err)
	_, err = client.Generate(t.Context(), hello)
	failed, _ := errors.AsType[*llm.Error](err)
	return failed
}

// A model that is overloaded does not hold up the others of its server.
func TestOutages_ofOneModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var outages openai.Outages
		probing, release := make(chan struct{}), make(chan struct{})
		busy := answers(func(string) (int, error) { return http.StatusServiceUnavailable, nil })
		require.Contains(t, busy.ask(t, &outages, "m1").Message, "model m1 at gateway.test: ")
		time.Sleep(time.Minute)
		server := answers(func(model string) (int, error) {
			if model == "m1" {
				close(probing)
				<-release
				return http.StatusServiceUnavailable, nil
			}
			return http.StatusOK, nil
		})
		var wg sync.WaitGroup
		wg.Go(func() { assert.NotNil(t, server.ask(t, &outages, "m1")) })
		<-probing
		require.Nil(t, server.ask(t, &outages, "m2"), "while m1 is probed")
		close(release)
		wg.Wait()
	})
}

// A server without a connection is away for all of its models: they share a probe, and
// none is blamed. What it responds afterwards is the model's; the outage goes on.
func TestOutages_ofTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var outages openai.Outages
		var dials atomic.Int64
		away := answers(func(string) (int, error) {
			dials.Add(1)
			time.Sleep(time.Second)
			return 0, errors.New("connection refused")
		})
		began := away.ask(t, &outages, "m1").Since
		time.Sleep(time.Minute)
		dials.Store(0)
		var wg sync.WaitGroup
		for _, model := range []string{"m1", "m2", "m3"} {
			wg.Go(func() {
				failed := away.ask(t, &outages, model)
				assert.Equal(t, "server gateway.test: no response: connection refused; check that base_url is right and the server is running", failed.Message)
				assert.Equal(t, began, failed.Since)
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, dials.Load())

		time.Sleep(time.Minute)
		busy := answers(func(string) (int, error) { return http.StatusServiceUnavailable, nil })
		require.Equal(t, began, busy.ask(t, &outages, "m1").Since, "it has not replied yet")
		up := answers(func(string) (int, error) { return http.StatusOK, nil })
		require.Nil(t, up.ask(t, &outages, "m2"))
		require.Greater(t, busy.ask(t, &outages, "m3").Since, began, "the server was up for m2")
	})
}

// A connection ends the outage of a server, before it responds.
func TestOutages_endWithAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var outages openai.Outages
		asked, release := make(chan struct{}, 2), make(chan struct{})
		options := openai.Options{Outages: &outages, Patience: func(context.Context, bool) time.Duration { return 0 }}
		client, _ := serve(t, options, func(res http.ResponseWriter, req *http.Request) {
			asked <- struct{}{}
			<-release
			rawFields(200, saysHi)(res, req)
		})
		refused := answers(func(string) (int, error) { return 0, errors.New("connection refused") })
		refusing, err := openai.New(openai.Options{
			BaseURL: "http://models.test/v1", Model: "m1", Outages: &outages, HTTPClient: &http.Client{Transport: refused}, Patience: options.Patience,
		})
		require.NoError(t, err)
		_, err = refusing.Generate(t.Context(), hello)
		require.Error(t, err)
		time.Sleep(time.Minute)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				_, err := client.Generate(t.Context(), hello)
				assert.NoError(t, err)
			})
		}
		<-asked
		<-asked // the second request does not wait for the reply to the first
		close(release)
		wg.Wait()
	})
}

// A call is no longer silent when the head of a response without an error arrives, long before its end.
func TestGenerate_replying(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var replying []int
		client, _ := serve(t, openai.Options{Replying: func(context.Context) {
			replying = append(replying, int(time.Since(began).Seconds()))
		}}, rawFields(503, ``, "Retry-After", "5"), rawFields(429, ``, "Retry-After", "5"), func(res http.ResponseWriter, req *http.Request) {
			res.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(res).Flush()
			time.Sleep(150 * time.Second)
			_, _ = io.WriteString(res, saysHi)
		})
		_, err := client.Generate(t.Context(), hello)
		require.NoError(t, err)
		require.Len(t, replying, 1)
		require.InDelta(t, 10, replying[0], 2)
		require.InDelta(t, 160, time.Since(began).Seconds(), 2)
	})
}
