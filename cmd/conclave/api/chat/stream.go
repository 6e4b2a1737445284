package chat

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"conclave/cmd/conclave/api/gateway"
)

// keepAlive is the longest silence of a stream. Clients and proxies may take a longer
// silence for a broken connection.
const keepAlive = 8 * time.Second

// replyStream is the stream of one reply, in one of the protocols. It has begun.
type replyStream interface {
	tell(line string) // an event of the session
	finish(r reply)
	fail(refused *gateway.Refusal, kind string)

	keepAlive(interval time.Duration) (stop func())
	broken() bool
}

// streamAnswer sends server-sent events: progress as reasoning, then the answer. It returns false if
// the connection broke.
func (h *Handler) streamAnswer(r *http.Request, s replyStream, want wish, id string) (received bool) {
	stop := s.keepAlive(keepAlive)
	answered, err := h.desk.Follow(r.Context(), id, want.hasTools, func(line string) {
		if page := h.page(r, id); page != "" && strings.HasPrefix(line, gateway.PersonAsked) {
			line += ". Answer at " + page
		}
		s.tell(line)
	})
	stop()
	switch {
	case r.Context().Err() != nil:
		return false
	case err != nil:
		s.fail(refusalOf(err))
		return !s.broken()
	}
	s.finish(newReply(want, answered))
	return !s.broken() && r.Context().Err() == nil
}

// events writes server-sent events. A timer sends those that keep the connection alive from
// another goroutine.
type events struct {
	beat func() // writes an event that says nothing new; the lock is held

	mu      sync.Mutex
	out     http.ResponseWriter
	control *http.ResponseController
	err     error         // the connection broke
	silence time.Duration // time after which timer fires
	timer   *time.Timer   // nil unless the stream is kept alive
}

func newEvents(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	return &events{out: w, control: http.NewResponseController(w)}
}

func (s *events) broken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// cutPieces returns the parts of an answer that are sent in one event each.
func cutPieces(text string) iter.Seq[string] {
	const piece = 1 << 10 // bytes
	return func(yield func(string) bool) {
		for text != "" {
			var part string
			if part, text = cutText(text, piece); !yield(part) {
				return
			}
		}
	}
}

func cutText(text string, size int) (head, rest string) {
	if len(text) <= size {
		return text, ""
	}
	for size > 1 && text[size]&0xc0 == 0x80 {
		size--
	}
	return text[:size], text[size:]
}

// send writes an event that build makes. A protocol without names of events gives none.
func (s *events) send(name string, build func() any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendLocked(name, build())
}

func (s *events) sendLocked(name string, event any) {
	data, err := json.Marshal(event)
	if err != nil {
		s.err = err
		return
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	s.writeLocked("%sdata: %s\n\n", name, data)
}

func (s *events) write(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeLocked(format, args...)
}

func (s *events) writeLocked(format string, args ...any) {
	if s.err != nil {
		return
	}
	if _, s.err = fmt.Fprintf(s.out, format, args...); s.err == nil {
		s.err = s.control.Flush()
	}
	if s.timer != nil && s.err == nil {
		s.timer.Reset(s.silence)
	}
}

// keepAlive calls beat whenever the stream has been silent for the interval, until stop is called.
func (s *events) keepAlive(interval time.Duration) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silence = interval
	s.timer = time.AfterFunc(interval, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timer != nil {
			s.beat()
		}
	})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.timer.Stop()
		s.timer = nil
	}
}
