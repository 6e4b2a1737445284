package progress

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"conclave/engine/llm"
)

// Plain is text without anything that a terminal obeys: escape sequences,
// control characters except newline and tab, and marks that reorder text.
func Plain(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), reorders(r):
			return -1
		}
		return r
	}, ansi.Strip(text))
}

// reorders reports the bidirectional embeddings, overrides and isolates, with
// which a text can show itself in another order than it is written in.
func reorders(r rune) bool {
	return '\u202A' <= r && r <= '\u202E' || '\u2066' <= r && r <= '\u2069'
}

// Line is Plain text on one line, white space collapsed.
func Line(text string) string { return strings.Join(strings.Fields(Plain(text)), " ") }

// Cut shortens text to at most limit bytes, whole characters and an ellipsis.
func Cut(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	n := max(0, limit-len(ellipsis))
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + ellipsis
}

// Cost is a usage in words: tokens, and money if its price is known.
func Cost(u llm.Usage) string {
	tokens := Count(u.InputTokens+u.OutputTokens) + " tokens"
	switch {
	case u.ModelCalls == 0:
		return "no tokens yet"
	case u.TotalUSD == nil && u.KnownUSD > 0:
		return tokens + fmt.Sprintf(", at least $%.4f", u.KnownUSD)
	case u.TotalUSD == nil:
		return tokens + ", cost unknown"
	case *u.TotalUSD == 0:
		return tokens + ", no cost"
	default:
		return tokens + fmt.Sprintf(", $%.4f", *u.TotalUSD)
	}
}

// Plural is a count of things whose name takes an s.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Count is a number in at most five characters.
func Count(n int64) string {
	switch {
	case n < 1_000:
		return fmt.Sprint(n)
	case n < 100_000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1e3)
	default:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
}

// Clock is a duration as minutes and seconds, or hours, minutes and seconds.
func Clock(d time.Duration) string {
	s := int(max(d, 0) / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}
