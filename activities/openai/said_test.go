package openai

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// streamOf merges the data of events.
func streamOf(t *testing.T, data ...string) *stream {
	t.Helper()
	var s stream
	for _, d := range data {
		require.True(t, s.addEvent(event{data: d}), d)
	}
	return &s
}

func TestStream_said(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events []string
		want   string
	}{
		"nothing yet":         {[]string{`{"choices":[{"delta":{"role":"assistant"}}]}`}, ""},
		"thoughts":            {[]string{`{"choices":[{"delta":{"reasoning_content":"Let me "}}]}`, `{"choices":[{"delta":{"reasoning_content":"think"}}]}`}, "Let me think"},
		"text after thoughts": {[]string{`{"choices":[{"delta":{"reasoning_content":"Hm."}}]}`, `{"choices":[{"delta":{"content":"Use "}}]}`, `{"choices":[{"delta":{"content":"SQLite."}}]}`}, "Use SQLite."},
		"a call": {[]string{
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"new_answer","arguments":"{\"content\": \"One.\\nTwo, \\\"qu"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"oted"}}]}}]}`,
		}, "new_answer {\"content\": \"One.\nTwo, \"quoted"},
		"an object as arguments": {[]string{`{"choices":[{"delta":{"content":"So:","tool_calls":[{"index":0,"function":{"name":"vote","arguments":{"agent_id":"agent1"}}}]}}]}`}, "So:\n\nvote {\"agent_id\":\"agent1\"}"},
		"parts":                  {[]string{`{"choices":[{"delta":{"content":[{"type":"text","text":"x"}]}}]}`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, streamOf(t, c.events...).saidText())
		})
	}
}

// A reply is reported when it begins, and then once a second.
func TestTeller(t *testing.T) {
	t.Parallel()
	var heard []string
	told := teller{tell: func(text string) { heard = append(heard, text) }}
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	told.reportText(streamOf(t, `{"choices":[{"delta":{"role":"assistant"}}]}`), now)
	require.Empty(t, heard, "there is nothing to tell")
	s := streamOf(t, `{"choices":[{"delta":{"content":"a"}}]}`)
	told.reportText(s, now)
	require.True(t, s.addEvent(event{data: `{"choices":[{"delta":{"content":"b"}}]}`}))
	told.reportText(s, now.Add(saidInterval-1))
	require.Equal(t, []string{"a"}, heard)
	told.reportText(s, now.Add(saidInterval))
	require.Equal(t, []string{"a", "ab"}, heard)
	var silent teller
	silent.reportText(s, now)
}
