package loop_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/loop"
)

// A team of weak models agreed on the answer new_answer, the name of the tool that a rejection had
// told them to call.
func TestNamesTool(t *testing.T) {
	t.Parallel()
	tools := []string{"new_answer", "vote", "stop", "mcp__web-site__click"}
	for _, content := range []string{
		"new_answer", " new_answer \n", "`new_answer`", "**new_answer**", "[new_answer]", "(new_answer)", "<new_answer>", "<new_answer/>", "{new_answer}",
		`"new_answer"`, "'new_answer'", "“new_answer”", "«new_answer»", "new_answer.", "new_answer!", "new_answer:", "- new_answer", "new_answer()", "new_answer();", "`new_answer()`.",
		"call new_answer", "Call `new_answer`.", "CALL: new_answer", "calling new_answer", "I will call the new_answer tool now.", "Finish by calling new_answer.",
		"tool: new_answer", "Action: new_answer", "New_Answer", "NEW_ANSWER", "```\nnew_answer\n```", "```json\n[\"new_answer\"]\n```", "new_answer new_answer",
		`{"name": "new_answer"}`, `{"name": "new_answer", "arguments": {}}`, "<new_answer></new_answer>", "vote", "`vote`", "[vote]", "vote.", "vote()", "call vote", "stop", "call stop",
		"new_answer or vote", "mcp__web-site__click",
	} {
		require.True(t, loop.NamesTool(content, tools...), content)
	}
	for _, content := range []string{
		"", " ", "...", "Two.", "call", "The tool.", "Vote.", "Stop!", "vote for agent2", "stop the press", "new answer", "my_new_answer", "new_answers", "read_file",
		"The function is called new_answer_v2.", "new_answer: Two.", "Two. new_answer", "Its name is new_answer, with an underscore.", `print(new_answer)`, "new_answer(1) is 2.", `stop(5)`,
	} {
		require.False(t, loop.NamesTool(content, tools...), content)
	}
}
