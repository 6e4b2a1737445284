package agent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// The limit of a step's model calls is announced once, at 90 percent. It includes calls made before
// another step was called.
func TestUpdates_announceTheCallLimit(t *testing.T) {
	t.Parallel()
	limited := writing
	limited.Most, limited.Used = 20, 15
	d := &ports{}
	for range 5 {
		d.replies = append(d.replies, says("", call("a", "read_file", "{}")))
	}
	rules, conv := newRules(limited), &loop.Conversation{}
	conv.Add(loop.Entry{Kind: loop.Opening, Messages: []llm.Message{{Role: llm.User, Content: "Write."}}})
	action, err := loop.Loop{Model: d, Tools: d, Journal: d.Append}.Run(t.Context(), conv, rules)
	require.NoError(t, err)
	require.Equal(t, kindMaxIterations, action.Kind)
	told := 0
	for n, messages := range d.requests {
		if last := messages[len(messages)-1]; strings.Contains(last.Content, "You have made 18 of the 20 model calls") {
			told++
			require.Equal(t, 3, n)
		}
	}
	require.Equal(t, 1, told)
}
