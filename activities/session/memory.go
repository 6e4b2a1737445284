package session

import (
	"bytes"
	"context"
	"io"
	"path"
	"strings"
	"sync"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/team"
)

// maxMemories is the number of workflow runs whose documents a process caches.
const maxMemories = 64

// memories caches documents of this process's workflow runs, by run ID.
type memories struct {
	mu   sync.Mutex
	runs map[string]*memory
}

// over returns the store with the cache of the activity's workflow run in front.
func (m *memories) over(ctx context.Context, store artifact.Store) artifact.Store {
	return m.of(ctx).over(store, writtenOnce)
}

// of returns the cache of the activity's workflow run.
func (m *memories) of(ctx context.Context) *memory {
	run := activity.GetInfo(ctx).WorkflowExecution.RunID
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.runs[run]
	if kept == nil {
		if m.runs == nil || len(m.runs) >= maxMemories {
			m.runs = map[string]*memory{}
		}
		kept = &memory{}
		m.runs[run] = kept
	}
	return kept
}

// appendEvents appends events to events.jsonl and caches its content. If another process has
// appended events since, the file still contains them; cached events from the first new one on are
// replaced.
func (m *memories) appendEvents(ctx context.Context, store artifact.Store, layout artifact.Layout, events []coordination.Entry) error {
	kept, key := m.of(ctx), layout.File("events.jsonl")
	known, _ := kept.get(key)
	written, err := activities.AppendEvents(ctx, store, layout, known, events, func(e coordination.Entry) int { return e.Seq })
	if err == nil {
		kept.keep(key, written)
	}
	return err
}

// end drops the cache of the activity's workflow run.
func (m *memories) end(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.runs, activity.GetInfo(ctx).WorkflowExecution.RunID)
}

// writtenOnce reports whether a document of a session never changes once it exists. Documents
// written at the end of a session change when it is reopened.
func writtenOnce(key string) bool {
	if strings.Contains(key, "/final/") {
		return false
	}
	switch path.Base(key) {
	case "session.json", "config.json", criteriaFile, team.HistoryFile, team.PersonasFile, team.SubtasksFile, "action.json", "answer.json":
		return true
	}
	return false
}

// memory caches immutable documents of one workflow run, so that a process reads each of them only
// once. A new session with the ID of a deleted one has another run.
type memory struct {
	mu   sync.Mutex
	docs map[string][]byte
	size int // bytes of docs
}

// maxMemory bounds a cache, and maxRemembered a single document in it, in bytes.
const (
	maxMemory     = 8 << 20
	maxRemembered = 256 << 10
)

// over returns store with the cache in front. Documents are cached when they are read or created;
// once reports whether the document with a key never changes.
func (m *memory) over(store artifact.Store, once func(key string) bool) artifact.Store {
	return &remembering{Store: store, memory: m, once: once}
}

func (m *memory) get(key string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	doc, ok := m.docs[key]
	return doc, ok
}

func (m *memory) keep(key string, doc []byte) {
	if len(doc) > maxRemembered {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size += len(doc) - len(m.docs[key]); m.docs == nil || m.size > maxMemory {
		m.docs, m.size = map[string][]byte{}, len(doc)
	}
	m.docs[key] = bytes.Clone(doc)
}

// remembering is a Store with a cache in front.
type remembering struct {
	artifact.Store
	memory *memory
	once   func(key string) bool
}

// Get implements Store.
func (r *remembering) Get(ctx context.Context, key string) ([]byte, error) {
	if !r.once(key) {
		return r.Store.Get(ctx, key)
	}
	if doc, ok := r.memory.get(key); ok {
		return bytes.Clone(doc), nil
	}
	doc, err := r.Store.Get(ctx, key)
	if err == nil {
		r.memory.keep(key, doc)
	}
	return doc, err
}

// Open implements Store.
func (r *remembering) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	if !r.once(key) {
		return r.Store.Open(ctx, key)
	}
	doc, err := r.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(doc)), nil
}

// Create implements Store.
func (r *remembering) Create(ctx context.Context, key string, body []byte) error {
	err := r.Store.Create(ctx, key, body)
	if err == nil && r.once(key) {
		r.memory.keep(key, body)
	}
	return err
}
