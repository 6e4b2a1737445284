package gateway_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/api/gateway"
)

var errAway = serviceerror.NewUnavailable("connection refused")

// A request that comes while Temporal is away has its session as soon as Temporal is back.
func TestStart_throughAnOutage(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]gateway.Question{"new": {Hash: "h"}, "joined": keyed("k", "h")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				played, d := newDesk(t)
				if name == "joined" {
					_, err := d.Start(t.Context(), bob, q)
					require.NoError(t, err)
				}
				played.Leave(errAway)
				time.AfterFunc(50*time.Second, func() { played.Leave(nil) })
				ticket, err := d.Start(t.Context(), bob, q)
				require.NoError(t, err)
				require.Equal(t, 1, played.Count())
				_, err = d.Find(t.Context(), bob, ticket.ID)
				require.NoError(t, err)
			})
		})
	}
}

// A caller that waits for a reply waits through an outage, which may come again.
func TestFollow_throughOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		played, d, s := begun(t)
		go func() {
			for range 3 {
				time.Sleep(10 * time.Minute)
				played.Leave(errAway)
				time.Sleep(8 * time.Minute)
				played.Leave(nil)
			}
			s.Decide("Tabs.", used(1))
		}()
		reply, err := d.Follow(t.Context(), s.ID, true, func(string) {})
		require.NoError(t, err)
		require.Equal(t, "Tabs.", reply.Answer)
	})
}

// A service that stays away, or refuses, is reported.
func TestOutage_ends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		played, d, s := begun(t)
		unavailable := func(err error, least, most time.Duration, began time.Time) {
			t.Helper()
			refused, ok := errors.AsType[*gateway.Refusal](err)
			require.True(t, ok, err)
			require.Equal(t, http.StatusServiceUnavailable, refused.Status)
			require.GreaterOrEqual(t, time.Since(began), least)
			require.LessOrEqual(t, time.Since(began), most)
		}
		began := time.Now()
		played.Leave(errAway)
		_, err := d.Start(t.Context(), bob, keyed("new", "h"))
		unavailable(err, 50*time.Second, time.Minute, began)
		began = time.Now()
		_, err = d.Follow(t.Context(), s.ID, false, nil)
		unavailable(err, 9*time.Minute, 10*time.Minute, began)
		began = time.Now()
		played.Leave(serviceerror.NewPermissionDenied("no", ""))
		_, err = d.Start(t.Context(), bob, keyed("new", "h"))
		unavailable(err, 0, 0, began)
	})
}
