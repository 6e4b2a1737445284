package step_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/approval"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// post is the world outside: it has a tool that sends, and counts what was sent.
type post struct {
	mu   sync.Mutex
	sent map[string]int
	cut  func() error // may end a call after it has sent; nil never does
}

func (p *post) OpenTools(context.Context, string) (step.Tools, error) { return p, nil }

func (*post) Tools() []llm.Tool {
	return []llm.Tool{{Name: "send"}, {Name: "look", ReadOnly: true}}
}

func (*post) Close() error { return nil }

func (p *post) Run(_ context.Context, call llm.ToolCall) (loop.Output, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent[call.Name+call.Arguments]++
	if p.cut != nil {
		if err := p.cut(); err != nil {
			return loop.Output{}, err
		}
	}
	return loop.Output{Text: "sent " + call.Arguments}, nil
}

// mailer calls send twice and look once in one reply, then ends the step.
type mailer struct{ calls int }

func (m *mailer) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	if last := req.Messages[len(req.Messages)-1]; last.Role == llm.ToolRole {
		return llm.Reply{Message: done("Done."), Usage: llm.Usage{ModelCalls: 1}}, nil
	}
	m.calls++
	return llm.Reply{Usage: llm.Usage{ModelCalls: 1}, Message: llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{
		{ID: "a", Name: "send", Arguments: `{"to": "ann"}`}, {ID: "b", Name: "look", Arguments: "{}"}, {ID: "c", Name: "send", Arguments: `{"to": "bob"}`},
	}}}, nil
}

// desk answers the questions of a step, between its launches, by their kinds.
type desk struct {
	launch  string
	answers map[string]loop.Answer // by question
	asked   []loop.AwaitedCall
	say     func(loop.AwaitedCall) loop.Answer
}

func (d *desk) person() loop.Person {
	return loop.Person{
		ID: func(n int) string { return fmt.Sprintf("q0_%s_%d", d.launch, n) },
		Answer: func(_ context.Context, id string) (loop.Answer, bool, error) {
			answer, ok := d.answers[id]
			return answer, ok, nil
		},
	}
}

// play runs a step, through all attempts and launches, until it has its action. Kill tells after how many
// calls of the store each attempt dies; if it is negative, the last one still takes effect.
func play(t *testing.T, d *desk, p *post, gate approval.Gate, people bool, kill ...int) (outputs []string) {
	t.Helper()
	b := newBench(t, &rules{})
	model, launch := &mailer{}, 1
	for n := 1; n < 40; n++ {
		d.launch = fmt.Sprintf("l%d", launch)
		ports := b.ports()
		ports.Model, ports.Tools, ports.Gate = model, toolbox{Toolbox: step.OpenFunc(p.OpenTools), repeatable: func(string) bool { return false }}, gate
		store := &mortal{Store: b.store}
		store.life.Store(1000)
		if n <= len(kill) {
			store.life.Store(int64(max(kill[n-1], -kill[n-1])))
			store.late = kill[n-1] < 0
		}
		ports.Store = store
		if people {
			ports.Caller.Person = d.person()
		}
		r := &rules{}
		b.spec.Open = func(step.Access) (loop.Rules, []llm.Message, error) {
			return r, []llm.Message{{Role: llm.User, Content: "Send it."}}, nil
		}
		b.spec.Attempt.Number = n
		_, err := step.Run(t.Context(), ports, b.spec)
		if seen := results(r.learned); len(seen) > 0 { // an attempt that finds the commit learns nothing
			outputs = seen
		}
		ended, waits := errors.AsType[*loop.EndedError](err)
		switch {
		case err == nil:
			require.LessOrEqual(t, model.calls, 1+len(kill), "no reply on record is asked for again")
			return outputs
		case waits:
			d.asked = append(d.asked, ended.Calls...)
			for _, q := range ended.Calls {
				d.answers[q.ID] = d.say(q)
			}
			launch++
			b.spec.Attempt = step.Attempt{ResumeFrom: b.spec.Token}
			b.spec.Token, b.spec.After = fmt.Sprintf("run-l%d", launch), b.spec.After+1
		case store.life.Load() < 0 || errors.Is(err, errKilled): // the next attempt
		default:
			require.NoError(t, err)
		}
	}
	t.Fatal("the step hung")
	return nil
}

func newDesk(say func(loop.AwaitedCall) loop.Answer) *desk {
	return &desk{answers: map[string]loop.Answer{}, say: say}
}

var askAboutSending = approval.NewGate(nil, []approval.Rule{{Tool: "send", Do: approval.Ask, Reason: "it goes out"}}, false)

// The calls that have to wait are asked about together; each runs once its own approval is there.
func TestApproval(t *testing.T) {
	t.Parallel()
	d := newDesk(func(q loop.AwaitedCall) loop.Answer {
		return loop.Answer{Allow: strings.Contains(q.Arguments, "bob"), By: "ann", Text: "not me"}
	})
	p := &post{sent: map[string]int{}}
	outputs := play(t, d, p, askAboutSending, true)
	require.Len(t, d.asked, 2)
	require.Equal(t, loop.AskApproval, d.asked[0].Question.Kind)
	require.Equal(t, "approvals[0] of the team: it goes out", d.asked[0].Question.Why)
	require.NotEqual(t, d.asked[0].Question.Effect, d.asked[1].Question.Effect)
	require.Equal(t, map[string]int{`send{"to": "bob"}`: 1, "look{}": 1}, p.sent)
	require.Equal(t, "Not run: ann did not allow this call. not me", outputs[0])
	require.Contains(t, outputs[2], "sent")
}

// Where nobody can be asked, a call that needs it is not run, and the model is told so; deny needs nobody.
func TestApproval_nobody(t *testing.T) {
	t.Parallel()
	p := &post{sent: map[string]int{}}
	outputs := play(t, newDesk(nil), p, askAboutSending, false)
	require.Contains(t, outputs[0], "nobody can be asked in this step")
	deny := approval.NewGate(nil, []approval.Rule{{Tool: "send", Do: approval.Deny, Reason: "it goes out"}}, false)
	outputs = play(t, newDesk(nil), p, deny, true)
	require.Contains(t, outputs[0], "do not allow this call, approvals[0] of the team: it goes out")
	require.Equal(t, map[string]int{"look{}": 2}, p.sent)
}

// An effect happens at most once, whatever attempts die and whenever, unless a person lets it run again: and then
// once more. No approval is lost, and no step hangs.
func TestEffect_atMostOnce(t *testing.T) {
	t.Parallel()
	for kind, gate := range map[string]approval.Gate{"asked": askAboutSending, "without rules": {}} {
		for _, people := range []bool{true, false} {
			if !people && gate.HasRules() {
				continue
			}
			t.Run(fmt.Sprintf("%s, people=%t", kind, people), func(t *testing.T) {
				t.Parallel()
				for first := -23; first <= 24; first += 3 {
					for second := -24; second <= 24; second += 12 {
						p, again := &post{sent: map[string]int{}}, 0
						d := newDesk(func(q loop.AwaitedCall) loop.Answer {
							if q.Question.Kind == loop.AskUnknown && second%4 == 0 {
								again++
								return loop.Answer{Allow: true}
							}
							return loop.Answer{Allow: q.Question.Kind == loop.AskApproval, Look: q.Question.Kind == loop.AskUnknown}
						})
						outputs := play(t, d, p, gate, people, first, second)
						require.LessOrEqual(t, p.sent[`send{"to": "ann"}`]+p.sent[`send{"to": "bob"}`], 2+again, "killed at %d and %d", first, second)
						for i, to := range []string{"ann", "", "bob"} {
							sent := p.sent[`send{"to": "`+to+`"}`]
							require.True(t, to == "" || sent > 0 || strings.Contains(outputs[i], "not known"), "killed at %d and %d: %q", first, second, outputs[i])
							require.True(t, again > 0 || sent <= 1, "killed at %d and %d", first, second)
						}
					}
				}
			})
		}
	}
}

// A call that is cut while it runs has an unknown end.
func TestEffect_cut(t *testing.T) {
	t.Parallel()
	p, cuts := &post{sent: map[string]int{}}, 0
	p.cut = func() error {
		if cuts++; cuts == 1 {
			return errKilled
		}
		return nil
	}
	outputs := play(t, newDesk(nil), p, approval.Gate{}, false)
	require.Contains(t, outputs[0], "not known")
	require.Equal(t, map[string]int{`send{"to": "ann"}`: 1, `send{"to": "bob"}`: 1, "look{}": 1}, p.sent)
}
