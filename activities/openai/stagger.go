package openai

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"conclave/engine/llm"
)

// longestStagger bounds the wait of a request for the first reply to an equal beginning.
const longestStagger = 2 * time.Second

// Stagger makes the first requests of steps with equal beginnings wait until the reply to the first of them has begun,
// because only then a service's cache has that beginning. Clients share it. The zero value is ready for use.
type Stagger struct {
	mu   sync.Mutex
	open map[[sha256.Size]byte]chan struct{} // closed when the reply has begun
}

// enter waits for a request with an equal beginning that is on its way. The first of them calls begun once its reply
// begins, or it ends without one.
func (s *Stagger) enter(ctx context.Context, of server, req llm.Request) (begun func()) {
	if s == nil || slices.ContainsFunc(req.Messages, func(m llm.Message) bool { return m.Role == llm.Assistant }) {
		return func() {}
	}
	beginning := slices.Clone(req.Messages[:min(len(req.Messages), sharedMessages)])
	for i, m := range beginning {
		if m.Shared > 0 {
			beginning[i] = llm.Message{Role: m.Role, Content: m.Content[:min(m.Shared, len(m.Content))]}
		}
	}
	data, _ := json.Marshal([]any{of.url, of.model, req.Tools, beginning}) // these are texts and JSON
	key := sha256.Sum256(data)
	s.mu.Lock()
	if first, waits := s.open[key]; waits {
		s.mu.Unlock()
		timer := time.NewTimer(longestStagger)
		defer timer.Stop()
		select {
		case <-first:
		case <-timer.C:
		case <-ctx.Done():
		}
		return func() {}
	}
	first := make(chan struct{})
	if s.open == nil {
		s.open = map[[sha256.Size]byte]chan struct{}{}
	}
	s.open[key] = first
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, key)
		close(first)
	})
}

// sharedMessages is the number of messages at the beginning of a conversation that the agents of a wave share: the
// system message and the first turn.
const sharedMessages = 2
