package chat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
)

// keepAlive is the longest silence of a stream. Clients and proxies may take a longer
// silence for a broken connection.
const keepAlive = 8 * time.Second

// piece is the number of bytes of the answer in one event.
const piece = 1 << 10

func newStream(w http.ResponseWriter, model, id string) *stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	s := &stream{out: w, control: http.NewResponseController(w), id: completionID(id), model: model, created: time.Now().Unix()}
	s.sendDelta(delta{Role: "assistant"}, "", nil)
	return s
}

// streamAnswer sends server-sent events: progress as reasoning, then the answer. It returns false if
// the connection broke.
func (h *Handler) streamAnswer(r *http.Request, s *stream, want wish, id string) (received bool) {
	stop := s.keepAlive(keepAlive)
	reply, err := h.desk.Follow(r.Context(), id, want.tools, func(line string) { s.sendDelta(delta{Reasoning: line + "\n"}, "", nil) })
	stop()
	switch {
	case r.Context().Err() != nil:
		return false
	case err != nil:
		refused, kind := refusalOf(err)
		s.write("data: %s\n\n", access.ErrorJSON(kind, refused.Code, refused.Param, refused.Message))
		return s.err == nil
	}
	s.sendReply(reply, want.usageApart)
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

// sendReply sends the answer and the usage. The usage is part of the event with the finish
// reason, or the event after it if the client asked for that.
func (s *stream) sendReply(r gateway.Reply, apart bool) {
	used := usageOf(r.Usage)
	for rest := r.Answer; rest != ""; {
		var part string
		part, rest = cutText(rest, piece)
		s.sendDelta(delta{Content: part}, "", nil)
	}
	finish := finishStop
	if len(r.Calls) > 0 {
		finish = finishCalls
		calls := callsOf(r)
		for i := range calls {
			calls[i].Index = &i
		}
		s.sendDelta(delta{ToolCalls: calls}, "", nil)
	}
	if apart {
		s.sendDelta(delta{}, finish, nil)
		s.sendEvent(chunk{Choices: []chunkChoice{}, Usage: &used})
	} else {
		s.sendDelta(delta{}, finish, &used)
	}
	s.write("data: [DONE]\n\n")
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

func (s *stream) sendDelta(d delta, finish string, used *usage) {
	c := chunkChoice{Delta: d}
	if finish != "" {
		c.FinishReason = &finish
	}
	s.sendEvent(chunk{Choices: []chunkChoice{c}, Usage: used})
}

func (s *stream) sendEvent(c chunk) {
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

// keepAlive sends a comment whenever the stream has been silent for the interval, until stop is called.
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
