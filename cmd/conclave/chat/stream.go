package chat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/desk"
)

// keepAlive is the longest silence of a stream. Clients and proxies may take a longer
// silence for a broken connection.
const keepAlive = 8 * time.Second

// piece is the number of bytes of the answer in one event.
const piece = 1 << 10

// newStream begins the stream of a session's reply.
func newStream(w http.ResponseWriter, model, id string) *stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	s := &stream{out: w, control: http.NewResponseController(w), id: completionID(id), model: model, created: time.Now().Unix()}
	s.send(delta{Role: "assistant"}, "", nil)
	return s
}

// stream sends server-sent events: progress as reasoning, then the answer. It returns false if
// the connection broke.
func (h *Handler) stream(r *http.Request, s *stream, want wish, id string) (received bool) {
	stop := s.keepAlive(keepAlive)
	reply, err := h.desk.Follow(r.Context(), id, want.tools, func(line string) { s.send(delta{Reasoning: line + "\n"}, "", nil) })
	stop()
	switch {
	case r.Context().Err() != nil:
		return false
	case err != nil:
		refused, kind := refusalOf(err)
		s.write("data: %s\n\n", access.ErrorJSON(kind, refused.Code, refused.Param, refused.Message))
		return s.err == nil
	}
	s.reply(reply, want.usageApart)
	return s.err == nil && r.Context().Err() == nil
}

// stream is the stream of one reply. Timers send its keep-alives from other goroutines.
type stream struct {
	id, model string
	created   int64

	mu      sync.Mutex
	out     http.ResponseWriter
	control *http.ResponseController
	err     error         // the connection broke
	silence time.Duration // time after which timer fires
	timer   *time.Timer   // nil unless the stream is kept alive
}

// reply sends the answer and the usage. The usage is part of the event with the finish
// reason, or the event after it if the client asked for that.
func (s *stream) reply(r desk.Reply, apart bool) {
	used := usageOf(r.Usage)
	for rest := r.Answer; rest != ""; {
		var part string
		part, rest = cut(rest, piece)
		s.send(delta{Content: part}, "", nil)
	}
	finish := finishStop
	if len(r.Calls) > 0 {
		finish = finishCalls
		calls := callsOf(r)
		for i := range calls {
			calls[i].Index = &i
		}
		s.send(delta{ToolCalls: calls}, "", nil)
	}
	if apart {
		s.send(delta{}, finish, nil)
		s.event(chunk{Choices: []chunkChoice{}, Usage: &used})
	} else {
		s.send(delta{}, finish, &used)
	}
	s.write("data: [DONE]\n\n")
}

// cut splits a text after at most size bytes, between two characters.
func cut(text string, size int) (head, rest string) {
	if len(text) <= size {
		return text, ""
	}
	for size > 1 && text[size]&0xc0 == 0x80 {
		size--
	}
	return text[:size], text[size:]
}

func (s *stream) send(d delta, finish string, used *usage) {
	c := chunkChoice{Delta: d}
	if finish != "" {
		c.FinishReason = &finish
	}
	s.event(chunk{Choices: []chunkChoice{c}, Usage: used})
}

func (s *stream) event(c chunk) {
	c.ID, c.Object, c.Created, c.Model = s.id, "chat.completion.chunk", s.created, s.model
	data, err := json.Marshal(c)
	if err != nil {
		s.err = err
		return
	}
	s.write("data: %s\n\n", data)
}

func (s *stream) write(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeLocked(format, args...)
}

func (s *stream) writeLocked(format string, args ...any) {
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

// keepAlive sends a comment whenever the stream has been silent for the interval, until stop
// is called.
func (s *stream) keepAlive(interval time.Duration) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silence = interval
	s.timer = time.AfterFunc(interval, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timer != nil {
			s.writeLocked(": the session goes on\n\n")
		}
	})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.timer.Stop()
		s.timer = nil
	}
}
