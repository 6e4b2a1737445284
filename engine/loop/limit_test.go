package loop_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/loop"
)

// The limit of model calls is announced once, at 90 percent or before the last call.
func TestRun_announcesTheCallLimit(t *testing.T) {
	t.Parallel()
	for limit, first := range map[int]int{1: 0, 2: 2, 5: 5, 10: 10, 30: 28, 300: 271} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			t.Parallel()
			conv, model, journal := &loop.Conversation{}, &script{}, &memory{failAt: -1}
			conv.Add(opening)
			for range limit + 1 {
				model.replies = append(model.replies, says("", call("a", "read_file", "{}")))
			}
			_, err := loop.Loop{Model: model, Tools: &bench{}, Journal: journal.Append, MaxModelCalls: limit}.Run(t.Context(), conv, &team{})
			var calls *loop.NoActionError
			require.ErrorAs(t, err, &calls)
			require.Equal(t, limit, calls.Calls)
			told := 0
			for n, req := range model.requests {
				if last := req.Messages[len(req.Messages)-1]; strings.Contains(last.Content, "model calls of this turn") {
					told++
					require.Equal(t, first, n+1)
					require.Contains(t, last.Content, "You have made "+strconv.Itoa(n)+" of the "+strconv.Itoa(limit))
				}
			}
			require.Equal(t, min(first, 1), told)

			restored := &loop.Conversation{}
			restored.Add(opening)
			for _, e := range journal.entries {
				restored.Add(e)
			}
			require.Equal(t, conv, restored, "a restored step is not told twice")
		})
	}
}
