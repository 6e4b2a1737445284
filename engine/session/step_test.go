package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session"
	"conclave/engine/step"
)

// script is a model that replies in order and records its requests. Functions may run
// during a call.
type script struct {
	mu       sync.Mutex
	replies  []llm.Message
	during   map[int]func() // by number of the call, from 1
	requests []llm.Request
}

func (s *script) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.requests)
	s.requests = append(s.requests, req)
	if happens := s.during[n+1]; happens != nil {
		happens()
	}
	if n >= len(s.replies) {
		return llm.Reply{}, fmt.Errorf("the script has %d replies, this is call %d", len(s.replies), n+1)
	}
	return llm.Reply{Message: s.replies[n], Usage: llm.Usage{InputTokens: 100, OutputTokens: 10, ModelCalls: 1}}, nil
}

func call(name string, arguments any) llm.Message {
	data, _ := json.Marshal(arguments)
	return llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "c1", Name: name, Arguments: string(data)}}}
}

func answer(text string) llm.Message { return call("new_answer", map[string]string{"content": text}) }

func vote(label, reason string) llm.Message {
	return call("vote", map[string]string{"agent_id": label, "reason": reason})
}

func write(path, content string) llm.Message {
	return call("write_file", map[string]string{"path": path, "content": content})
}

// bench is the store of a session.
type bench struct {
	t      *testing.T
	store  artifact.Store
	layout artifact.Layout
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	return &bench{t: t, store: dir, layout: artifact.Layout{}}
}

// lease is a lease that never fences tools.
type lease func() error

func (l lease) CheckAlive(context.Context) error { return l() }

func (lease) FenceTools(ctx context.Context) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

func (b *bench) ports(model loop.Model) step.Ports {
	return step.Ports{
		Store: b.store, Model: model, Scratch: b.t.TempDir(),
		Now: func() time.Time { return time.Date(2026, 3, 20, 22, 32, 3, 0, time.UTC) },
		Tools: step.OpenFunc(func(ctx context.Context, dir string) (step.Tools, error) {
			return tools.Open(ctx, dir, tools.Set{Files: true})
		}),
	}
}

func (b *bench) newStep(l coordination.Launch, token string) session.Step {
	return session.Step{
		Layout: b.layout, Launch: l, Token: token, Agents: []string{"agent_b", "agent_a"},
		Query: "What is the answer?", Files: true,
	}
}

// run runs a step of a launch.
func (b *bench) run(l coordination.Launch, token string, replies ...llm.Message) (step.Result, *script, error) {
	b.t.Helper()
	model := &script{replies: replies}
	spec, err := b.newStep(l, token).Spec(b.t.Context(), b.store)
	require.NoError(b.t, err)
	r, err := step.Run(b.t.Context(), b.ports(model), spec)
	return r, model, err
}

func (b *bench) read(key string, v any) {
	b.t.Helper()
	data, err := b.store.Get(b.t.Context(), key)
	require.NoError(b.t, err, key)
	require.NoError(b.t, json.Unmarshal(data, v), key)
}

func first(agent string, number int) coordination.Launch {
	return coordination.Launch{ID: "l1", Agent: agent, Number: number, Round: 1, Offered: []coordination.Action{coordination.NewAnswer}}
}

func later(agent string, number, after int, shown ...coordination.Shown) coordination.Launch {
	return coordination.Launch{
		ID: "l2", Agent: agent, Number: number, Round: 2, After: after, Shown: shown,
		Offered: []coordination.Action{coordination.NewAnswer, coordination.Vote},
	}
}

func TestStep_firstAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)

	r, model, err := b.run(first("agent_a", 1), "run-l1", write("out/answer.md", "42\n"), answer("It is 42, see out/answer.md."))
	require.NoError(t, err)
	require.Equal(t, 1, r.Step)
	require.Equal(t, 1, r.Files)
	require.Equal(t, int64(2), r.Usage.ModelCalls)
	require.Len(t, model.requests, 2)

	var got artifact.Answer
	b.read("agents/agent_a/001/answer.json", &got)
	require.Equal(t, artifact.Answer{
		AgentID: "agent_a", Answer: "It is 42, see out/answer.md.", Label: "agent1.1",
		Timestamp: time.Date(2026, 3, 20, 22, 32, 3, 0, time.UTC),
	}, got)

	file, err := b.store.Get(t.Context(), "agents/agent_a/001/workspace/out/answer.md")
	require.NoError(t, err)
	require.Equal(t, "42\n", string(file))

	var manifest artifact.Manifest
	b.read("agents/agent_a/001/workspace.json", &manifest)
	require.Len(t, manifest.Files, 1)
	require.Equal(t, "out/answer.md", manifest.Files[0].Path)

	var last artifact.LastAction
	b.read("agents/agent_a/last_action.json", &last)
	require.Equal(t, "new_answer", last.Action)
	require.Equal(t, 1, last.StepNumber)
	require.Nil(t, last.Error)
	require.NotNil(t, last.WorkspacePath)
	require.True(t, filepath.IsAbs(*last.WorkspacePath))

	transcript, err := b.store.Get(t.Context(), "agents/agent_a/001/transcript.jsonl")
	require.NoError(t, err)
	require.Equal(t, 5, strings.Count(string(transcript), "\n"), "opening, reply, results, reply, results:\n%s", transcript)
}

func TestStep_vote(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.run(first("agent_a", 1), "run-a", answer("One."))
	require.NoError(t, err)
	_, _, err = b.run(first("agent_b", 2), "run-b", write("proof.txt", "because"), answer("Two."))
	require.NoError(t, err)

	shown := []coordination.Shown{
		{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1},
		{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1},
	}
	r, model, err := b.run(later("agent_a", 1, 1, shown...), "run-c",
		call("read_file", map[string]string{"path": "peers/agent2/proof.txt"}), vote("agent2.1", "It is proved."))
	require.NoError(t, err)
	require.Equal(t, 2, r.Step)

	var v artifact.Vote
	b.read("agents/agent_a/002/vote.json", &v)
	require.Equal(t, "agent_b", v.Target)
	require.Equal(t, "agent2.1", v.TargetLabel)
	require.Equal(t, map[string]int{"agent_a": 1, "agent_b": 1}, v.SeenSteps)
	there, err := b.store.Exists(t.Context(), "agents/agent_a/002/workspace.json")
	require.NoError(t, err)
	require.False(t, there, "a vote has no workspace")

	conversation, err := json.Marshal(model.requests)
	require.NoError(t, err)
	require.Contains(t, string(conversation), "because", "the peer's file was readable")
	require.NotContains(t, string(conversation), "agent_a", "a model never sees an agent's ID")
	require.NotContains(t, string(conversation), "agent_b")

	o, err := session.ReadOutcome(r.Commit)
	require.NoError(t, err)
	require.Equal(t, session.Outcome{
		Action: coordination.Vote, Choice: coordination.Choice{Target: "agent_b", TargetLabel: "agent2.1", Reason: "It is proved."},
		Seen: []coordination.Seen{{Agent: "agent_a", Step: 1}, {Agent: "agent_b", Step: 1}},
	}, o)
}

func TestStep_nextLabel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.run(first("agent_a", 1), "run-a", answer("One."))
	require.NoError(t, err)
	_, _, err = b.run(later("agent_a", 1, 1, coordination.Shown{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1}), "run-b", answer("One, and why."))
	require.NoError(t, err)
	var a artifact.Answer
	b.read("agents/agent_a/002/answer.json", &a)
	require.Equal(t, "agent1.2", a.Label)
}

// A step whose completion was lost is found by its token and does not run again. The documents
// derived from its commit are written again.
func TestStep_completionLost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	done, _, err := b.run(first("agent_a", 1), "run-l1", write("a.txt", "x"), answer("Done."))
	require.NoError(t, err)

	for _, lost := range []string{"agents/agent_a/001/answer.json", "agents/agent_a/001/workspace/a.txt", "agents/agent_a/last_action.json"} {
		require.NoError(t, b.store.Delete(t.Context(), lost))
		again, model, err := b.run(first("agent_a", 1), "run-l1")
		require.NoError(t, err)
		require.Empty(t, model.requests, "no model call is paid for twice")
		require.Equal(t, done.Step, again.Step)
		require.Equal(t, done.Commit, again.Commit)
		require.Equal(t, done.Usage, again.Usage)
		require.Equal(t, done.Files, again.Files)
		there, err := b.store.Exists(t.Context(), lost)
		require.NoError(t, err)
		require.True(t, there, "%s is projected again", lost)
	}
}

func TestStep_takenNumber(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.run(first("agent_a", 1), "run1-l1", answer("From before the reset."))
	require.NoError(t, err)
	r, _, err := b.run(first("agent_a", 1), "run2-l1", answer("From after the reset."))
	require.NoError(t, err)
	require.Equal(t, 2, r.Step)
	var a artifact.Answer
	b.read("agents/agent_a/001/answer.json", &a)
	require.Equal(t, "From before the reset.", a.Answer, "nothing is overwritten")
}

// One of several concurrent attempts commits; the others adopt its commit.
func TestStep_racingAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const attempts = 8
	results := make([]step.Result, attempts)
	errs := make([]error, attempts)
	var wg sync.WaitGroup
	for i := range attempts {
		m := b.newStep(first("agent_a", 1), "run-l1")
		m.Attempt = i + 1
		spec, err := m.Spec(t.Context(), b.store)
		require.NoError(t, err)
		reply := answer(fmt.Sprintf("Attempt %d.", i))
		ports := b.ports(&script{replies: slices.Repeat([]llm.Message{reply}, attempts)})
		wg.Go(func() { results[i], errs[i] = step.Run(t.Context(), ports, spec) })
	}
	wg.Wait()
	for i := range attempts {
		if errs[i] != nil {
			again, model, err := b.run(first("agent_a", 1), "run-l1")
			require.NoError(t, err)
			require.Empty(t, model.requests)
			results[i] = again
		}
		require.Equal(t, 1, results[i].Step)
		require.Equal(t, results[0].Commit, results[i].Commit)
	}
}

// Whichever call to the store fails, the next attempt ends with a single action of the step.
func TestStep_storeFailures(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		b := newBench(t)
		faulty := &faultyStore{Store: b.store, failAt: n}
		spec, err := b.newStep(first("agent_a", 1), "run-l1").Spec(t.Context(), b.store)
		require.NoError(t, err)
		replies := []llm.Message{write("a.txt", "x"), answer("Done.")}

		ports := b.ports(&script{replies: replies})
		ports.Store = faulty
		_, err = step.Run(t.Context(), ports, spec)
		if faulty.calls < n {
			require.NoError(t, err)
			require.Greater(t, n, 10, "the sequence has at least that many calls")
			return
		}
		require.ErrorIs(t, err, errFault, "call %d", n)

		r, err := step.Run(t.Context(), b.ports(&script{replies: replies}), spec)
		require.NoError(t, err, "after call %d failed", n)
		require.Equal(t, 1, r.Step, "after call %d failed", n)
		var a artifact.Answer
		b.read("agents/agent_a/001/answer.json", &a)
		require.Equal(t, "Done.", a.Answer)
	}
}

func TestStep_abandoned(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	text := llm.Message{Role: llm.Assistant, Content: "I would rather chat."}
	model := &script{replies: []llm.Message{text, text, text}}
	spec, err := b.newStep(first("agent_a", 1), "run-l1").Spec(t.Context(), b.store)
	require.NoError(t, err)
	r, err := step.Run(t.Context(), b.ports(model), spec)
	var rejected *loop.NoActionError
	require.ErrorAs(t, err, &rejected)
	require.Equal(t, 1, r.Step)
	require.Equal(t, int64(3), r.Usage.ModelCalls)

	require.NoError(t, step.Abandon(t.Context(), b.ports(model), spec, r, artifact.Error{Type: "NoAction", Message: err.Error()}))
	var last artifact.LastAction
	b.read("agents/agent_a/last_action.json", &last)
	require.Equal(t, "none", last.Action)
	require.Equal(t, "NoAction", last.Error.Type)
	require.Equal(t, int64(3), last.Cost.ModelCalls)
	transcript, err := b.store.Get(t.Context(), "agents/agent_a/001/transcript.jsonl")
	require.NoError(t, err)
	require.Contains(t, string(transcript), "rather chat")

	next, _, err := b.run(coordination.Launch{ID: "l2", Agent: "agent_a", Number: 1, Round: 2, After: 1, Offered: []coordination.Action{coordination.NewAnswer}}, "run-l2", answer("Fine."))
	require.NoError(t, err)
	require.Equal(t, 2, next.Step)
}

// The duration of an abandoned step starts at its claim, even for an attempt that only knows the
// number.
func TestStep_abandonedDuration(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	spec, err := b.newStep(first("agent_a", 1), "run-l1").Spec(t.Context(), b.store)
	require.NoError(t, err)
	ports := b.ports(&script{})
	now := ports.Now()
	ports.Now = func() time.Time { return now }
	r, err := step.Run(t.Context(), ports, spec)
	require.Error(t, err)
	duration := func(r step.Result, at time.Time) float64 {
		now = at
		require.NoError(t, step.Abandon(t.Context(), ports, spec, r, artifact.Error{Type: "Cancelled"}))
		var last artifact.LastAction
		b.read("agents/agent_a/last_action.json", &last)
		return last.DurationSeconds
	}
	began := now
	require.InDelta(t, 12.5, duration(r, began.Add(12500*time.Millisecond)), 1e-9)
	require.InDelta(t, 20, duration(step.Result{Step: 1}, began.Add(20*time.Second)), 1e-9)
	require.Zero(t, duration(r, began.Add(-time.Second)), "clocks differ")
	require.Zero(t, duration(step.Result{}, began.Add(20*time.Second)), "it was never claimed")
}

// An attempt that was fenced during a model call must not commit.
func TestStep_fencedAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	spec, err := b.newStep(first("agent_a", 1), "run-l1").Spec(t.Context(), b.store)
	require.NoError(t, err)
	fenced := errors.New("fenced")
	ctx, cancel := context.WithCancelCause(t.Context())
	model := modelFunc(func(context.Context, llm.Request) (llm.Reply, error) {
		cancel(fenced)
		return llm.Reply{Message: answer("Too late.")}, nil
	})
	_, err = step.Run(ctx, b.ports(model), spec)
	require.ErrorIs(t, err, fenced)
	there, err := b.store.Exists(t.Context(), "agents/agent_a/001/action.json")
	require.NoError(t, err)
	require.False(t, there)
}

// The fence is checked before every effect, and after a refusal there are no effects.
func TestStep_fence(t *testing.T) {
	t.Parallel()
	fenced := errors.New("fenced")
	before := []int{0, 1, 3, 4, 5, 7, 8} // events before each check; a reply is journaled unchecked
	for refuse := 1; ; refuse++ {
		b := newBench(t)
		spec, err := b.newStep(first("agent_a", 1), "run-l1").Spec(t.Context(), b.store)
		require.NoError(t, err)
		var did []string
		script := &script{replies: []llm.Message{write("a.txt", "x"), answer("Done.")}}
		ports := b.ports(modelFunc(func(ctx context.Context, r llm.Request) (llm.Reply, error) {
			did = append(did, "model")
			return script.Generate(ctx, r)
		}))
		ports.Tools = step.OpenFunc(func(_ context.Context, dir string) (step.Tools, error) {
			opened, err := tools.Open(t.Context(), dir, tools.Set{Files: true})
			return noted{opened: opened, run: func() { did = append(did, "tool") }}, err
		})
		var last loop.EntryKind
		ports.Progress = func(p step.Progress) {
			if p.Last != last { // a reply is reported again once it is written
				did = append(did, "journal "+string(p.Last))
			}
			last = p.Last
		}
		asked := 0
		ports.Lease = lease(func() error {
			if asked++; asked >= refuse {
				return fenced
			}
			return nil
		})
		_, err = step.Run(t.Context(), ports, spec)
		committed, existsErr := b.store.Exists(t.Context(), "agents/agent_a/001/action.json")
		require.NoError(t, existsErr)
		if err == nil {
			require.Equal(t, []string{
				"journal opening", "model", "journal reply", "tool", "journal results", "model", "journal reply", "journal results",
			}, did)
			require.Len(t, before, asked, "before each of them but the replies, and before the commit")
			return
		}
		require.ErrorIs(t, err, fenced)
		require.Len(t, did, before[refuse-1])
		require.False(t, committed)
	}
}

// noted are tools that report each call.
type noted struct {
	opened step.Tools
	run    func()
}

func (n noted) Tools() []llm.Tool { return n.opened.Tools() }
func (n noted) Close() error      { return n.opened.Close() }
func (n noted) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	n.run()
	return n.opened.Run(ctx, call)
}

// A late attempt does not replace last_action.json with an older one.
func TestStep_lastAction(t *testing.T) {
	t.Parallel()
	lastAction := func(b *bench) (last artifact.LastAction) {
		b.read("agents/agent_a/last_action.json", &last)
		return last
	}
	shown := coordination.Shown{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1}
	failure := artifact.Error{Type: "NoProgress", Message: "gone"}
	two := func(t *testing.T) *bench {
		t.Helper()
		b := newBench(t)
		_, _, err := b.run(first("agent_a", 1), "run-l1", answer("One."))
		require.NoError(t, err)
		require.Equal(t, 1, lastAction(b).StepNumber)
		_, _, err = b.run(later("agent_a", 1, 1, shown), "run-l2", answer("Two."))
		require.NoError(t, err)
		require.Equal(t, 2, lastAction(b).StepNumber)
		return b
	}
	abandon := func(b *bench, l coordination.Launch, token string, number int) {
		spec, err := b.newStep(l, token).Spec(t.Context(), b.store)
		require.NoError(t, err)
		require.NoError(t, step.Abandon(t.Context(), b.ports(nil), spec, step.Result{Step: number}, failure))
	}

	t.Run("found again", func(t *testing.T) {
		t.Parallel()
		b := two(t)
		_, _, err := b.run(first("agent_a", 1), "run-l1")
		require.NoError(t, err)
		require.Equal(t, 2, lastAction(b).StepNumber)
	})
	t.Run("given up late", func(t *testing.T) {
		t.Parallel()
		b := two(t)
		abandon(b, first("agent_a", 1), "run-l1", 1)
		abandon(b, first("agent_a", 1), "run-l1", 0)
		require.Equal(t, "new_answer", lastAction(b).Action)
		require.Equal(t, 2, lastAction(b).StepNumber)
	})
	t.Run("given up although another attempt has committed", func(t *testing.T) {
		t.Parallel()
		b := two(t)
		abandon(b, later("agent_a", 1, 1, shown), "run-l2", 2)
		require.Equal(t, "new_answer", lastAction(b).Action)
		require.Equal(t, 2, lastAction(b).StepNumber)
	})
	t.Run("the next step, given up without a number", func(t *testing.T) {
		t.Parallel()
		b := two(t)
		abandon(b, later("agent_a", 1, 2, shown), "run-l3", 0)
		require.Equal(t, "none", lastAction(b).Action)
	})
	t.Run("an unreadable one is replaced", func(t *testing.T) {
		t.Parallel()
		b := two(t)
		require.NoError(t, b.store.Put(t.Context(), "agents/agent_a/last_action.json", strings.NewReader("{")))
		_, _, err := b.run(first("agent_a", 1), "run-l1")
		require.NoError(t, err)
		require.Equal(t, 1, lastAction(b).StepNumber)
	})
}

func TestStep_workspaceRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	scratch := t.TempDir()
	_, _, err := b.run(first("agent_b", 2), "run-b", write("deep/proof.txt", "x"), answer("Two."))
	require.NoError(t, err)
	ports := b.ports(&script{replies: []llm.Message{vote("agent2", "Fine.")}})
	ports.Scratch = scratch
	spec, err := b.newStep(later("agent_a", 1, 0, coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1}), "run-c").Spec(t.Context(), b.store)
	require.NoError(t, err)
	_, err = step.Run(t.Context(), ports, spec)
	require.NoError(t, err)
	left, err := os.ReadDir(scratch)
	require.NoError(t, err)
	require.Empty(t, left)
}

type modelFunc func(context.Context, llm.Request) (llm.Reply, error)

func (f modelFunc) Generate(ctx context.Context, r llm.Request) (llm.Reply, error) { return f(ctx, r) }
