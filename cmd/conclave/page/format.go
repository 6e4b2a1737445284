package page

import (
	"fmt"
	"html"
	"html/template"
	"regexp"
	"strings"
	"time"

	"conclave/cmd/conclave/progress"
	"conclave/engine/llm"
	"conclave/engine/text"
)

// clean removes characters that could reorder or hide text.
func clean(s string) string { return text.Terminal(s) }

// line is like clean, but returns a single line.
func line(s string) string { return progress.Line(s) }

// brief is like line, but truncates the result to n characters.
func brief(s string, n int) string { return text.TruncateRunes(line(s), n) }

// stamp returns a machine-readable time. The script shows it in the reader's time zone.
func stamp(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s UTC</time>`, t.Format(time.RFC3339Nano), t.Format("2006-01-02 15:04:05")))
}

// seconds formats a short duration with its unit and a long one as a clock.
func seconds(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return progress.Clock(d)
}

// money formats the price of a usage.
func money(u llm.Usage) string {
	switch {
	case u.ModelCalls == 0:
		return "–"
	case u.TotalUSD == nil && u.KnownUSD > 0:
		return fmt.Sprintf("≥ $%.4f", u.KnownUSD)
	case u.TotalUSD == nil:
		return "price unknown"
	case *u.TotalUSD == 0:
		return "$0"
	}
	return fmt.Sprintf("$%.4f", *u.TotalUSD)
}

// tokens formats the tokens of a usage: input, with the cached part, and output.
func tokens(u llm.Usage) string {
	if u.ModelCalls == 0 {
		return "–"
	}
	in := progress.Count(u.InputTokens)
	if u.CachedInputTokens > 0 {
		in += " (" + progress.Count(u.CachedInputTokens) + " cached)"
	}
	return in + " → " + progress.Count(u.OutputTokens)
}

// percent formats a horizontal coordinate as a percentage of the drawing's width.
func percent(share float64) string { return fmt.Sprintf("%.3f%%", 100*min(max(share, 0), 1)) }

// names matches the labels of answers and the names of steps in sentences that the page itself
// writes.
var names = regexp.MustCompile(`\bagent[1-9][0-9]*\.(?:[1-9][0-9]*|final)\b`)

// linked escapes a sentence and links its labels to their answers.
func linked(sentence string) template.HTML {
	escaped := html.EscapeString(clean(sentence))
	return template.HTML(names.ReplaceAllString(escaped, `<a href="#answer-$0">$0</a>`))
}

// join lists words: "a", "a and b", "a, b and c".
func join(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// slug makes an attribute ID of letters, digits, '.', '_' and '-'.
func slug(words ...string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, strings.Join(words, "-"))
}

// cutter truncates long texts.
type cutter struct {
	limit  int // longest text, in bytes
	images int // bytes of images for which there is room

	rendered map[string]template.HTML // Markdown that was rendered before; nil to keep none
}

// markdown renders a text and caches the result.
func (c *cutter) markdown(source string) template.HTML {
	if c.rendered == nil {
		return markdown(source)
	}
	html, known := c.rendered[source]
	if !known {
		html = markdown(source)
		c.rendered[source] = html
	}
	return html
}

// cut is a text, or its beginning with the path of the file that contains all of it.
type cut struct {
	Text string
	More int // bytes left out
	Path string
}

func (c *cutter) cut(s, path string) cut {
	s = clean(s)
	head, _ := text.Head(s, c.limit)
	return cut{Text: head, More: len(s) - len(head), Path: path}
}
