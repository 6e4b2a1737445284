package openai

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"conclave/engine/llm"
)

// messageStream is the content of a streamed reply so far.
type messageStream struct {
	blocks []*messageBlock
	usage  messageUsage
	reason string // why it stopped; empty before
	size   int    // bytes of its texts
	most   int    // limit of size; 0 for none

	started bool
	done    bool
	problem []byte // an error in place of an event
}

// messageEvent is an event of a stream, or the whole reply.
type messageEvent struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Usage messageUsage `json:"usage"`
	} `json:"message"`
	ContentBlock *messageBlock `json:"content_block"`
	Delta        struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage messageUsage `json:"usage"`

	Content    []*messageBlock `json:"content"`
	StopReason string          `json:"stop_reason"`
}

// readMessage reads the body of a successful response in the form of Messages.
func (c *Client) readMessage(header http.Header, r *bufio.Reader, streamed bool, most int, w *watchdog, said func(string)) (llm.Reply, error) {
	s := &messageStream{most: most}
	if !streamed {
		whole, err := io.ReadAll(r)
		if err != nil {
			return llm.Reply{Usage: llm.Usage{ModelCalls: 1}}, err
		}
		if !s.addEvent(event{data: string(whole)}) {
			return llm.Reply{}, c.unusableError("the response is not JSON: "+c.cleanExcerpt(string(whole)), nil)
		}
		return c.endMessage(header, s)
	}
	tell := teller{tell: said}
	for e, err := range readEvents(r) {
		switch {
		case err != nil && s.reason == "":
			return llm.Reply{Usage: s.spent()}, err
		case err != nil: // the reply is complete, only the end of the stream is missing
			s.done = true
		case !s.addEvent(e):
			return llm.Reply{Usage: s.spent()}, c.unusableError("the response has an event that is not JSON: "+c.cleanExcerpt(e.data), nil)
		}
		if s.done || s.problem != nil || s.isOverlong() {
			break
		}
		w.noteEvent(s.idleLimit())
		if now := time.Now(); tell.tell != nil && len(s.blocks) > 0 && !now.Before(tell.next) {
			tell.next = now.Add(saidInterval)
			tell.tell(s.saidText())
		}
	}
	return c.endMessage(header, s)
}

// endMessage returns the reply, or the error of one that is no answer.
func (c *Client) endMessage(header http.Header, s *messageStream) (llm.Reply, error) {
	reply := llm.Reply{Usage: s.spent()}
	if s.problem != nil {
		return reply, c.refusedError(http.StatusOK, header, s.problem)
	}
	if s.isOverlong() {
		return reply, c.overlongError(s.most)
	}
	var err error
	if reply.Message, err = c.assembleMessage(s.blocks); err != nil {
		return reply, err
	}
	return reply, c.checkStop(s.reason, reply.Message)
}

// addEvent adds an event to the reply. It returns false for one that is not JSON.
func (s *messageStream) addEvent(e event) bool {
	var m messageEvent
	if json.Unmarshal([]byte(e.data), &m) != nil {
		return false
	}
	s.started = true
	switch m.Type {
	case "error":
		s.problem = []byte(e.data)
	case "message": // the whole reply
		s.blocks, s.reason, s.done = m.Content, m.StopReason, true
		for _, b := range m.Content {
			s.size += len(b.Text) + len(b.Thinking) + len(b.Input)
		}
	case "message_start":
		s.usage = s.usage.later(m.Message.Usage)
	case "content_block_start":
		if m.ContentBlock != nil {
			s.blocks = append(s.blocks, m.ContentBlock)
		}
	case "content_block_delta":
		s.addDelta(m)
	case "message_delta":
		s.reason = m.Delta.StopReason
	case "message_stop":
		s.done = true
	case "": // another service's error
		if strings.Contains(e.data, `"error"`) {
			s.problem = []byte(e.data)
		}
	}
	s.usage = s.usage.later(m.Usage)
	return true
}

func (s *messageStream) addDelta(m messageEvent) {
	if m.Index < 0 || m.Index >= len(s.blocks) {
		return
	}
	b, d := s.blocks[m.Index], m.Delta
	b.Text += d.Text
	b.Thinking += d.Thinking
	b.Signature += d.Signature
	b.written.WriteString(d.PartialJSON)
	s.size += len(d.Text) + len(d.Thinking) + len(d.PartialJSON)
}

func (s *messageStream) isOverlong() bool { return s.most > 0 && s.size > s.most }

func (s *messageStream) spent() llm.Usage {
	if !s.started || s.problem != nil && s.usage == (messageUsage{}) {
		return llm.Usage{}
	}
	return s.usage.spent()
}

// idleLimit returns the time limit for the next byte, or 0 if only silentTimeout applies.
func (s *messageStream) idleLimit() time.Duration {
	switch {
	case s.reason != "":
		return closingTimeout
	case s.size > 0:
		return idleTimeout
	}
	return 0
}

// saidText returns the text of the reply so far: its content, or its thoughts if there is no content yet, and the names
// and arguments of its tool calls.
func (s *messageStream) saidText() string {
	var said, thoughts string
	for _, b := range s.blocks {
		said += b.Text
		thoughts += b.Thinking
		if b.Name != "" {
			said = strings.TrimSpace(said + "\n\n" + b.Name + " " + lineEnds.Replace(b.written.String()))
		}
	}
	if said == "" {
		return thoughts
	}
	return said
}
