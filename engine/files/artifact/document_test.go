package artifact_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

func TestCreateJSON_stableEncoding(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	local := time.Date(2026, 3, 20, 23, 32, 3, 123_456_789, time.FixedZone("CET", 3600))
	claim := artifact.Claim{
		Token: "run<1>", SeenSteps: map[string]int{"b": 2, "a": 1}, Labels: []string{"agent1.1"},
		StartedAt: artifact.Timestamp(local),
	}
	layout := artifact.Layout{}
	require.NoError(t, artifact.CreateJSON(t.Context(), d, layout.Step("a", 1, "step.json"), claim))

	data, err := d.Get(t.Context(), "agents/a/001/step.json")
	require.NoError(t, err)
	require.Equal(t, `{
  "token": "run<1>",
  "seen_steps": {
    "a": 1,
    "b": 2
  },
  "labels": [
    "agent1.1"
  ],
  "started_at": "2026-03-20T22:32:03.123Z"
}
`, string(data))

	read, err := artifact.ReadJSON[artifact.Claim](t.Context(), d, layout.Step("a", 1, "step.json"))
	require.NoError(t, err)
	require.Equal(t, claim, read)
	require.ErrorIs(t, artifact.CreateJSON(t.Context(), d, "agents/a/001/step.json", claim), artifact.ErrExists)
}

func TestPutJSON_replaces(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	for _, text := range []string{"first", "second"} {
		require.NoError(t, artifact.PutJSON(t.Context(), d, "last", artifact.Error{Type: "t", Message: text}))
	}
	read, err := artifact.ReadJSON[artifact.Error](t.Context(), d, "last")
	require.NoError(t, err)
	require.Equal(t, "second", read.Message)
}

func TestReadJSON_otherPrograms(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	put := func(body string) {
		require.NoError(t, d.Put(t.Context(), "answer.json", strings.NewReader(body)))
	}
	_, err := artifact.ReadJSON[artifact.Answer](t.Context(), d, "answer.json")
	require.ErrorIs(t, err, artifact.ErrNotFound)

	put(`{"agent_id": "a", "answer": "42", "timestamp": "2026-03-20T22:32:03+00:00", "unknown": [1]}`)
	answer, err := artifact.ReadJSON[artifact.Answer](t.Context(), d, "answer.json")
	require.NoError(t, err)
	require.Equal(t, "42", answer.Answer)

	for _, body := range []string{"", "{", `{"answer": 42}`, `{} {}`} {
		put(body)
		_, err = artifact.ReadJSON[artifact.Answer](t.Context(), d, "answer.json")
		var malformed *artifact.MalformedError
		require.ErrorAs(t, err, &malformed, body)
		require.Equal(t, "answer.json", malformed.Key)
	}
}

func TestReadJSON_bounded(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	require.NoError(t, d.Put(t.Context(), "huge", strings.NewReader(strings.Repeat(" ", artifact.MaxDocument)+"{}")))
	_, err := artifact.ReadJSON[artifact.Answer](t.Context(), d, "huge")
	var malformed *artifact.MalformedError
	require.ErrorAs(t, err, &malformed)
}

// Durations are written to the millisecond, and never with the digits of binary fractions.
func TestSecondsBetween(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	require.InDelta(t, 4.544, artifact.SecondsBetween(begin, begin.Add(4544*time.Millisecond+987*time.Microsecond)), 0)
	require.Zero(t, artifact.SecondsBetween(begin, begin.Add(-time.Minute)), "the clocks of workers differ")
	data, err := json.Marshal(artifact.Commit{StartedAt: begin, Timestamp: begin.Add(2861 * time.Millisecond)}.LastAction("agent_a", 1))
	require.NoError(t, err)
	require.Contains(t, string(data), `"duration_seconds":2.861,`)
}
