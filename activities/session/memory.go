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
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
)

// memory caches documents of sessions that never change, by workflow run and key, so that a process
// reads each of them only once. A new session with the ID of a deleted one has another run.
type memory struct {
	mu   sync.Mutex
	docs map[string][]byte
	size int // bytes of docs
}

// maxMemory bounds the cache of a process, and maxRemembered a single document in it, in bytes.
const (
	maxMemory     = 16 << 20
	maxRemembered = 256 << 10
)

// rememberingStore returns the store with the cache in front. Documents are cached when they are read or created.
func (m *memory) rememberingStore(ctx context.Context, store artifact.Store) artifact.Store {
	return &remembering{Store: store, memory: m, run: activity.GetInfo(ctx).WorkflowExecution.RunID}
}

// appendEvents appends events to events.jsonl and caches its content. If another process has
// appended events since, the file still contains them; cached events from the first new one on are
// replaced.
func (m *memory) appendEvents(ctx context.Context, store artifact.Store, layout artifact.Layout, events []coordination.Entry) error {
	key := activity.GetInfo(ctx).WorkflowExecution.RunID + layout.File("events.jsonl")
	known, _ := m.get(key)
	written, err := activities.AppendEvents(ctx, store, layout, known, events, func(e coordination.Entry) int { return e.Seq })
	if err == nil {
		m.keep(key, written)
	}
	return err
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

// remembering is a Store with the documents of one workflow run in front.
type remembering struct {
	artifact.Store
	memory *memory
	run    string
}

// writtenOnce reports whether a document of a session never changes once it exists. Documents
// written at the end of a session change when it is reopened.
func writtenOnce(key string) bool {
	if strings.Contains(key, "/final/") {
		return false
	}
	switch path.Base(key) {
	case "session.json", "config.json", activities.ShellFile, criteriaFile, session.HistoryFile, session.PersonasFile, session.SubtasksFile, "action.json", "answer.json":
		return true
	}
	return false
}

func (r *remembering) Get(ctx context.Context, key string) ([]byte, error) {
	if doc, ok := r.memory.get(r.run + key); ok && writtenOnce(key) {
		return bytes.Clone(doc), nil
	}
	doc, err := r.Store.Get(ctx, key)
	if err == nil && writtenOnce(key) {
		r.memory.keep(r.run+key, doc)
	}
	return doc, err
}

func (r *remembering) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	if !writtenOnce(key) {
		return r.Store.Open(ctx, key)
	}
	doc, err := r.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(doc)), nil
}

func (r *remembering) Create(ctx context.Context, key string, body []byte) error {
	err := r.Store.Create(ctx, key, body)
	if err == nil && writtenOnce(key) {
		r.memory.keep(r.run+key, body)
	}
	return err
}
