package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/step"
)

// An attempt that ends at any model call is continued by the next one. No reply is paid for again,
// and the files are restored.
func TestJournal_resume(t *testing.T) {
	t.Parallel()
	replies := []llm.Message{
		write("a.txt", "x"),
		call("read_file", map[string]string{"path": "a.txt"}),
		answer("Done."),
	}
	for lost := range replies {
		b := newBench(t)
		m := b.newStep(first("agent_a", 1), "run-l1")
		m.Attempt = 1
		spec, err := m.Spec(t.Context(), b.store)
		require.NoError(t, err)
		r, err := step.Run(t.Context(), b.ports(&script{replies: replies[:lost]}), spec)
		require.ErrorContains(t, err, "the script has", "lost after %d", lost)

		m.Attempt, m.Spent = 2, r.Usage
		spec, err = m.Spec(t.Context(), b.store)
		require.NoError(t, err)
		model := &script{replies: replies[lost:]}
		r, err = step.Run(t.Context(), b.ports(model), spec)
		require.NoError(t, err, "lost after %d", lost)
		require.Equal(t, 1, r.Step)
		require.Equal(t, 1, r.Files)
		require.Len(t, model.requests, len(replies)-lost, "lost after %d", lost)
	}
}

// If a step reported nothing, the answers in its updates are recovered from its journal.
func TestJournal_recoversUpdates(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		news func(*scene)
		want map[string]int
	}{
		"an answer": {(*scene).improve, map[string]int{"agent_a": 1, "agent_b": 2}},
		"a message": {func(s *scene) { s.say(1, "", "Be brief.") }, nil},
		"no update": {func(*scene) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, inject(), look(), look())
			s.model.during[1] = func() { tt.news(s) }
			require.ErrorContains(t, s.play(), "the script has")
			found, err := step.Recover(t.Context(), step.Ports{Store: s.store}, s.step.Place())
			require.NoError(t, err)
			require.Equal(t, tt.want, found.Seen)
		})
	}
}

// Updates are journaled. A resumed step keeps them and their files and commits with them, without
// read the doorbell.
func TestJournal_updates(t *testing.T) {
	t.Parallel()
	for name, resumed := range map[string]bool{"the next attempt": false, "a launch that resumes it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, inject(), look(), look())
			s.step.Attempt = 1
			s.model.during[1] = func() {
				s.improve()
				s.say(1, "", "Be brief.")
			}
			require.ErrorContains(t, s.play(), "the script has")
			require.Contains(t, s.sent(3), "Two, improved.")

			s.bell.ring(func(b *coordination.Ring) { b.Answers, b.Messages = nil, nil })
			s.model = &script{replies: []llm.Message{look(), vote("agent2", "Better.")}}
			s.step.Attempt = 2
			if resumed {
				s.step.Attempt = 1
				s.step.Token, s.step.Launch.ID, s.step.Launch.ResumeFrom = "run-c2", "l9", "run-c"
			}
			require.NoError(t, s.play())
			require.Contains(t, s.sent(1), "Two, improved.")
			require.Contains(t, s.sent(2), "second.txt")
			require.Equal(t, map[string]int{"agent_a": 1, "agent_b": 2}, s.result.Commit.SeenSteps)
			require.Equal(t, 1, s.result.Commit.Heard)
			var v struct {
				TargetLabel string `json:"target_label"`
			}
			s.read(s.spec.Dir(s.result.Step)+"vote.json", &v)
			require.Equal(t, "agent2.2", v.TargetLabel)
		})
	}
}
