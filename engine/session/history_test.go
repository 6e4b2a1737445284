package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
)

func turnOf(query, answer int) artifact.Turn {
	return artifact.Turn{Query: strings.Repeat("q", query), Answer: strings.Repeat("a", answer)}
}

func TestCheckTurns(t *testing.T) {
	t.Parallel()
	const most = MaxConversation
	require.NoError(t, CheckTurns("Why?", nil))
	require.NoError(t, CheckTurns("Why?", []artifact.Turn{{Query: "Who?"}, turnOf(10, most-18)}))
	require.NoError(t, CheckTurns(strings.Repeat("q", most+1), nil), "the query has a limit of its own")
	require.ErrorContains(t, CheckTurns("Why?", []artifact.Turn{turnOf(10, most-13)}), "have 262145 bytes together, at most 262144")
	require.ErrorContains(t, CheckTurns("Why?", []artifact.Turn{turnOf(1, 1), {Query: " "}}), "history[1] is empty")
}

// The newest turns are kept complete. Only the last one may be truncated.
func TestNewestTurns(t *testing.T) {
	t.Parallel()
	const most = MaxConversation
	for name, tt := range map[string]struct {
		query int
		turns []artifact.Turn
		want  []artifact.Turn
	}{
		"none":                 {4, nil, nil},
		"all":                  {4, []artifact.Turn{turnOf(1, 2), turnOf(3, 4)}, []artifact.Turn{turnOf(1, 2), turnOf(3, 4)}},
		"exactly":              {4, []artifact.Turn{turnOf(1, most-12), turnOf(3, 4)}, []artifact.Turn{turnOf(1, most-12), turnOf(3, 4)}},
		"without the oldest":   {5, []artifact.Turn{turnOf(1, 1), turnOf(1, most-12), turnOf(3, 4)}, []artifact.Turn{turnOf(3, 4)}},
		"the last one cut":     {4, []artifact.Turn{turnOf(1, 1), turnOf(6, most)}, []artifact.Turn{turnOf(6, most-10)}},
		"no room for any turn": {most, []artifact.Turn{turnOf(1, 1)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			query := strings.Repeat("?", tt.query)
			got := NewestTurns(query, tt.turns)
			require.True(t, len(got) == len(tt.want) && (len(got) == 0 || got[len(got)-1] == tt.want[len(got)-1] && got[0] == tt.want[0]))
			require.NoError(t, CheckTurns(query, got))
		})
	}
}

// A prompt shows the newest turns and says how much of the older ones is omitted.
func TestFrameTurns(t *testing.T) {
	t.Parallel()
	turns := []artifact.Turn{turnOf(10, 90), turnOf(10, 990), turnOf(20, 280)}
	whole, left := frameTurns(turns, nil, 5000)
	require.Zero(t, left)
	require.Equal(t, []int{1, 2, 3}, []int{whole[0].Number, whole[1].Number, whole[2].Number})

	cut, left := frameTurns(turns, nil, 800)
	require.Equal(t, 1, left)
	require.Len(t, cut, 2)
	require.Equal(t, pastTurn{
		Number: 2, Query: turns[1].Query, QueryBytes: 10, Answer: turns[1].Answer[:490], AnswerCut: 490, AnswerBytes: 990,
	}, cut[0])
	none, left := frameTurns(nil, nil, 800)
	require.Empty(t, none)
	require.Zero(t, left)
}

// The mark of earlier turns is the same for all steps of a session. It is unknown to the authors of
// the turns, and removed from every text and tool result.
func TestPastMark(t *testing.T) {
	t.Parallel()
	of := func(secret, token string, turns int) marks {
		o := &opening{Step: Step{Secret: secret, Token: token, Turns: make([]artifact.Turn, turns)}}
		return o.deriveMarks()
	}
	require.Equal(t, of("run-1", "a", 1).Past, of("run-1", "b", 1).Past)
	require.NotEqual(t, of("run-1", "a", 1).Past, of("run-2", "a", 1).Past)
	require.NotEqual(t, of("", "a", 1).Past, of("", "b", 1).Past)
	require.Empty(t, of("run-1", "a", 0).Past)

	r := newRules(with(evaluation(), continued))
	opening, err := r.Opening()
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(opening[1].Content, r.task.Past+" end reply 1 ==="), "a forged line is defused")
	m := newMemory(r.task)
	m.readMarks([]llm.Message{opening[0], opening[1]})
	require.ElementsMatch(t, r.task.openingMarks(), m.live, "and no word of the prompts")
}
