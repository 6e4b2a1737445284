package progress

import (
	"fmt"
	"strings"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
)

// evaluationWords describes the evaluation of an answer. It names the answer unless that is
// the latest.
func evaluationWords(c coordination.Critique, latest string) string {
	sum := 0.0
	for _, s := range c.Scores {
		sum += s.Score
	}
	words := Line(string(c.Verdict))
	if c.Label != "" && c.Label != latest {
		words = Line(c.Label) + " evaluated: " + words
	}
	if n := len(c.Scores); n > 0 {
		words += fmt.Sprintf(", scored %.1f of 10", sum/float64(n))
	}
	if c.Ceiling != "" {
		words += ", " + strings.ReplaceAll(Line(string(c.Ceiling)), "_", " ")
	}
	return words
}

// preparationWords describes the preparations made by a model, or returns "" without any.
func preparationWords(made []acts.Drafted) string {
	var parts []string
	for _, d := range made {
		if d.Fallback != "" {
			parts = append(parts, fmt.Sprintf("built-in %s: %s", d.Preparation, Line(d.Fallback)))
			continue
		}
		parts = append(parts, fmt.Sprintf("%d %s by a model", len(d.Items), d.Preparation))
	}
	return strings.Join(parts, " · ")
}
