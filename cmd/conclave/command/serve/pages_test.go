package serve

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/callers"
	"conclave/engine/llm"
	sessionflow "conclave/workflows/session"
)

// The holder of a key sees and steers the sessions started with it, and cannot retry any beyond its
// budget.
func TestServer_ownPages(t *testing.T) {
	t.Parallel()
	bob := access.Caller{Name: "bob", USDPerDay: 0.5}
	o, key := keyed(t, bob)
	o.Kinds = []*runs.Kind{{Kind: record.Sessions}}
	s := startServer(t, o)
	s.key = key
	begin := func(by access.Caller, id string) *callers.Session {
		_, err := s.played.Desk(t).Start(t.Context(), by, gateway.Question{ID: id, Team: gateway.WorkersTeam("reviewers"), Input: sessionflow.Input{Query: "Tabs?"}})
		require.NoError(t, err)
		return s.played.Begun(t)
	}
	hers, his := begin(callers.Alice, "alice-1"), begin(bob, "bob-1")
	for method, path := range map[string]string{http.MethodGet: "", http.MethodPost: "/finish"} {
		status, body := s.send(method, "/sessions/alice-1"+path, "")
		require.Equal(t, http.StatusNotFound, status)
		require.Contains(t, body, `there is no session &#34;alice-1&#34; of yours`)
		require.NotContains(t, body, "Tabs?")
	}
	for _, path := range []string{"/sessions/alice-1/events", "/sessions/alice-1/steps/agent_a/1", "/pipelines/p1", "/scenarios/s1"} {
		status, _ := s.send(http.MethodGet, path, "")
		require.Equal(t, http.StatusNotFound, status, path)
	}
	require.Empty(t, hers.Updates())

	status, _ := s.send(http.MethodGet, "/sessions/bob-1", "")
	require.Equal(t, http.StatusOK, status)
	status, body := s.send(http.MethodPost, "/sessions/bob-1/retry", "")
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "no valid token", "the page handles it")
	dollars := 0.6
	his.End(sessionflow.Result{Status: "failed", Cost: llm.Usage{ModelCalls: 6, KnownUSD: dollars, TotalUSD: &dollars}})
	status, body = s.send(http.MethodPost, "/sessions/bob-1/retry", "")
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Contains(t, body, "bob has spent $0.6000 of $0.50 for today")
}
