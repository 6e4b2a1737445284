package team

import (
	"fmt"
	"strings"
)

// overlaps are the shares of common words, by Task.Novelty, above which a new
// answer is too close to one that is there. Lenient asks for nothing.
var overlaps = map[string]float64{Balanced: 0.7, Strict: 0.5}

// novel refuses content that is, or nearly is, an answer that the step was
// shown, its own agent's included. A presenter may well present an answer as
// it is.
func (r *Rules) novel(content string) *rejection {
	if r.task.Purpose == Present {
		return nil
	}
	says := strings.TrimSpace(content)
	for _, shown := range r.known.texts {
		if says == strings.TrimSpace(shown.Text) {
			return &rejection{AnswerDuplicate, "Your answer is the same as " + shown.Label + ", which is there already. Change something that matters" + r.orEnd() + "."}
		}
	}
	limit, limited := overlaps[r.task.Novelty]
	if !limited {
		return nil
	}
	said := words(says)
	for _, shown := range r.known.texts {
		if overlap(said, words(shown.Text)) > limit {
			return &rejection{AnswerNovelty, fmt.Sprintf("Your answer is too close to %s: more than %.0f %% of their words are common. Submit one that differs in substance%s.", shown.Label, limit*100, r.orEnd())}
		}
	}
	return nil
}

// orEnd names the other way to end the step, if it is open.
func (r *Rules) orEnd() string {
	for _, kind := range r.open() {
		if kind == KindVote || kind == KindStop {
			return ", or " + kind
		}
	}
	return ""
}

// words is the set of the lower-cased words of text, split at white space.
func words(text string) map[string]bool {
	set := make(map[string]bool)
	for _, word := range strings.Fields(strings.ToLower(text)) {
		set[word] = true
	}
	return set
}

// overlap is the Jaccard similarity of two sets: the share of the common
// members in all members. Two empty sets are equal.
func overlap(a, b map[string]bool) float64 {
	if len(a) == 0 && len(b) == 0 {
		return 1
	}
	common := 0
	for word := range a {
		if b[word] {
			common++
		}
	}
	return float64(common) / float64(len(a)+len(b)-common)
}
