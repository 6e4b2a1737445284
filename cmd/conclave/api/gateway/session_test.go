package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	desktest "conclave/cmd/conclave/test/callers"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

var bob = access.Caller{Name: "bob"}

// keyed is a question that its caller has named.
func keyed(key, hash string) gateway.Question {
	return gateway.Question{ID: gateway.SessionOf(bob, key), Hash: hash, Team: gateway.WorkersTeam("default"), Input: sessionflow.Input{Query: "Tabs?"}}
}

func newDesk(t *testing.T) (*desktest.Temporal, *gateway.Desk) {
	t.Helper()
	played := desktest.New(t)
	return played, played.Desk(t)
}

// started returns a desk at which Bob has started a session.
func started(t *testing.T) (*desktest.Temporal, *gateway.Desk, gateway.Ticket) {
	t.Helper()
	played, d := newDesk(t)
	ticket, err := d.Start(t.Context(), bob, keyed("k", "h"))
	require.NoError(t, err)
	return played, d, ticket
}

// refusal returns the reason of an error.
func refusal(t *testing.T, err error) *gateway.Refusal {
	t.Helper()
	refused, ok := errors.AsType[*gateway.Refusal](err)
	require.True(t, ok, "%v", err)
	return refused
}

func used(calls int64) llm.Usage {
	usd := float64(calls) / 10
	return llm.Usage{InputTokens: 100 * calls, OutputTokens: 10 * calls, ModelCalls: calls, TotalUSD: &usd}
}

// Fifty clients repeat one request to two processes at once: there is one session, and all
// get its answer.
func TestDesk_oneSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers = 50
		played := desktest.New(t)
		desks := []*gateway.Desk{played.Desk(t), played.Desk(t)}
		answers := make(chan string, callers)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				d := desks[i%len(desks)]
				ticket, err := d.Start(t.Context(), bob, keyed("k", "h"))
				if err != nil {
					answers <- err.Error()
					return
				}
				reply, err := d.Follow(t.Context(), ticket.ID, false, nil)
				if err != nil {
					answers <- err.Error()
					return
				}
				answers <- reply.Answer
			})
		}
		synctest.Wait()
		begun := played.Begun(t)
		require.Equal(t, "Tabs?", begun.Input.Query)
		begun.Decide("Tabs.", used(3))
		all.Wait()
		close(answers)
		for answer := range answers {
			require.Equal(t, "Tabs.", answer)
		}
		require.Equal(t, 1, played.Count())
	})
}

// The same key with another body, or the ID of another caller's session, is a conflict.
func TestDesk_conflicts(t *testing.T) {
	t.Parallel()
	played, d, ticket := started(t)
	_, err := d.Start(t.Context(), bob, keyed("k", "another"))
	require.Equal(t, http.StatusConflict, refusal(t, err).Status)
	require.Contains(t, err.Error(), "was started by a request with another body; choose another key")
	named := keyed("k", "h")
	_, err = d.Start(t.Context(), desktest.Alice, named)
	require.Equal(t, "idempotency_conflict", refusal(t, err).Code)
	require.Contains(t, err.Error(), "session "+ticket.ID+" belongs to somebody else")
	require.Equal(t, 1, played.Count())

	played.Begun(t).Decide("Tabs.", used(1))
	again, err := d.Start(t.Context(), bob, keyed("k", "h"))
	require.NoError(t, err)
	require.Equal(t, ticket.ID, again.ID, "an ended session is joined, too")
	require.Equal(t, 1, played.Count())
}

// The session of a caller that disconnects during the start is started nevertheless.
func TestDesk_startsForThoseWhoLeave(t *testing.T) {
	t.Parallel()
	played := desktest.New(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	ticket, err := played.Desk(t).Start(ctx, bob, keyed("k", "h"))
	require.NoError(t, err)
	require.Equal(t, ticket.ID, played.Begun(t).ID)
}

// A request without a key that its client repeats joins the session whose reply broke off, in every
// process. If the reply had arrived, the request starts a new session.
func TestDesk_sentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		played, d := newDesk(t)
		q := gateway.Question{Hash: "h", Team: gateway.WorkersTeam("default")}
		connection, breaks := context.WithCancel(t.Context())
		first, err := d.Start(connection, bob, q)
		require.NoError(t, err)
		breaks()
		synctest.Wait()
		q.Retry = true
		second, err := d.Start(t.Context(), bob, q)
		require.NoError(t, err)
		require.Equal(t, first.ID, second.ID)
		second.Close(true)
		third, err := d.Start(t.Context(), bob, q)
		require.NoError(t, err)
		require.NotEqual(t, first.ID, third.ID)
		require.Equal(t, 2, played.Count())
	})
}

func TestDesk_unavailable(t *testing.T) {
	t.Parallel()
	played, d, ticket := started(t)
	played.Leave(errors.New("no connection"))
	for name, ask := range map[string]func() error{
		"look up the session": func() error {
			_, err := d.Start(t.Context(), access.Caller{Name: "bob", USDPerDay: 1}, keyed("k2", "h"))
			return err
		},
		"start the session":           func() error { _, err := d.Start(t.Context(), bob, gateway.Question{}); return err },
		"wait for session":            func() error { _, err := d.Follow(t.Context(), ticket.ID, false, nil); return err },
		"look up the session " + "ke": func() error { _, err := d.State(t.Context(), bob, ticket.ID); return err },
		"look up the session key-":    func() error { return d.Steer(t.Context(), bob, ticket.ID, workflows.FinishSignal, nil) },
	} {
		err := ask()
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "no connection; send the request again")
		require.Equal(t, http.StatusServiceUnavailable, refusal(t, err).Status)
	}
}

func TestDesk_Find(t *testing.T) {
	t.Parallel()
	played, d, ticket := started(t)
	_, err := played.ExecuteWorkflow(t.Context(), clientOptions("p1"), "Pipeline", sessionflow.Input{})
	require.NoError(t, err)
	for _, by := range []access.Caller{bob, {}} { // without keys all sessions are the user's
		run, err := d.Find(t.Context(), by, ticket.ID)
		require.NoError(t, err)
		require.True(t, run.Running())
	}
	for _, id := range []string{"", "../x", "unknown", "p1"} {
		_, err := d.Find(t.Context(), access.Caller{}, id)
		require.Equal(t, http.StatusNotFound, refusal(t, err).Status)
	}
	_, err = d.Find(t.Context(), desktest.Alice, ticket.ID)
	require.ErrorContains(t, err, "there is no session \""+ticket.ID+"\" of yours")
}

// The events of a session are reported once each, including those before a failed query.
func TestFollow_progress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		played, d, ticket := started(t)
		begun := played.Begun(t)
		var lines []string
		go func() {
			begun.Report("agent_a answered\x1b[2J agent1.1")
			time.Sleep(time.Minute)
			begun.Report("agent_b voted", "it is decided")
			begun.Decide("Tabs.", used(2))
		}()
		reply, err := d.Follow(t.Context(), ticket.ID, false, func(line string) { lines = append(lines, line) })
		require.NoError(t, err)
		require.Equal(t, "Tabs.", reply.Answer)
		require.EqualValues(t, 2, reply.Usage.ModelCalls)
		require.Len(t, lines, 3)
		require.NotContains(t, lines[0], "\x1b", "no terminal is steered by an agent")
		require.Equal(t, []string{"agent_b voted", "it is decided"}, lines[1:])
	})
}

func TestFollow_withoutAWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		played, d, ticket := started(t)
		begun := played.Begun(t)
		begun.Silence()
		go func() {
			time.Sleep(time.Hour)
			begun.Decide("Tabs.", used(1))
		}()
		reply, err := d.Follow(t.Context(), ticket.ID, true, func(string) { t.Error("nobody reports") })
		require.NoError(t, err)
		require.Equal(t, "Tabs.", reply.Answer)
	})
}

// A long answer is read from the store, as the result has only its beginning.
func TestFollow_longAnswer(t *testing.T) {
	t.Parallel()
	played, d, ticket := started(t)
	whole := strings.Repeat("tabs ", 4000)
	layout := artifact.InBucket(ticket.ID)
	key := layout.Final("agent_a", "answer.json")
	path := played.Store.URL(key)
	result := sessionflow.Result{Status: "consensus", Winner: "agent_a", Answer: whole[:8192], AnswerTruncated: true, AnswerPath: &path}
	played.Begun(t).End(result)
	_, err := d.Follow(t.Context(), ticket.ID, false, nil)
	require.Equal(t, http.StatusServiceUnavailable, refusal(t, err).Status, "half an answer is none")
	require.NoError(t, artifact.CreateJSON(t.Context(), played.Store, key, artifact.Answer{Answer: whole}))
	reply, err := d.Follow(t.Context(), ticket.ID, false, nil)
	require.NoError(t, err)
	require.Equal(t, whole, reply.Answer)
}

func TestFollow_withoutAnAnswer(t *testing.T) {
	t.Parallel()
	for want, end := range map[string]func(*desktest.Session){
		"ended as undecided without an answer: its best answer has too little support": func(s *desktest.Session) {
			s.End(sessionflow.Result{Status: "undecided", Winner: "agent_a"})
		},
		"ended as cancelled without an answer: no agent has an answer": func(s *desktest.Session) { s.End(sessionflow.Result{Status: "cancelled"}) },
		"ended as failed without an answer: the history is too long": func(s *desktest.Session) {
			s.Fail(temporal.NewNonRetryableApplicationError("the history is too long", "Limit", nil))
		},
	} {
		played, d, ticket := started(t)
		end(played.Begun(t))
		_, err := d.Follow(t.Context(), ticket.ID, false, nil)
		require.ErrorContains(t, err, want+"; `conclave retry "+ticket.ID+"` goes on with it")
	}
}

func TestFollow_leaves(t *testing.T) {
	t.Parallel()
	played, d, ticket := started(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err := d.Follow(ctx, ticket.ID, false, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, played.Begun(t).Updates(), "the session goes on")
}

// The state is that of the worker, else the recorded one.
func TestState(t *testing.T) {
	t.Parallel()
	played, d, ticket := started(t)
	begun := played.Begun(t)
	state, err := d.State(t.Context(), bob, ticket.ID)
	require.NoError(t, err)
	require.Equal(t, "Tabs?", state.Query)
	begun.Silence()
	_, err = d.State(t.Context(), bob, ticket.ID)
	require.Equal(t, http.StatusServiceUnavailable, refusal(t, err).Status)
	recorded := map[string]any{"session_id": ticket.ID, "status": "running", "round": 3, "phase": coordination.PhaseWaitingForTools}
	require.NoError(t, artifact.PutJSON(t.Context(), played.Store, artifact.InBucket(ticket.ID).File("status.json"), recorded))
	begun.Decide("Tabs.", used(1))
	state, err = d.State(t.Context(), bob, ticket.ID)
	require.NoError(t, err)
	require.Equal(t, 3, state.Round)
	require.Equal(t, "consensus", state.Status, "Temporal knows how it ended")
}

// The workflow gets the hash of a long question's texts, which are stored; a short question is its input.
func TestStart_longTexts(t *testing.T) {
	t.Parallel()
	played, d := newDesk(t)
	long := strings.Repeat("word ", 50_000)
	input := sessionflow.Input{Query: long, Instructions: "Be brief.", History: []artifact.Turn{{Query: "One?", Answer: long}}, ClientTools: json.RawMessage(`[]`)}
	_, err := d.Start(t.Context(), bob, gateway.Question{ID: "long", Hash: "h", Input: input})
	require.NoError(t, err)
	begun := played.Begun(t).Input
	require.Less(t, len(begun.Query), 5<<10)
	require.True(t, strings.HasPrefix(begun.Query, "word word"))
	require.Empty(t, begun.Instructions)
	require.Empty(t, begun.History)
	require.Empty(t, begun.ClientTools)
	stored, err := artifact.ReadJSON[artifact.Conversation](t.Context(), played.Store, artifact.InBucket("long").Conversation(begun.Conversation))
	require.NoError(t, err)
	require.Equal(t, artifact.Conversation{Query: long, Instructions: "Be brief.", History: input.History, ClientTools: input.ClientTools}, stored)

	_, err = d.Start(t.Context(), bob, gateway.Question{ID: "short", Hash: "h", Input: sessionflow.Input{Query: "Tabs?"}})
	require.NoError(t, err)
	require.Empty(t, played.Begun(t).Input.Conversation)
}
