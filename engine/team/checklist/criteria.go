package checklist

import (
	"strings"

	"conclave/engine/text"
)

// maxScope is where the subtask is cut inside a default criterion, in bytes.
const maxScope = 140

// defaults are the criteria of a team that brought none.
func (p Policy) defaults() []Criterion {
	texts := general()
	if p.Decomposition {
		texts = owned(p.Subtask)
	}
	criteria := make([]Criterion, len(texts))
	for i, text := range texts {
		criteria[i] = Criterion{Text: text, Category: "standard"}
	}
	return criteria
}

func general() []string {
	return []string{
		"It does all that the task asks for, stated or plainly meant, and nothing that the task rules out.",
		"What it says is true and what it delivers works: facts, sums, code and sources were checked, not assumed.",
		"It is thorough where the task is hard: edge cases, trade-offs and likely questions are dealt with, not passed over.",
		"Whoever asked can use it as it is: it is clear, in good order, and complete without further explanation.",
		"It shows care: the choices fit this task, and nothing is generic, padded or left half done.",
	}
}

// owned judges the work on one part of a divided task.
func owned(subtask string) []string {
	scope := text.Truncate(strings.Join(strings.Fields(subtask), " "), maxScope)
	if scope == "" {
		scope = "as assigned"
	}
	return []string{
		"The owned part is carried forward to where it should be. The part: " + scope,
		"What the other parts have produced is taken in where this part touches it, and fits together with it.",
		"It keeps to the owned part: work that belongs to others is left to them.",
		"Nothing that worked before is broken, and a check was run that shows it.",
		"It is a real step beyond the last version, not other words or small polish.",
	}
}
