package mcp

import (
	"strings"
	"sync"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

const (
	maxTail  = 8 << 10 // bytes kept of what a server writes beside the protocol
	maxShown = 2 << 10 // bytes of it, or of any foreign message, shown in an error
)

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[max(0, len(p)-maxTail):]...)
	if over := len(t.kept) - maxTail; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// String is the end of what was written, fit to be shown.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := plain(string(t.kept))
	if len(text) > maxShown {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxShown:], "")
	}
	return text
}

// plain is foreign text without what a terminal would obey.
func plain(text string) string {
	text = ansi.Strip(strings.ToValidUTF8(text, "\uFFFD"))
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
}
