package step_test

import (
	"context"
	"errors"
	"path"
	"slices"
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

// The transcript is stored while the last reply is written to the journal; the commit and tools
// wait for the journal.
func TestJournal_overlaps(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	w := &watched{Store: b.store}
	w.release = func(ctx context.Context, object string) error {
		if object != "000003.json" { // the reply without calls
			return nil
		}
		for !slices.Contains(w.objects(), "transcript.jsonl") {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		return nil
	}
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
	require.Equal(t, []string{"step.json", "000001.json", "000002.json", "transcript.jsonl", "000003.json", "action.json"}, w.objects()[:6])
}

// A reply that cannot be written ends the attempt before anything is committed.
func TestJournal_failsLate(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	full := errors.New("the disk is full")
	w := &watched{Store: b.store, release: func(context.Context, string) error { return full }}
	ports := b.ports(done("Two."))
	ports.Store = w
	_, err := step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, full)
	require.NotContains(t, w.objects(), "action.json")
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
