package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

func count(n int) *int { return &n }

func behind(p Provider, m loop.Model) loop.Model {
	return newProviders(map[string]Provider{"p": p})["p"].limitModel(m)
}

func TestLimit_requestsPerMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := behind(Provider{RequestsPerMinute: count(60)}, says{})
		start := time.Now()
		var took []time.Duration
		for range 13 {
			_, err := m.Generate(t.Context(), llm.Request{})
			require.NoError(t, err)
			took = append(took, time.Since(start))
		}
		require.Zero(t, took[9], "a part of the minute's worth may be used at once")
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, took[10:])
	})
}

func TestLimit_isSharedByTheProvidersModels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProviders(map[string]Provider{"p": {RequestsPerMinute: count(60)}})["p"]
		start := time.Now()
		errs := make(chan error, 40)
		for range cap(errs) {
			go func() {
				_, err := p.limitModel(says{}).Generate(t.Context(), llm.Request{})
				errs <- err
			}()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestLimit_tokensPerMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The limit is 100 tokens a second, 1000 at once. A call is charged the tokens that it
		// used.
		m := behind(Provider{TokensPerMinute: count(6000)}, says{usage: llm.Usage{InputTokens: 1500, OutputTokens: 500, ModelCalls: 1}})
		start := time.Now()
		_, err := m.Generate(t.Context(), llm.Request{})
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
		_, err = m.Generate(t.Context(), llm.Request{})
		require.NoError(t, err)
		require.InDelta(t, 10, time.Since(start).Seconds(), 0.1, "the second waits for the debt of the first")
	})
}

func TestLimit_largeRequestWaitsUntilItsInputFits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := behind(Provider{TokensPerMinute: count(6000)}, says{usage: llm.Usage{InputTokens: 800, ModelCalls: 1}})
		large := llm.Request{Messages: []llm.Message{{Role: llm.User, Content: strings.Repeat("word", 799)}}}
		start := time.Now()
		for range 2 {
			_, err := m.Generate(t.Context(), large)
			require.NoError(t, err)
		}
		require.InDelta(t, 6, time.Since(start).Seconds(), 0.1)
	})
}

func TestLimit_cancelledWaitGivesItsTurnBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		m := behind(Provider{RequestsPerMinute: count(1)}, counting{&calls})
		_, err := m.Generate(t.Context(), llm.Request{})
		require.NoError(t, err)

		ended := errors.New("the step was ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(ended) })
		_, err = m.Generate(ctx, llm.Request{})
		require.ErrorIs(t, err, ended)
		require.Equal(t, 1, calls, "nothing is paid for after the end")

		start := time.Now()
		_, err = m.Generate(t.Context(), llm.Request{})
		require.NoError(t, err)
		require.Equal(t, 59*time.Second, time.Since(start))
	})
}

// counting is a model that counts its calls.
type counting struct{ calls *int }

func (c counting) Generate(context.Context, llm.Request) (llm.Reply, error) {
	*c.calls++
	return llm.Reply{}, nil
}
