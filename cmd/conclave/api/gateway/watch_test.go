package gateway_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/test/callers"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/workflows"
)

// begun returns a desk at which Bob has started a session, and that session.
func begun(t *testing.T) (*callers.Temporal, *gateway.Desk, *callers.Session) {
	t.Helper()
	played, d, _ := started(t)
	return played, d, played.Begun(t)
}

// A hundred callers of one session cost Temporal no more than one, and each gets every event,
// including those from before it joined.
func TestFollow_together(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers, minutes = 100, 10
		played, d, s := begun(t)
		told := make([]int, callers)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				reply, err := d.Follow(t.Context(), s.ID, false, func(string) { told[i]++ })
				if err != nil || reply.Answer != "Tabs." {
					t.Error(reply.Answer, err)
				}
			})
		}
		for i := range minutes {
			s.Report(fmt.Sprintf("event %d", i))
			time.Sleep(time.Minute)
		}
		s.Decide("Tabs.", used(1))
		all.Wait()
		for _, n := range told {
			require.Equal(t, minutes, n)
		}
		require.Equal(t, 1, played.Waits())
		// For 100 s callers join, one each second; after that the queries are four seconds apart,
		// except after news.
		require.Less(t, played.Asked(workflows.TimelineQuery), 5*callers+minutes*60/4+minutes*20)
	})
}

// A caller without a callback causes no queries.
func TestFollow_silently(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		played, d, s := begun(t)
		time.AfterFunc(time.Hour, func() { s.Decide("Tabs.", used(1)) })
		_, err := d.Follow(t.Context(), s.ID, false, nil)
		require.NoError(t, err)
		require.Zero(t, played.Asked(workflows.TimelineQuery)+played.Asked(workflows.StateQuery))
	})
}

// Nobody queries a session whose callers have left; the next caller gets all events.
func TestFollow_again(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		played, d, s := begun(t)
		s.Report("agent_a answered agent1.1")
		for range 3 {
			ctx, leave := context.WithTimeout(t.Context(), time.Minute)
			var lines []string
			_, err := d.Follow(ctx, s.ID, false, func(line string) { lines = append(lines, line) })
			leave()
			require.Error(t, err)
			require.Equal(t, []string{"agent_a answered agent1.1"}, lines)
			asked := played.Asked(workflows.TimelineQuery)
			time.Sleep(time.Hour)
			require.Equal(t, asked, played.Asked(workflows.TimelineQuery))
		}
	})
}

// A caller that has just returned the results of its tools is not asked for them again, although
// other followers still see the earlier state.
func TestFollow_afterResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, d, s := begun(t)
		s.Report("agent_a answered agent1.1")
		call := coordination.Call{ID: "c" + artifact.SessionHash(s.ID) + "_l1_1", Name: "look", Arguments: "{}"}
		s.Ask(used(1), call)
		watching, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _, _ = d.Follow(watching, s.ID, false, func(string) {}) }()
		reply, err := d.Follow(t.Context(), s.ID, true, nil)
		require.NoError(t, err)
		require.Equal(t, []coordination.Call{call}, reply.Calls)
		s.Change(func(state *acts.State) { state.Phase, state.Calls = coordination.PhaseCoordinating, nil })
		time.AfterFunc(time.Minute, func() { s.Decide("Tabs.", used(2)) })
		reply, err = d.Follow(t.Context(), s.ID, true, func(string) {})
		require.NoError(t, err)
		require.Empty(t, reply.Calls)
		require.Equal(t, "Tabs.", reply.Answer)
	})
}
