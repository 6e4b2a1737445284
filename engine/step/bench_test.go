package step_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

var errScriptOver = errors.New("the script is over")

// script is a model that replies in order, after two seconds each.
type script struct {
	bench    *bench
	replies  []llm.Message
	requests int
}

func (s *script) Generate(context.Context, llm.Request) (llm.Reply, error) {
	s.bench.now = s.bench.now.Add(2 * time.Second)
	if s.requests == len(s.replies) {
		return llm.Reply{}, errScriptOver
	}
	s.requests++
	return llm.Reply{Message: s.replies[s.requests-1], Usage: llm.Usage{InputTokens: 10, ModelCalls: 1}}, nil
}

func call(name string, arguments map[string]string) llm.Message {
	data, _ := json.Marshal(arguments)
	return llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "c", Name: name, Arguments: string(data)}}}
}

func read(path string) llm.Message { return call("read_file", map[string]string{"path": path}) }

// done returns a reply that ends a step.
func done(text string) llm.Message { return llm.Message{Role: llm.Assistant, Content: text} }

// rules end a step with text, and run the test's functions at safe points.
type rules struct {
	learned []loop.Entry
	updates func(ctx context.Context, replies int) (loop.Update, error) // nil for none
	confirm func(ctx context.Context) (loop.Update, error)
	learn   func(ctx context.Context, e loop.Entry) error

	refuseText bool // a reply without tool calls is rejected instead of counting as an action
}

func (*rules) Offer() []llm.Tool { return nil }

func (r *rules) Judge(reply llm.Message) loop.Ruling {
	switch {
	case len(reply.ToolCalls) > 0:
		return loop.Ruling{}
	case r.refuseText:
		return loop.Ruling{Rejected: "text", Say: "Call a tool."}
	}
	text, _ := json.Marshal(reply.Content)
	return loop.Ruling{Action: &loop.Action{Kind: "text", Payload: text}}
}

func (r *rules) Learn(ctx context.Context, e loop.Entry) error {
	r.learned = append(r.learned, e)
	if r.learn == nil {
		return nil
	}
	return r.learn(ctx, e)
}

func (r *rules) Updates(ctx context.Context) (loop.Update, error) {
	if r.updates == nil {
		return loop.Update{}, nil
	}
	replies := 0
	for _, e := range r.learned {
		if e.Kind == loop.Reply {
			replies++
		}
	}
	return r.updates(ctx, replies)
}

func (r *rules) Confirm(ctx context.Context, _ loop.Action) (loop.Update, error) {
	if r.confirm == nil {
		return loop.Update{}, nil
	}
	return r.confirm(ctx)
}

// bench is a store and a scratch directory for one step.
type bench struct {
	t       *testing.T
	store   artifact.Store
	scratch string
	work    string // where the tools work
	now     time.Time
	mount   func(context.Context, step.Peer) error
	open    func(context.Context, string) (step.Tools, error) // nil for file tools
	spec    step.Spec
}

func newBench(t *testing.T, r *rules) *bench {
	t.Helper()
	dir, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	work := t.TempDir()
	t.Cleanup(func() { require.NoError(t, filelock.RemoveTree(work)) }) // it may have read-only directories
	b := &bench{t: t, store: dir, scratch: work, now: time.Date(2026, 3, 20, 22, 32, 3, 0, time.UTC)}
	layout := artifact.Layout{}
	b.spec = step.Spec{
		Layout: layout, Token: "run-l1", Shown: step.Shown{Seen: map[string]int{"agent_b": 1}},
		Dir: func(n int) string { return layout.Step("agent_a", n, "") },
		Open: func(access step.Access) (loop.Rules, []llm.Message, error) {
			b.mount = access.Mount
			return r, []llm.Message{{Role: llm.User, Content: "How many moons has Mars?"}}, nil
		},
		Seal: func(a loop.Action) (step.Sealed, error) {
			return step.Sealed{Payload: a.Payload, Workspace: true}, nil
		},
		Documents: func(int, artifact.Commit) ([]step.Document, error) { return nil, nil },
		Abandoned: func(last artifact.LastAction) []step.Document {
			return []step.Document{{Key: layout.Agent("agent_a", "last_action.json"), Body: last.Error, Replace: true}}
		},
	}
	return b
}

// again makes the next run the second attempt, and returns its rules.
func (b *bench) again() *rules {
	r := &rules{}
	b.spec.Attempt.Number = 2
	b.spec.Open = func(step.Access) (loop.Rules, []llm.Message, error) { return r, nil, nil }
	return r
}

// failing returns err once when is true.
func failing(err error, when func() bool) func() error {
	return func() error {
		if when() {
			return err
		}
		return nil
	}
}

// lease is a lease with functions, each of which may be nil.
type lease struct {
	alive func() error
	fence func(context.Context) (context.Context, context.CancelFunc)
}

// leaseOf returns the lease of p, which it gives one first.
func leaseOf(p *step.Ports) *lease {
	if p.Lease == nil {
		p.Lease = &lease{}
	}
	return p.Lease.(*lease)
}

func (l *lease) CheckAlive(context.Context) error {
	if l.alive == nil {
		return nil
	}
	return l.alive()
}

func (l *lease) FenceTools(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.fence == nil {
		return ctx, func() {}
	}
	return l.fence(ctx)
}

// toolbox has a function that reports whether a call can be repeated.
type toolbox struct {
	step.Toolbox
	repeatable func(string) bool
}

func (b toolbox) Repeatable(tool string) bool { return b.repeatable(tool) }

func (b *bench) ports(replies ...llm.Message) step.Ports {
	return step.Ports{
		Store: b.store, Scratch: b.scratch,
		Model: &script{bench: b, replies: replies},
		Now:   func() time.Time { return b.now },
		Tools: step.OpenFunc(func(ctx context.Context, dir string) (step.Tools, error) {
			b.work = dir
			if b.open != nil {
				return b.open(ctx, dir)
			}
			return tools.Open(ctx, dir, tools.Set{Files: true})
		}),
	}
}

func (b *bench) run(replies ...llm.Message) (step.Result, error) {
	return step.Run(b.t.Context(), b.ports(replies...), b.spec)
}

// peer stores a workspace of alternating names and contents.
func (b *bench) peer(number int, files ...string) step.Peer {
	dir := b.t.TempDir()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		require.NoError(b.t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(b.t, os.WriteFile(name, []byte(files[i+1]), 0o644))
	}
	_, hash, err := artifact.OpenWorkingCopy(b.store, b.spec.Layout, dir, "").Seal(b.t.Context())
	require.NoError(b.t, err)
	return step.Peer{Number: number, Manifest: hash}
}

// results returns the tool results in order.
func results(entries []loop.Entry) []string {
	var outputs []string
	for _, e := range entries {
		for _, m := range e.Messages {
			if m.Role == llm.ToolRole {
				outputs = append(outputs, m.Content)
			}
		}
	}
	return outputs
}
