package step_test

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// watched is a store that finishes the journal's objects only when release says so, and notes
// which objects it has.
type watched struct {
	artifact.Store
	release func(ctx context.Context, object string) error // before an object of the journal

	mu  sync.Mutex
	has []string
}

func (w *watched) Create(ctx context.Context, key string, body []byte) error {
	name := path.Base(key)
	if strings.Contains(key, "journal/") {
		if err := w.release(ctx, name); err != nil {
			return err
		}
	}
	err := w.Store.Create(ctx, key, body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.has = append(w.has, name)
	return err
}

func (w *watched) objects() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.has...)
}

// looking calls a function whenever a tool runs.
type looking struct {
	opened step.Tools
	look   func()
}

func (l looking) Tools() []llm.Tool { return l.opened.Tools() }

func (l looking) Close() error { return l.opened.Close() }

func (l looking) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	l.look()
	return l.opened.Run(ctx, call)
}

// A reply is in the journal before a tool or the model is called. The last one is in the transcript before the
// commit, and in no object of the journal.
func TestJournal_beforeCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	w := &watched{Store: b.store, release: func(context.Context, string) error { return nil }}
	var before []string
	b.open = func(ctx context.Context, dir string) (step.Tools, error) {
		opened, err := tools.Open(ctx, dir, tools.Set{Files: true})
		return looking{opened, func() { before = w.objects() }}, err
	}
	ports := b.ports(read("missing"), done("Two."))
	ports.Store = w
	_, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.Equal(t, []string{"step.json", "000001.json"}, before)
	require.Equal(t, []string{"step.json", "000001.json", "000002.json", "transcript.jsonl", "action.json"}, w.objects()[:5])
}

// A reply whose action is withdrawn by a text is in the journal before the model is called again.
func TestJournal_beforeTheNextCall(t *testing.T) {
	t.Parallel()
	r := &rules{}
	r.confirm = func(context.Context) (loop.Update, error) {
		if r.confirm = nil; true {
			return loop.Update{Messages: []llm.Message{{Role: llm.User, Content: "There is news."}}}, nil
		}
		return loop.Update{}, nil
	}
	b := newBench(t, r)
	full := errors.New("the disk is full")
	w := &watched{Store: b.store, release: func(context.Context, string) error { return full }}
	model := &script{bench: b, replies: []llm.Message{done("One."), done("Two.")}}
	ports := b.ports()
	ports.Store, ports.Model = w, model
	_, err := step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, full)
	require.Equal(t, 1, model.requests)
}

// A reply that cannot be written ends the attempt before its tool runs.
func TestJournal_failsBeforeATool(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	full := errors.New("the disk is full")
	w := &watched{Store: b.store, release: func(context.Context, string) error { return full }}
	b.open = func(ctx context.Context, dir string) (step.Tools, error) {
		opened, err := tools.Open(ctx, dir, tools.Set{Files: true})
		return looking{opened, func() { require.Fail(t, "a tool runs") }}, err
	}
	ports := b.ports(read("missing"))
	ports.Store = w
	_, err := step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, full)
}

// wasteful is a model whose replies cost money and cannot be used.
type wasteful struct{}

func (wasteful) Generate(context.Context, llm.Request) (llm.Reply, error) {
	return llm.Reply{Usage: llm.Usage{ModelCalls: 1}}, &llm.Error{Kind: llm.BadReply, Message: "no JSON"}
}

// A record of a wasted reply is never reported as that of another entry, which would count as
// progress.
func TestJournal_reportsWaste(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	ports := b.ports()
	ports.Model = wasteful{}
	var kept []loop.EntryKind
	ports.Progress = func(p step.Progress) {
		if p.Kept > 0 {
			kept = append(kept, p.Last)
		}
	}
	_, err := step.Run(t.Context(), ports, b.spec)
	require.Error(t, err)
	require.NotEmpty(t, kept)
	for _, kind := range kept {
		require.Equal(t, loop.Wasted, kind)
	}
}
