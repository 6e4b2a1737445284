package team

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxShown bounds the text of all answers in a prompt, in bytes: about 30,000
// tokens. Of a small context window answers get a share only.
const MaxShown = 120 << 10

// MinShown is how much is shown of an answer in any case, in bytes, where the
// window is not small: a text that is no longer is never cut. MaxShown has as much
// for every agent there can be, and so has the share of a small window in proportion.
const MinShown = 4 << 10

// mostShown is MaxShown for a model with a context window of so many tokens: no
// more than a quarter of it, at three bytes a token. 0 is a window that is not known.
func mostShown(window int) int {
	const part, bytesPerToken = 4, 3
	if window <= 0 || window >= MaxShown*part/bytesPerToken {
		return MaxShown
	}
	return window * bytesPerToken / part
}

// leastShown is MinShown for a model with such a window.
func leastShown(window int) int { return mostShown(window) / (MaxShown / MinShown) }

// shown is an answer as the templates frame it.
type shown struct {
	Label string
	Agent string
	Text  string
	Files int // 0 when the step has no file tools
	Kept  bool
	Cut   int // bytes shown of a text that is cut, else 0
	Bytes int
}

// frameAnswers makes answers ready to be put between delimiter lines. All texts
// together have at most total bytes.
func frameAnswers(answers []Answer, frame string, files bool, total int) []shown {
	framed := make([]shown, 0, len(answers))
	sizes := make([]int, 0, len(answers))
	for _, a := range answers {
		text := plain(a.Text, frame)
		s := shown{Label: a.Label, Agent: a.agent(), Text: text, Bytes: len(text)}
		if files {
			s.Files, s.Kept = a.Files, a.Kept
		}
		framed = append(framed, s)
		sizes = append(sizes, len(text))
	}
	limit := share(sizes, total)
	for i := range framed {
		if s := &framed[i]; s.Bytes > limit {
			s.Text = cut(s.Text, limit)
			s.Cut = len(s.Text)
		}
	}
	return framed
}

// plain drops control characters and makes the delimiter impossible inside
// text. The replacement has no character that a delimiter may have, so it
// cannot complete another one.
func plain(text, frame string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
	if frame != "" {
		text = strings.ReplaceAll(text, frame, "[...]")
	}
	return strings.TrimSpace(text)
}

// share returns the size up to which each text may be shown so that all of them
// fit into total. What short texts leave over goes to the long ones.
func share(sizes []int, total int) int {
	sizes = slices.Sorted(slices.Values(sizes))
	for i, size := range sizes {
		level := total / (len(sizes) - i)
		if size > level {
			return level
		}
		total -= size
	}
	return math.MaxInt
}

// cut shortens text to at most limit bytes, between characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
