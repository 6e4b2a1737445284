package team

import (
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// The reasons of rejections. The codes are stable: they go into journals,
// transcripts and errors.
const (
	NoToolCalls      = "no_tool_calls"
	UnknownTool      = "unknown_tool"
	ToolNotOffered   = "tool_not_offered"
	VoteNoAnswers    = "vote_no_answers"
	VoteAndAnswer    = "vote_and_answer"
	SeveralActions   = "several_actions"
	InvalidArguments = "invalid_arguments"
	InvalidVoteID    = "invalid_vote_id"
	AnswerTooLarge   = "answer_too_large"
	AnswerDuplicate  = "answer_duplicate"
	AnswerNovelty    = "answer_novelty"
)

// rejection is why a reply is refused: a code for us, a sentence for the model.
type rejection struct{ code, why string }

// reject refuses the whole reply. Running some of its calls would leave the
// model guessing which of them took effect.
func (r *Rules) reject(calls []llm.ToolCall, why *rejection) loop.Ruling {
	said := why.why + " Nothing was submitted and no tool was run. Finish by calling " + r.ways() + "."
	told := make(map[string]string, len(calls))
	for _, call := range calls {
		told[call.ID] = said
	}
	return loop.Ruling{Rejected: why.code, Told: told, Say: said}
}

// ways names the calls that end the step.
func (r *Rules) ways() string { return strings.Join(r.open(), " or ") }
