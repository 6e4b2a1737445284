package progress

import (
	"fmt"
	"time"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// Line returns s on one line, without control sequences.
func Line(s string) string { return text.OneLine(text.Terminal(s)) }

// Cost describes a usage: tokens, and money if the price is known.
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

// Plural returns a count with its noun, such as "2 votes".
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Count formats a number briefly, such as 1.5k.
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

// Clock formats a duration as m:ss or h:mm:ss.
func Clock(d time.Duration) string {
	s := int(max(d, 0) / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}
