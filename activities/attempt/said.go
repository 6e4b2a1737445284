package attempt

import (
	"strings"
	"unicode"

	"conclave/engine/text"
)

// maxSaid bounds the part of an unfinished reply in a heartbeat, in bytes.
const maxSaid = 3 << 10

// heard puts the end of an unfinished reply into the heartbeats.
func (a *Attempt) heard(reply string) {
	said := lastWords(reply, a.process.Redact)
	a.heart.update(func(d *details) {
		if h := a.heart; h.call != nil {
			d.Said = said
		}
	})
}

// lastWords returns the redacted end of an unfinished text. It omits the last word, which may be
// the beginning of a secret.
func lastWords(reply string, redact func([]byte) []byte) string {
	whole := strings.LastIndexFunc(reply, unicode.IsSpace) + 1
	said := []byte(reply[:whole])
	if redact != nil {
		said = redact(said)
	}
	if over := len(said) - maxSaid; over > 0 {
		said = said[over:]
	}
	return text.Terminal(strings.ToValidUTF8(string(said), ""))
}
