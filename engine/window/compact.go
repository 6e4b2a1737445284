package window

import "conclave/engine/llm"

// Compact returns messages with summary in the place of the turns before a
// position. What is fixed stays, in its order, and comes before the summary,
// which tells of a time when it was known.
func Compact(messages []llm.Message, fixed []bool, before int, summary []llm.Message) ([]llm.Message, []bool) {
	h := History{Messages: messages, Fixed: fixed}
	before = max(0, min(before, len(messages)))
	var left []llm.Message
	var held []bool
	for i, m := range messages[:before] {
		if h.fixed(i) {
			left, held = append(left, m), append(held, true)
		}
	}
	left, held = append(left, summary...), append(held, make([]bool, len(summary))...)
	for i := before; i < len(messages); i++ {
		left, held = append(left, messages[i]), append(held, h.fixed(i))
	}
	return left, held
}
