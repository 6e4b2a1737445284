package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session"
	"conclave/engine/step"
)

// bell is a doorbell for tests.
type bell struct {
	mu   sync.Mutex
	rung coordination.Ring
}

func (b *bell) ring(change func(*coordination.Ring)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung.Epoch++
	change(&b.rung)
}

func (b *bell) look(context.Context) (coordination.Ring, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung, nil
}

// scene is agent_a's second step, after both first answers, with a doorbell.
type scene struct {
	*bench
	bell   *bell
	step   session.Step
	model  *script
	result step.Result
	spec   step.Spec
}

func newScene(t *testing.T, updates coordination.Updates, replies ...llm.Message) *scene {
	t.Helper()
	b := newBench(t)
	_, _, err := b.run(first("agent_a", 1), "run-a", answer("One."))
	require.NoError(t, err)
	_, _, err = b.run(first("agent_b", 2), "run-b", write("first.txt", "1"), answer("Two."))
	require.NoError(t, err)
	l := later("agent_a", 1, 1,
		coordination.Shown{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1},
		coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1})
	l.Updates = updates
	s := &scene{bench: b, bell: &bell{}, step: b.newStep(l, "run-c"), model: &script{replies: replies, during: map[int]func(){}}}
	s.step.Bell = s.bell.look
	return s
}

// improve commits agent_b's second answer and rings the doorbell.
func (s *scene) improve() {
	l := later("agent_b", 2, 1, coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1})
	_, _, err := s.run(l, "run-d", write("second.txt", "because 2"), answer("Two, improved."))
	require.NoError(s.t, err)
	s.bell.ring(func(b *coordination.Ring) {
		b.Answers = []coordination.Shown{
			{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1},
			{Agent: "agent_b", Number: 2, Label: "agent2.2", Step: 2},
		}
	})
}

// say stores a message and rings the doorbell.
func (s *scene) say(number int, agent, text string) {
	m := step.Message{Number: number, Agent: agent, Text: text}
	require.NoError(s.t, artifact.PutJSON(s.t.Context(), s.store, s.layout.Message(number), m))
	s.bell.ring(func(b *coordination.Ring) {
		b.Messages = append(b.Messages, coordination.Message{Number: number, Agent: agent})
	})
}

func (s *scene) play() error {
	s.t.Helper()
	var err error
	s.spec, err = s.step.Spec(s.t.Context(), s.store)
	require.NoError(s.t, err)
	s.result, err = step.Run(s.t.Context(), s.ports(s.model), s.spec)
	return err
}

// sent returns the text of all messages in a model call.
func (s *scene) sent(call int) string {
	s.t.Helper()
	require.GreaterOrEqual(s.t, len(s.model.requests), call)
	data, err := json.Marshal(s.model.requests[call-1].Messages)
	require.NoError(s.t, err)
	return string(data)
}

func look() llm.Message { return call("list_files", map[string]string{"path": "peers/agent2"}) }

func inject() coordination.Updates { return coordination.Updates{Mode: coordination.Inject, Most: 2} }

// Seed 003: "Inject information into other agents' ongoing work instead of restarting
// them", "Full Context Preservation", "Can access other agents' new files". Seed 000:
// seen_steps are the latest steps that the voter had seen.
func TestInbox_answers(t *testing.T) {
	t.Parallel()
	s := newScene(t, inject(),
		write("mine.txt", "kept"),
		look(),
		call("read_file", map[string]string{"path": "peers/agent2/second.txt"}),
		call("read_file", map[string]string{"path": "mine.txt"}),
		vote("agent2", "Now it is proved."))
	s.model.during[1] = s.improve
	require.NoError(t, s.play())

	require.NotContains(t, s.sent(1), "Two, improved.")
	require.Contains(t, s.sent(2), "Two, improved.")
	require.Contains(t, s.sent(2), "agent2.2")
	require.Contains(t, s.sent(2), "One.", "the conversation continues")
	require.NotContains(t, s.sent(3), "first.txt", "the older answer's files are gone")
	require.Contains(t, s.sent(3), "second.txt")
	require.Contains(t, s.sent(4), "because 2")
	require.Contains(t, s.sent(5), "kept", "the agent's own files are still there")
	require.NotContains(t, s.sent(5), "agent_b", "a model never sees an agent's ID")

	var v artifact.Vote
	s.read("agents/agent_a/002/vote.json", &v)
	require.Equal(t, "agent_b", v.Target)
	require.Equal(t, "agent2.2", v.TargetLabel)
	require.Equal(t, map[string]int{"agent_a": 1, "agent_b": 2}, v.SeenSteps)
}

// Only answers that were shown count as seen. A vote that has not seen a newer answer is stale.
func TestInbox_seenSteps(t *testing.T) {
	t.Parallel()
	for name, updates := range map[string]coordination.Updates{
		"no updates":             {},
		"shown an update before": inject(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, updates, look(), vote("agent2.1", "Good."), vote("agent2", "Good."))
			s.model.during[2] = s.improve
			want := 1
			if updates.Mode == coordination.Inject {
				s.model.during[3] = func() {
					s.bell.ring(func(b *coordination.Ring) { b.Answers[1].Label, b.Answers[1].Step = "agent2.3", 3 })
				}
				want = 2
			}
			require.NoError(t, s.play())
			require.Equal(t, map[string]int{"agent_a": 1, "agent_b": want}, s.result.Commit.SeenSteps)
		})
	}
}

// Seed 003, case 3: "Agent composed answer, about to call new_answer, update comes in:
// agent sees update before submitting, can revise decision".
func TestInbox_confirm(t *testing.T) {
	t.Parallel()
	s := newScene(t, inject(), vote("agent1", "Mine."), vote("agent2.2", "Better than mine."))
	s.model.during[1] = s.improve
	require.NoError(t, s.play())
	require.Contains(t, s.sent(2), "Two, improved.")
	o, err := session.ReadOutcome(s.result.Commit)
	require.NoError(t, err)
	require.Equal(t, "agent_b", o.Target)
	require.Equal(t, "agent2.2", o.TargetLabel)
	require.Equal(t, []coordination.Seen{{Agent: "agent_a", Step: 1}, {Agent: "agent_b", Step: 2}}, o.Seen)
}

// Seed 003: update_mode "restart" ends the step at its next safe point, without a
// failure and without a new last action.
func TestInbox_restart(t *testing.T) {
	t.Parallel()
	s := newScene(t, coordination.Updates{Mode: coordination.Restart}, look())
	s.model.during[1] = s.improve
	err := s.play()
	var ended *loop.EndedError
	require.ErrorAs(t, err, &ended)
	require.Equal(t, loop.EndRestart, ended.Why)
	require.Equal(t, 2, s.result.Step)
	require.Equal(t, int64(1), s.result.Usage.ModelCalls)

	require.NoError(t, step.Leave(t.Context(), s.ports(s.model), s.spec, s.result))
	transcript, err := s.store.Get(t.Context(), "agents/agent_a/002/transcript.jsonl")
	require.NoError(t, err)
	require.Contains(t, string(transcript), "list_files")
	there, err := s.store.Exists(t.Context(), "agents/agent_a/002/action.json")
	require.NoError(t, err)
	require.False(t, there)
	var last artifact.LastAction
	s.read("agents/agent_a/last_action.json", &last)
	require.Equal(t, "new_answer", last.Action)
	require.Equal(t, 1, last.StepNumber)
}

// The doorbell may still announce answers of an earlier attempt of the team. They are not news for
// a step of the next attempt.
func TestInbox_earlierAttempt(t *testing.T) {
	t.Parallel()
	s := newScene(t, inject(), look(), vote("agent1", "Good."))
	s.step.Launch.Shown = s.step.Launch.Shown[:1]
	s.step.Launch.Previous = &coordination.RejectedAnswer{
		Number: 1, Answer: coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1}, Agent: "agent_b", Step: 7,
	}
	again := artifact.Commit{Kind: string(coordination.RestartTeam), Payload: json.RawMessage(`{"reason":"wrong","instructions":"mend it"}`)}
	require.NoError(t, artifact.CreateJSON(t.Context(), s.store, s.layout.Step("agent_b", 7, "action.json"), again))
	s.model.during[1] = s.improve
	require.NoError(t, s.play())
	require.NotContains(t, s.sent(2), "Two, improved.")
	require.Equal(t, map[string]int{"agent_a": 1}, s.result.Commit.SeenSteps)
}

// Seed 001: human input reaches agents by the same injection, but only its recipients.
func TestInbox_messages(t *testing.T) {
	t.Parallel()
	s := newScene(t, coordination.Updates{}, look(), look(), vote("agent2", "As told."))
	s.say(1, "", "Be brief.")
	s.step.Launch.Messages = []coordination.Message{{Number: 1}}
	s.model.during[1] = func() {
		s.say(2, "agent_b", "Only for the other one.")
		s.say(3, "agent_a", "Mind the edge cases.")
	}
	require.NoError(t, s.play())
	require.Contains(t, s.sent(1), "Be brief.")
	require.NotContains(t, s.sent(1), "edge cases")
	require.Contains(t, s.sent(2), "Mind the edge cases.")
	require.NotContains(t, s.sent(3), "the other one")
	require.Equal(t, 3, s.result.Commit.Heard)
	o, err := session.ReadOutcome(s.result.Commit)
	require.NoError(t, err)
	require.Equal(t, 3, o.Heard)
}

// lateStore is a store in which one object does not exist at the first lookup. It exists at the
// second one if arrives is true.
type lateStore struct {
	artifact.Store
	key     string
	arrives bool
	looked  bool
}

func (l *lateStore) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	if key == l.key && !(l.looked && l.arrives) {
		l.looked = true
		return nil, artifact.ErrNotFound
	}
	return l.Store.Open(ctx, key)
}

// A message is announced before it is recorded. The step waits for it up to a limit; after that the
// next attempt finds it.
func TestInbox_lateMessage(t *testing.T) {
	t.Parallel()
	for name, arrives := range map[string]bool{"it comes": true, "it does not come": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, coordination.Updates{}, vote("agent2", "As told."))
			s.say(1, "", "Be brief.")
			s.step.Launch.Messages = []coordination.Message{{Number: 1}}
			late := &lateStore{Store: s.store, key: s.layout.Message(1), arrives: arrives}
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				_, err := s.step.Spec(t.Context(), late)
				require.True(t, late.looked)
				if arrives {
					require.NoError(t, err)
					require.Less(t, time.Since(began), time.Second)
					return
				}
				var unwritten *step.UnwrittenError
				require.ErrorAs(t, err, &unwritten)
				require.Equal(t, 1, unwritten.Number)
				require.Equal(t, 10*time.Second, time.Since(began))
			})
		})
	}
}

// If the doorbell cannot be read, the attempt ends without a commit.
func TestInbox_brokenDoorbell(t *testing.T) {
	t.Parallel()
	broken := errors.New("no line")
	s := newScene(t, inject(), vote("agent2", "Good."))
	s.step.Bell = func(context.Context) (coordination.Ring, error) { return coordination.Ring{}, broken }
	require.ErrorIs(t, s.play(), broken)
}
