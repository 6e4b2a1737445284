package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
	"conclave/engine/step"
)

// Commits provides answers that have no action.json. They are shown and voted for like others.
func TestStep_commits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var asked []coordination.Shown
	shown := coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.3", Step: 7}
	m := b.newStep(later("agent_a", 1, 0, shown), "t")
	m.Files = false
	m.Commits = func(_ context.Context, s coordination.Shown) (artifact.Commit, error) {
		asked = append(asked, s)
		payload, err := json.Marshal(session.Answer{Answer: "Two moons.", Label: s.Label})
		return artifact.Commit{Kind: "new_answer", Payload: payload}, err
	}
	spec, err := m.Spec(t.Context(), b.store)
	require.NoError(t, err)
	require.Equal(t, []coordination.Shown{shown}, asked)
	require.Equal(t, map[string]int{"agent_b": 7}, spec.Shown.Seen)
	_, messages, err := spec.Open(step.Access{})
	require.NoError(t, err)
	var prompt string
	for _, message := range messages {
		prompt += message.Content
	}
	require.Contains(t, prompt, "agent2.3")
	require.Contains(t, prompt, "Two moons.")

	m.Commits = func(context.Context, coordination.Shown) (artifact.Commit, error) {
		return artifact.Commit{}, errors.New("it is gone")
	}
	_, err = m.Spec(t.Context(), b.store)
	require.ErrorContains(t, err, "read the answer agent2.3: it is gone")

	m.Commits = nil
	_, err = m.Spec(t.Context(), b.store)
	require.ErrorIs(t, err, artifact.ErrNotFound)
}
