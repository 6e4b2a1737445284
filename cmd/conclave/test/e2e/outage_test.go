//go:build e2e

package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/s3store"
	"conclave/engine/files/storetest"
	"conclave/engine/step"
	sessionflow "conclave/workflows/session"
)

// behind puts a proxy before the store of future workers, and returns its counter.
func (s *site) behind(decide func(*http.Request) string) func(fault string) int {
	s.t.Helper()
	address, count := storetest.NewProxy(s.t, s.stack.S3Endpoint, decide)
	var err error
	s.store, err = s3store.New(s.t.Context(), s3store.Options{
		Bucket: s.stack.Bucket, Endpoint: address, Region: s.stack.S3Region,
		AccessKeyID: s.stack.S3AccessKey, SecretAccessKey: s.stack.S3SecretKey,
	})
	require.NoError(s.t, err)
	return count
}

// outage is a period in which the whole store is down. It begins with the first write to a key that
// ends in at.
type outage struct {
	at    string
	lasts time.Duration
	first string // of the request that it begins with
	then  string // of all others
}

// outages occur once each, in order.
func outages(list ...outage) func(*http.Request) string {
	var mu sync.Mutex
	var until time.Time
	var fault string
	return func(r *http.Request) string {
		mu.Lock()
		defer mu.Unlock()
		if time.Now().Before(until) {
			return fault
		}
		for i, o := range list {
			if r.Method == http.MethodPut && o.at != "" && strings.HasSuffix(r.URL.Path, o.at) {
				list[i].at = ""
				until, fault = time.Now().Add(o.lasts), o.then
				return o.first
			}
		}
		return ""
	}
}

// everywhere returns outages of one kind in all phases of a session.
func everywhere(lasts time.Duration, first, then string) []outage {
	var list []outage
	for _, at := range []string{
		"/session.json",                   // preparing
		"/agents/agent_a/001/step.json",   // a claim
		"/agents/agent_b/001/action.json", // a commit
		"/ledger/000002.json",             // a record
		"/agents/agent_c/002/answer.json", // a derived document
		"/final/agent_c/answer.json",      // presenting
	} {
		list = append(list, outage{at: at, lasts: lasts, first: first, then: then})
	}
	return list
}

// falling makes the first writes to a few keys hang and then fail for some seconds, longer than a
// step may run without a heartbeat.
func falling(keys ...string) func(*http.Request) string {
	var mu sync.Mutex
	writes := map[string]int{}
	return func(r *http.Request) string {
		mu.Lock()
		defer mu.Unlock()
		for _, key := range keys {
			if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, key) {
				continue
			}
			writes[key]++
			switch n := writes[key]; {
			case n == 1:
				return "silence"
			case n <= 6:
				return "busy"
			}
		}
		return ""
	}
}

// weathered runs the three rounds on a store with faults.
func weathered(t *testing.T, decide func(*http.Request) string) (account, func(fault string) int) {
	t.Helper()
	s := newSite(t)
	direct := s.store
	count := s.behind(decide)
	model := newModelServer(t, threeRounds())
	stop := s.work(model, "agent_a", "agent_b", "agent_c")
	t.Cleanup(stop)
	var result sessionflow.Result
	require.NoError(t, s.start("weathered").Get(t.Context(), &result))
	requireFirstAttempts(t, s.history("weathered"))
	a := accountOf(t, direct, "weathered")
	result.DurationSeconds = 0
	a.result, a.calls = result, map[string]int{}
	for name := range threeRounds() {
		a.calls[name] = model.calls(name)
	}
	return a, count
}

// A store that fails or hangs for a while only delays a session: the result, the files, the ledger
// and the number of model calls are those of an undisturbed session, and no attempt is lost.
func TestOutages(t *testing.T) {
	t.Parallel()
	calm, _ := weathered(t, func(*http.Request) string { return "" })
	require.Equal(t, "consensus", calm.result.Status)
	require.Len(t, calm.ledger, 9)
	for name, replies := range threeRounds() {
		require.Equal(t, len(replies), calm.calls[name])
	}
	for _, tt := range []struct {
		name   string
		decide func(*http.Request) string
		faults map[string]int // at least
	}{
		{
			name:   "busy",
			decide: outages(everywhere(3*time.Second, "busy", "busy")...),
			faults: map[string]int{"busy": 6},
		},
		{
			name:   "answers lost and connections cut",
			decide: outages(everywhere(3*time.Second, "lost answer", "hang up")...),
			faults: map[string]int{"lost answer": 6, "hang up": 6},
		},
		{
			name:   "silent",
			decide: falling("/agents/agent_a/001/action.json", "/agents/agent_b/001/step.json", "/ledger/000001.json"),
			faults: map[string]int{"silence": 3, "busy": 15},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, count := weathered(t, tt.decide)
			require.Equal(t, calm, a)
			for fault, least := range tt.faults {
				require.GreaterOrEqual(t, count(fault), least, fault)
			}
		})
	}
}

// An outage longer than a step's timeout costs the attempt and the model call that was not
// recorded: only that call is paid for twice.
func TestLongOutage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	direct := s.store
	s.behind(outages(outage{at: "/agents/agent_a/001/action.json", lasts: 40 * time.Second, first: "busy", then: "busy"}))
	model := newModelServer(t, map[string][]reply{"model-a": {answer("Answer A."), answer("Answer A."), vote("agent1", "The only one.")}})
	stop := s.work(model, "agent_a")
	t.Cleanup(stop)
	result := ended(t, s.start("long-outage"), "consensus")
	require.Equal(t, "Answer A.", result.Answer)
	require.Equal(t, 3, model.calls("model-a"))
	require.EqualValues(t, 3, result.Cost.ModelCalls, "lost calls count")
	require.Equal(t, []string{"agent_a 001", "agent_a 002"}, ledger(t, direct, "long-outage"))
	lost := 0
	for id, begun := range started(s.history("long-outage"), "RunStep") {
		if begun.Attempt > 1 {
			lost++
			require.Contains(t, id, "agent_a")
			require.Equal(t, step.Storage, begun.LastFailure.GetApplicationFailureInfo().GetType())
		}
	}
	require.Equal(t, 1, lost, "steps with a lost attempt")
}
