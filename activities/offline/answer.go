package offline

import (
	"fmt"
	"strings"
)

// markForm is how a model's mark stands in its answers. It comes first, before
// the question, so that nothing in the question can stand between the label and
// the mark.
func markForm(mark string) string { return "Offline model " + mark }

// angles make the answers of a team differ in words, too.
func angles() []string {
	return []string{
		"A real answer would begin by asking what has to be true for the question to make sense.",
		"Somebody with a model behind them might list the options first and weigh them after.",
		"One would look here for numbers, and for who measured them.",
		"The careful way is to say what is known, what is guessed, and what nobody can know yet.",
		"Perhaps a counterexample settles it faster than any argument does.",
		"Start small, check the result by hand, then generalise: that is the usual advice.",
		"History often has a precedent; an answer could compare and say where the comparison limps.",
		"Whoever asks this probably needs a recommendation rather than an essay.",
	}
}

// text is the answer. Every submission of a model is another text.
func (m *Model) text(v view) string {
	attempt := v.made["new_answer"]
	revision := v.own.revision + 1
	var b strings.Builder
	fmt.Fprintf(&b, "%s, no language model was asked: this text comes from a fixed rule and shows how a team decides.\n", markForm(m.mark))
	if attempt == 0 && v.question != "" {
		fmt.Fprintf(&b, "\nThe question was: %s\n", v.question)
	}
	fmt.Fprintf(&b, "\n%s", angles()[(m.first+revision+attempt)%len(angles())])
	if v.own.number > 0 {
		fmt.Fprintf(&b, "\n\nRevision %d, written after a look at %d answers.", revision, len(v.shown()))
	}
	if attempt > 0 {
		fmt.Fprintf(&b, "\n\nAttempt %d, because the one before did not stand.", attempt+1)
	}
	return b.String()
}
