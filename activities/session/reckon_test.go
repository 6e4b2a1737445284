package session

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/attempt"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
)

// limited is a floor on which a step made two model calls and then ran into a rate limit.
func limited(t *testing.T) *floor {
	t.Helper()
	f := newFloor(t, calls("write_file", map[string]string{"path": "a", "content": "x"}), calls("list_files", map[string]string{}),
		func(context.Context) (llm.Message, error) {
			return llm.Message{}, &llm.Error{Kind: llm.RateLimited, Message: "slow down"}
		})
	f.RegisterBookkeeping(f.TestActivityEnvironment)
	_, err := f.run(answering())
	require.ErrorContains(t, err, "slow down")
	return f
}

func (f *floor) reckon(launch, token string, e attempt.Ended) attempt.Failure {
	f.t.Helper()
	e.Token = token
	value, err := f.ExecuteActivity("Reckon", ReckonInput{
		Session: "s1", Launch: coordination.Launch{ID: coordination.LaunchID(launch), Agent: "agent_a"}, Ended: e,
	})
	require.NoError(f.t, err)
	var found attempt.Failure
	require.NoError(f.t, value.Get(&found))
	return found
}

// token is that of the floor's step.
func (f *floor) token() string {
	f.t.Helper()
	claim, err := artifact.ReadJSON[artifact.Claim](f.t.Context(), f.store, "sessions/s1/agents/agent_a/001/step.json")
	require.NoError(f.t, err)
	return claim.Token
}

// The calls before the wait for the next attempt count, and the step is on record.
func TestReckon(t *testing.T) {
	t.Parallel()
	f := limited(t)
	cause := coordination.Failure{Type: "Cancelled", Message: "the step was cut short"}
	for range 2 { // it can be repeated
		found := f.reckon("l1", f.token(), attempt.Ended{Cause: cause})
		require.Equal(t, 1, found.Step)
		require.Equal(t, f.token(), found.Token)
		require.EqualValues(t, 3, found.Usage.ModelCalls, "one of them wasted")
		last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), f.store, "sessions/s1/agents/agent_a/last_action.json")
		require.NoError(t, err)
		require.Equal(t, "none", last.Action)
		require.Equal(t, found.Usage, last.Cost)
		require.Equal(t, artifact.Error(cause), *last.Error)
		require.True(t, f.exists("agents/agent_a/001/transcript.jsonl"))
	}
}

// A step that committed without a report, and whose transcript another attempt has replaced, has the
// committed one again.
func TestReckon_mendsTheTranscript(t *testing.T) {
	t.Parallel()
	for _, suspended := range []bool{false, true} {
		f := newFloor(t, calls("new_answer", map[string]string{"content": "Because."}))
		f.RegisterBookkeeping(f.TestActivityEnvironment)
		key, other := "sessions/s1/agents/agent_a/001/transcript.jsonl", []byte(`{"kind":"opening","messages":[]}`+"\n")
		require.NoError(t, f.store.Create(t.Context(), key, other))
		_, err := f.run(answering())
		require.NoError(t, err)
		committed, err := f.store.Get(t.Context(), key)
		require.NoError(t, err)
		require.NoError(t, f.store.Put(t.Context(), key, bytes.NewReader(other)))

		found := f.reckon("l1", f.token(), attempt.Ended{Suspended: suspended})
		require.EqualValues(t, 1, found.Usage.ModelCalls)
		if suspended { // the step that goes on looks for the action from this number on
			require.Equal(t, f.token(), found.Token)
			require.Zero(t, found.Step)
		}
		mended, err := f.store.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, string(committed), string(mended))
	}
}

// A pause leaves last_action.json as it was.
func TestReckon_pause(t *testing.T) {
	t.Parallel()
	f := limited(t)
	found := f.reckon("l1", f.token(), attempt.Ended{Suspended: true})
	require.EqualValues(t, 3, found.Usage.ModelCalls)
	require.True(t, f.exists("agents/agent_a/001/transcript.jsonl"))
	require.False(t, f.exists("agents/agent_a/last_action.json"))
}

// A step that no worker took has no number and nothing to resume.
func TestReckon_neverBegun(t *testing.T) {
	t.Parallel()
	f := limited(t)
	require.Equal(t, attempt.Failure{}, f.reckon("l2", "another", attempt.Ended{Suspended: true}))
}

// A step that a pause ends between two attempts keeps the start of the outage that it waits for. A
// step that no worker took keeps that of its launch.
func TestReckon_outage(t *testing.T) {
	t.Parallel()
	began := time.Now().UTC().Add(-time.Minute).Round(0) // below outage_seconds
	f := newFloor(t, calls("list_files", map[string]string{}), func(context.Context) (llm.Message, error) {
		return llm.Message{}, &llm.Error{Kind: llm.Overloaded, Status: 503, Message: "busy", Since: began}
	})
	f.RegisterBookkeeping(f.TestActivityEnvironment)
	_, err := f.run(answering())
	require.ErrorContains(t, err, "busy")
	require.Equal(t, began, f.reckon("l1", f.token(), attempt.Ended{Suspended: true}).AwaySince)
	require.Equal(t, began, f.reckon("l2", "another", attempt.Ended{Suspended: true, AwaySince: began}).AwaySince)
}

// A damaged journal costs its usage, not the session.
func TestReckon_damagedJournal(t *testing.T) {
	t.Parallel()
	f := limited(t)
	key := artifact.InBucket("s1").Journal(f.token(), 1)
	require.NoError(t, errors.Join(f.store.Delete(t.Context(), key), f.store.Create(t.Context(), key, []byte("{"))))
	require.Equal(t, attempt.Failure{Step: 1}, f.reckon("l1", f.token(), attempt.Ended{Suspended: true}))
}
