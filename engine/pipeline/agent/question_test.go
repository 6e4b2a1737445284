package agent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of more than there is room for, the request stays whole.
func TestQuestion(t *testing.T) {
	t.Parallel()
	const request = "Which database?"
	require.Equal(t, "Decide.\n\n"+request, task{Prompt: "Decide.", Request: request}.question())
	for _, over := range []int{-3, -2, -1, 0, 1, 1000} {
		prompt := strings.Repeat("p", maxQuestion-len(request)+over)
		asked := task{Prompt: prompt, Request: request, History: []earlier{{Step: "brief", Text: "Small."}}}.question()
		require.LessOrEqual(t, len(asked), maxQuestion)
		require.Contains(t, asked, "p\n\n"+request, "a prompt of %d more bytes than there is room for", over)
	}
	whole := strings.Repeat("r", maxQuestion)
	require.Equal(t, whole, task{Prompt: "Decide.", Request: whole}.question())
}
