package openai

import (
	"encoding/json"
	"strings"
	"time"
)

// saidInterval is the time between two reports of an unfinished reply.
const saidInterval = time.Second

// teller reports the text of an unfinished reply. The zero teller reports nothing.
type teller struct {
	tell func(text string)
	next time.Time
}

// hear reports the text of the stream if a report is due.
func (t *teller) hear(s *stream, now time.Time) {
	if t.tell == nil || now.Before(t.next) || !s.hasContent {
		return
	}
	t.next = now.Add(saidInterval)
	t.tell(s.said())
}

// lineEnds unescapes line ends, tabs, quotes and backslashes in arguments, which are JSON.
var lineEnds = strings.NewReplacer(`\n`, "\n", `\"`, `"`, `\t`, "\t", `\\`, `\`)

// said returns the text of the reply so far: its content, or its thoughts if there is no content
// yet, and the names and arguments of its tool calls.
func (s *stream) said() string {
	said := s.field("content")
	if said == "" && len(s.calls) == 0 {
		said = s.field("reasoning_content") + s.field("reasoning")
	}
	for _, c := range s.calls {
		said = strings.TrimSpace(said + "\n\n" + c.Function.Name + " " + lineEnds.Replace(c.arguments()))
	}
	return said
}

// field returns a field of the message if it is a string, or "".
func (s *stream) field(name string) string {
	var text string
	_ = json.Unmarshal(s.choice.Message[name], &text)
	return text
}
