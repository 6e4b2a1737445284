package gateway_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/test/callers"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

func clientOptions(id string) client.StartWorkflowOptions { return client.StartWorkflowOptions{ID: id} }

// asking returns a session that waits for two calls of its caller's tools, and the calls.
func asking(t *testing.T, played *callers.Temporal, d *gateway.Desk) (*callers.Session, []coordination.Call) {
	t.Helper()
	ticket, err := d.Start(t.Context(), bob, keyed("k", "h"))
	require.NoError(t, err)
	begun, hash := played.Begun(t), artifact.SessionHash(ticket.ID)
	require.NoError(t, artifact.CreateJSON(t.Context(), played.Store, artifact.CallPointer(hash), artifact.CalledSession{SessionID: ticket.ID}))
	calls := []coordination.Call{
		{ID: "c" + hash + "_l1_1", Name: "look", Arguments: `{"at":"door"}`},
		{ID: "c" + hash + "_l2_1", Name: "read", ArgumentsPath: "s3://elsewhere"},
	}
	long := artifact.CallArguments{Arguments: `{"path":"` + strings.Repeat("x", 5000) + `"}`}
	require.NoError(t, artifact.CreateJSON(t.Context(), played.Store, artifact.InBucket(ticket.ID).CallArguments(calls[1].ID), long))
	begun.Ask(used(2), calls...)
	return begun, calls
}

// The reply has the calls with all their arguments, and the usage since the previous reply.
func TestFollow_calls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		played, d := newDesk(t)
		begun, calls := asking(t, played, d)
		reply, err := d.Follow(t.Context(), begun.ID, true, nil)
		require.NoError(t, err)
		require.Len(t, reply.Calls, 2)
		require.Equal(t, `{"at":"door"}`, reply.Calls[0].Arguments)
		require.Len(t, reply.Calls[1].Arguments, 5011)
		require.EqualValues(t, 2, reply.Usage.ModelCalls)

		begun.Change(func(s *acts.State) { s.Cost, s.Reported, s.Calls = used(5), used(2), calls[:1] })
		reply, err = d.Follow(t.Context(), begun.ID, true, nil)
		require.NoError(t, err)
		require.EqualValues(t, 3, reply.Usage.ModelCalls)

		waited := time.Now()
		go func() {
			time.Sleep(time.Hour)
			begun.End(sessionflow.Result{Status: "consensus", Winner: "agent_a", Answer: "A cat.", Cost: used(7), Reported: used(5)})
		}()
		reply, err = d.Follow(t.Context(), begun.ID, false, nil)
		require.NoError(t, err)
		require.Equal(t, time.Hour, time.Since(waited), "who has no tools is not asked to run some")
		require.EqualValues(t, 2, reply.Usage.ModelCalls)
	})
}

func TestReturn(t *testing.T) {
	t.Parallel()
	played, d := newDesk(t)
	begun, calls := asking(t, played, d)
	whole := []coordination.ToolResult{{ID: calls[0].ID, Content: "a cat"}, {ID: calls[1].ID, Content: ""}}
	other := "c" + artifact.SessionHash("other") + "_l1_1"
	for want, results := range map[string][]coordination.ToolResult{
		"the results of " + calls[1].ID + " are missing; send the results of all calls together": whole[:1],
		`the tool_call_id "call_1" is not a call of this server`:                                 {{ID: "call_1"}},
		"the results are of calls of two sessions":                                               {whole[0], {ID: other}},
		"no session has made the call " + other:                                                  {{ID: other}},
	} {
		_, err := d.Return(t.Context(), bob, results)
		require.Equal(t, http.StatusBadRequest, refusal(t, err).Status)
		require.ErrorContains(t, err, want)
	}
	_, err := d.Return(t.Context(), callers.Alice, whole)
	require.Equal(t, http.StatusNotFound, refusal(t, err).Status, "another caller's calls")
	require.Empty(t, begun.Updates(), "a refused request applies nothing")

	id, err := d.Return(t.Context(), bob, whole)
	require.NoError(t, err)
	require.Equal(t, begun.ID, id)
	require.Equal(t, []callers.Update{{Name: workflows.ToolResultsSignal, Args: []any{workflows.Request{Results: whole}}}}, begun.Updates())

	begun.Refuse(temporal.NewNonRetryableApplicationError("the results have 3 MB, at most 2 are accepted", "Refused", nil))
	_, err = d.Return(t.Context(), bob, whole)
	require.Equal(t, "invalid_tool_results", refusal(t, err).Code)
	require.ErrorContains(t, err, "at most 2 are accepted")

	begun.Ask(used(2), coordination.Call{ID: "c0_l9_1"})
	begun.Refuse(nil)
	_, err = d.Return(t.Context(), bob, whole)
	require.NoError(t, err, "a late repetition lacks nothing")
	begun.Decide("A cat.", llm.Usage{})
	id, err = d.Return(t.Context(), bob, whole)
	require.NoError(t, err, "the answer is the reply")
	require.Equal(t, begun.ID, id)
}

// Results that come before a retried step waits for them are held until the step waits.
func TestReturn_afterRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		played, d := newDesk(t)
		begun, calls := asking(t, played, d)
		whole := []coordination.ToolResult{{ID: calls[0].ID}, {ID: calls[1].ID}}
		begun.Refuse(temporal.NewNonRetryableApplicationError("a retried step does not wait yet", workflows.TooEarly, nil))
		_, err := d.Return(t.Context(), bob, whole)
		require.Equal(t, http.StatusServiceUnavailable, refusal(t, err).Status)
		require.ErrorContains(t, err, "a retried step does not wait yet")
		go func() {
			time.Sleep(5 * time.Second)
			begun.Refuse(nil)
		}()
		_, err = d.Return(t.Context(), bob, whole)
		require.NoError(t, err)
	})
}

func TestSteer(t *testing.T) {
	t.Parallel()
	played, d, ticket := started(t)
	begun := played.Begun(t)
	require.NoError(t, d.Steer(t.Context(), bob, ticket.ID, workflows.PauseSignal, nil))
	begun.Refuse(temporal.NewNonRetryableApplicationError("it is paused already", "Refused", nil))
	err := d.Steer(t.Context(), bob, ticket.ID, workflows.PauseSignal, nil)
	require.Equal(t, http.StatusConflict, refusal(t, err).Status)
	require.EqualError(t, err, "pause: it is paused already")
	begun.Refuse(errors.New("no worker"))
	err = d.Steer(t.Context(), bob, ticket.ID, workflows.PauseSignal, nil)
	require.Equal(t, http.StatusServiceUnavailable, refusal(t, err).Status)
	begun.Decide("Tabs.", used(1))
	err = d.Steer(t.Context(), bob, ticket.ID, workflows.PauseSignal, nil)
	require.Equal(t, "session_over", refusal(t, err).Code)
}

// A budget in dollars cannot be enforced for sessions without a price, so no further session is
// started.
func TestBudget_withoutPrices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		played, d := newDesk(t)
		by := access.Caller{Name: "bob", USDPerDay: 0.5}
		start := func(key string) error {
			_, err := d.Start(t.Context(), by, keyed(key, "h"))
			return err
		}
		require.NoError(t, start("k1"))
		s := played.Begun(t)
		require.NoError(t, start("k2"), "no model was called yet")
		s.Change(func(state *acts.State) { state.Cost = llm.Usage{InputTokens: 100, ModelCalls: 1, KnownUSD: 0.1} })
		refused := refusal(t, start("k3"))
		require.Equal(t, http.StatusForbidden, refused.Status)
		require.Equal(t, "price_unknown", refused.Code)
		require.Contains(t, refused.Message, "the cost of session "+s.ID+" is unknown, so that the $0.50 of bob for a day cannot be kept")
		s.Decide("Tabs.", llm.Usage{InputTokens: 100, ModelCalls: 1})
		require.Equal(t, "price_unknown", refusal(t, start("k3")).Code)
		require.NoError(t, start("k1"), "its answer is still given")
		require.Equal(t, 2, played.Count())
	})
}

// The cost of a caller's sessions of today counts against the dollars of its key in all processes;
// a repeated request costs nothing.
func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		played, d := newDesk(t)
		by := access.Caller{Name: "bob", USDPerDay: 0.5}
		start := func(d *gateway.Desk, key string) error {
			_, err := d.Start(t.Context(), by, keyed(key, "h"))
			return err
		}
		require.NoError(t, start(d, "k1"))
		first := played.Begun(t)
		first.Change(func(s *acts.State) { s.Cost = used(3) })
		require.NoError(t, start(d, "k2"), "$0.30 of $0.50")
		second := played.Begun(t)
		second.Decide("Tabs.", used(2))
		err := start(played.Desk(t), "k3")
		require.Equal(t, http.StatusTooManyRequests, refusal(t, err).Status)
		require.Equal(t, "insufficient_quota", refusal(t, err).Code)
		require.EqualError(t, err, "bob has spent $0.5000 of $0.50 for today (UTC)")
		require.NoError(t, start(d, "k1"), "a session is joined at no cost")
		_, err = d.Start(t.Context(), access.Caller{Name: "carol", USDPerDay: 0.1}, gateway.Question{ID: "carols"})
		require.NoError(t, err, "everybody has a budget of their own")
		require.Equal(t, 3, played.Count())

		first.Silence()
		require.Error(t, start(d, "k4"), "an unknown spending starts nothing")
		first.Decide("Tabs.", used(4))
		require.ErrorContains(t, start(d, "k4"), "spent $0.6000")
		time.Sleep(24 * time.Hour)
		require.NoError(t, start(d, "k4"), "a new day")
	})
}

// Several sessions of a key with dollars run at once, and each counts with its cost so far.
func TestBudget_runningSessions(t *testing.T) {
	t.Parallel()
	played := callers.New(t)
	by := access.Caller{Name: "carol", USDPerDay: 5}
	start := func(key string) error {
		_, err := played.Desk(t).Start(t.Context(), by, keyed(key, "h")) // each request may reach another server
		return err
	}
	for _, key := range []string{"k1", "k2", "k3"} {
		require.NoError(t, start(key), "nothing is spent")
		played.Begun(t).Change(func(s *acts.State) {
			s.Agents, s.Cost = []coordination.AgentView{{ID: "agent_a"}, {ID: "agent_b"}}, used(20)
		})
	}
	require.EqualError(t, start("k4"), "carol has spent $6.0000 of $5.00 for today (UTC)")
	require.Equal(t, 3, played.Count())
}

// Amounts far below a cent are shown with digits that tell them apart.
func TestBudget_smallAmounts(t *testing.T) {
	t.Parallel()
	played, d := newDesk(t)
	by := access.Caller{Name: "bob", USDPerDay: 0.00002}
	_, err := d.Start(t.Context(), by, keyed("k1", "h"))
	require.NoError(t, err)
	played.Begun(t).Decide("Tabs.", llm.Usage{ModelCalls: 1, TotalUSD: new(0.000031)})
	_, err = d.Start(t.Context(), by, keyed("k2", "h"))
	require.EqualError(t, err, "bob has spent $0.000031 of $0.00002 for today (UTC)")
}

// A retried session is charged again with its whole cost, once by all processes together.
func TestChargeRetry(t *testing.T) {
	t.Parallel()
	played := callers.New(t)
	d, other := played.Desk(t), played.Desk(t)
	by := access.Caller{Name: "bob", USDPerDay: 0.5}
	_, err := d.Start(t.Context(), by, keyed("k1", "h"))
	require.NoError(t, err)
	s := played.Begun(t)
	s.Decide("Tabs.", used(2))
	for _, each := range []*gateway.Desk{d, other} {
		require.NoError(t, each.ChargeRetry(t.Context(), by, s.ID), "$0.20 of $0.50")
	}
	s.Reopen()
	s.Decide("Tabs.", used(6))
	for _, each := range []*gateway.Desk{d, other} {
		refused := refusal(t, each.ChargeRetry(t.Context(), by, s.ID))
		require.Equal(t, "insufficient_quota", refused.Code)
		require.Contains(t, refused.Message, "spent $0.6000")
		_, err = each.Start(t.Context(), by, keyed("k2", "h"))
		require.Equal(t, "insufficient_quota", refusal(t, err).Code)
	}
	require.NoError(t, d.ChargeRetry(t.Context(), bob, s.ID), "a key without dollars")
}

func TestCheckMaterial(t *testing.T) {
	t.Parallel()
	d := callers.New(t).Desk(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a"), 0o600))
	stored, err := d.Upload(t.Context(), dir)
	require.NoError(t, err)
	contexts := func(names ...string) (m artifact.Material) {
		for _, name := range names {
			m.Context = append(m.Context, artifact.Context{Name: name, Manifest: stored})
		}
		return m
	}
	for _, m := range []artifact.Material{{}, {Base: stored}, contexts("docs", "more")} {
		require.NoError(t, d.CheckMaterial(t.Context(), m))
	}
	for want, m := range map[string]artifact.Material{
		"the base is \".\", not the reference": {Base: "."},
		"which is not stored here":             {Base: stored[:len(stored)-4] + "0000"},
		"two contexts have the name docs":      contexts("docs", "docs"),
		"use up to 64 letters":                 contexts(".hidden"),
	} {
		err := d.CheckMaterial(t.Context(), m)
		require.Equal(t, http.StatusBadRequest, refusal(t, err).Status)
		require.ErrorContains(t, err, want)
	}
	for want, path := range map[string]string{"no such file": filepath.Join(dir, "none"), "it is a file": filepath.Join(dir, "a.txt")} {
		_, err := d.Upload(t.Context(), path)
		require.Equal(t, http.StatusBadRequest, refusal(t, err).Status)
		require.ErrorContains(t, err, want)
	}
}

func TestCheckTools(t *testing.T) {
	t.Parallel()
	tool := `[{"type":"function","function":{"name":%q}}]`
	require.NoError(t, gateway.CheckTools(artifact.Caller{ClientTools: fmt.Appendf(nil, tool, "look")}))
	for param, tc := range map[string]struct {
		caller artifact.Caller
		err    string
	}{
		"tools":                     {artifact.Caller{ClientTools: fmt.Appendf(nil, tool, "a b")}, `tools[0] has the name "a b"`},
		"metadata.client_tools_for": {artifact.Caller{ClientToolsFor: "everybody"}, `client_tools_for is "everybody"`},
	} {
		err := gateway.CheckTools(tc.caller)
		require.Equal(t, param, refusal(t, err).Param)
		require.ErrorContains(t, err, tc.err)
	}
}
