package pipeline_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/pipeline"
)

// Of more than there is room for, the request stays whole.
func TestQuestion(t *testing.T) {
	t.Parallel()
	const request = "Which database?"
	require.Equal(t, "Decide.\n\n"+request, pipeline.Question(pipeline.Task{Prompt: "Decide.", Request: request}))
	for _, over := range []int{-3, -2, -1, 0, 1, 1000} {
		prompt := strings.Repeat("p", pipeline.MaxQuestion-len(request)+over)
		asked := pipeline.Question(pipeline.Task{Prompt: prompt, Request: request, History: []pipeline.Told{{Step: "brief", Text: "Small."}}})
		require.LessOrEqual(t, len(asked), pipeline.MaxQuestion)
		require.Contains(t, asked, "p\n\n"+request, "a prompt of %d more bytes than there is room for", over)
	}
	whole := strings.Repeat("r", pipeline.MaxQuestion)
	require.Equal(t, whole, pipeline.Question(pipeline.Task{Prompt: "Decide.", Request: whole}))
}
