package text

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

const (
	ellipsis    = "…"
	replacement = "\uFFFD" // replaces bytes that are not UTF-8
)

// Head returns the longest beginning of s that has at most limit bytes and ends between
// characters. It reports whether that is shorter than s.
func Head(s string, limit int) (string, bool) {
	if len(s) <= limit {
		return s, false
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:max(0, limit)], true
}

// Truncate shortens s to at most limit bytes, including the ellipsis that marks a shortened text.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head, _ := Head(s, max(0, limit-len(ellipsis)))
	return head + ellipsis
}

// Each returns the text of each item, or nil if there are no items.
func Each[T any](items []T, of func(T) string) []string {
	var texts []string
	for _, item := range items {
		texts = append(texts, of(item))
	}
	return texts
}

// HeadRunes returns the first n characters of s as valid UTF-8, because other bytes would not survive JSON.
func HeadRunes(s string, n int) string {
	s = strings.ToValidUTF8(s, replacement)
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// TruncateRunes shortens s to at most n characters, including the ellipsis that marks a shortened text.
func TruncateRunes(s string, n int) string {
	s = strings.ToValidUTF8(s, replacement)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return strings.TrimSpace(HeadRunes(s, max(0, n-1))) + ellipsis
}

// TruncateStart is TruncateRunes for texts whose end distinguishes them, such as paths.
func TruncateStart(s string, n int) string {
	s = strings.ToValidUTF8(s, replacement)
	more := utf8.RuneCountInString(s) - n
	if more <= 0 {
		return s
	}
	return ellipsis + s[len(HeadRunes(s, more+1)):]
}

// OneLine collapses every run of white space in s to one space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// thoughts matches a block of reasoning at the beginning of a model's text.
var thoughts = regexp.MustCompile(`(?s)^\s*<think>.*?</think>\s*`)

// WithoutThoughts removes a block of reasoning from the beginning of a model's text.
func WithoutThoughts(s string) string { return thoughts.ReplaceAllString(s, "") }

// Sanitize returns s as valid UTF-8 with Unix line ends and without control
// characters except newline and tab.
func Sanitize(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, replacement), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// Terminal returns s without escape sequences, control characters except newline and
// tab, and marks that reorder text.
func Terminal(s string) string {
	s = Sanitize(ansi.Strip(strings.ToValidUTF8(s, replacement)))
	return strings.Map(func(r rune) rune {
		// An embedding, override or isolate can show a text in another order than it is written in.
		if '\u202A' <= r && r <= '\u202E' || '\u2066' <= r && r <= '\u2069' {
			return -1
		}
		return r
	}, s)
}

// EscapeHidden returns JSON in which characters that are not seen, such as controls and marks that reorder text,
// are escaped. Its values are the same.
func EscapeHidden(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsPrint(r) || r == '\n' || r == '\t':
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Markdown returns s on one line without control characters. It escapes the characters that
// would start a table, a link or an emphasis.
func Markdown(s string) string {
	var b strings.Builder
	for _, r := range OneLine(s) {
		switch {
		case unicode.IsControl(r):
			continue
		case strings.ContainsRune("\\`*_<>|[]#~", r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Within prepares s for a place between delimiter lines: it sanitizes and trims s and
// replaces all delimiters in it.
func Within(s string, delimiters ...string) string {
	return strings.TrimSpace(Conceal(Sanitize(s), delimiters...))
}

// Conceal replaces all delimiters in s, one after the other, and ignores empty ones. The
// replacement shares no character with a delimiter, so it cannot complete one.
func Conceal(s string, delimiters ...string) string {
	for _, delimiter := range delimiters {
		if delimiter != "" {
			s = strings.ReplaceAll(s, delimiter, "[...]")
		}
	}
	return s
}

// Tail returns the longest end of s that has at most limit bytes and begins between
// characters.
func Tail(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	at := len(s) - limit
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return s[at:]
}

// Size formats a number of bytes in units of 1024.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	}
}

// Share returns the length to which each text must be cut so that texts of these sizes fit
// into total. Long texts get the room that short ones leave.
func Share(sizes []int, total int) int {
	limit := 0
	for i, size := range slices.Sorted(slices.Values(sizes)) {
		if limit = max(0, total) / (len(sizes) - i); size > limit {
			return limit
		}
		total -= size
	}
	return limit
}
