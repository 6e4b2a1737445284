package agent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/pipeline/agent"
)

// Of more than there is room for, the request stays whole.
func TestQuestion(t *testing.T) {
	t.Parallel()
	const request = "Which database?"
	require.Equal(t, "Decide.\n\n"+request, agent.Question(agent.Task{Prompt: "Decide.", Request: request}))
	for _, over := range []int{-3, -2, -1, 0, 1, 1000} {
		prompt := strings.Repeat("p", agent.MaxQuestion-len(request)+over)
		asked := agent.Question(agent.Task{Prompt: prompt, Request: request, History: []agent.Told{{Step: "brief", Text: "Small."}}})
		require.LessOrEqual(t, len(asked), agent.MaxQuestion)
		require.Contains(t, asked, "p\n\n"+request, "a prompt of %d more bytes than there is room for", over)
	}
	whole := strings.Repeat("r", agent.MaxQuestion)
	require.Equal(t, whole, agent.Question(agent.Task{Prompt: "Decide.", Request: whole}))
}
