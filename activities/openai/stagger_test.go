package openai_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// Requests with an equal beginning wait for the first reply to begin, at most two seconds; others do not, and neither do
// the later calls of a step.
func TestStagger(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		begins time.Duration // of a reply, after its request
		sent   []time.Duration
	}{
		"after the first reply has begun": {time.Second, []time.Duration{0, 0, 0, time.Second, time.Second}},
		"after two seconds":               {9 * time.Second, []time.Duration{0, 0, 0, 2 * time.Second, 2 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, w := serve(t, openai.Options{Stagger: &openai.Stagger{}}, func(res http.ResponseWriter, _ *http.Request) {
					time.Sleep(tc.begins)
					res.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(res, saysHi)
				})
				began := time.Now()
				ended := make(chan error, 5)
				ask := func(messages ...llm.Message) {
					_, err := client.Generate(t.Context(), llm.Request{Messages: messages})
					ended <- err
				}
				system, first := llm.Message{Role: llm.System, Content: "Be exact."}, llm.Message{Role: llm.User, Content: "Which?"}
				for _, own := range []string{"You are a.", "You are b.", "You are c."} {
					go ask(system, first, llm.Message{Role: llm.User, Content: own})
				}
				go ask(system, llm.Message{Role: llm.User, Content: "Another?"})
				go ask(system, first, llm.Message{Role: llm.Assistant, Content: "This."}, llm.Message{Role: llm.User, Content: "Sure?"})
				for range 5 {
					require.NoError(t, <-ended)
				}
				var sent []time.Duration
				for _, r := range w.seen() {
					sent = append(sent, r.at.Sub(began).Truncate(time.Second))
				}
				slices.Sort(sent)
				require.Equal(t, tc.sent, sent)
			})
		})
	}
}
