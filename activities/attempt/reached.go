package attempt

import (
	"context"
	"errors"
	"net/url"
	"sync"

	"conclave/engine/artifact"
	"conclave/engine/config"
)

// server returns the identity of a model's server within a run, or "" if it has none.
func server(b config.Backend) string {
	if b.Type == config.Offline {
		return ""
	}
	if b.Provider != "" {
		return b.Provider
	}
	if base, err := url.Parse(b.BaseURL); err == nil && base.Host != "" {
		return base.Host
	}
	if t := b.Known(); t.Name != config.OpenAI {
		return t.Name
	}
	return "default"
}

// reachedKey is the key of the mark that the model's server has replied in this run.
func (a *Attempt) reachedKey() (string, error) {
	name, err := artifact.EscapePath(a.server)
	return a.Spec.Layout.File("reached/" + name), err
}

// reached reports whether the model's server has replied in this run. If the store fails, it
// assumes so.
func (a *Attempt) reached(ctx context.Context) bool {
	if a.replied || a.server == "" || a.Spec.Dir == nil {
		return true
	}
	key, err := a.reachedKey()
	if err != nil {
		return true
	}
	there, err := a.process.Store.Exists(ctx, key)
	a.replied = there || err != nil
	return a.replied
}

// markReached marks the model's server as reached. If it fails, the next step writes the mark.
func (a *Attempt) markReached(ctx context.Context) {
	if a.replied || a.server == "" {
		return
	}
	a.replied = true
	key, err := a.reachedKey()
	if err == nil && a.process.Marks.add(key) {
		err = a.process.Store.Create(ctx, key, []byte("{}\n"))
		if err != nil && !errors.Is(err, artifact.ErrExists) {
			a.process.Marks.remove(key)
		}
	}
}

// Marks remembers the keys of marks that this process has written. A nil Marks remembers nothing.
type Marks struct {
	mu   sync.Mutex
	keys map[string]bool
}

// maxMarks bounds the number of keys; a forgotten mark is written again.
const maxMarks = 10_000

// add remembers a key and reports whether it is new.
func (m *Marks) add(key string) bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys[key] {
		return false
	}
	if m.keys == nil || len(m.keys) == maxMarks {
		m.keys = map[string]bool{}
	}
	m.keys[key] = true
	return true
}

func (m *Marks) remove(key string) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.keys, key)
	}
}
