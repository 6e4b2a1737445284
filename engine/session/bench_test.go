package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session"
	"conclave/engine/step"
)

// waves has the first wave and a later one, for agents without and with their own system_message.
// Each has the minimum share of prompt bytes that the agents have in common.
var waves = map[string]struct {
	own   int // length of the system messages
	shown []coordination.Shown
	least float64
}{
	"wave=first":         {0, nil, 0.95},
	"wave=later":         {0, oneAnswerEach(), 0.90},
	"wave=first/own=200": {200, nil, 0.95},
	"wave=later/own=200": {200, oneAnswerEach(), 0.90},
}

// BenchmarkSharedPrompt builds the prompts of a wave of three agents with file tools. It reports
// the share of prompt bytes that the second and the third agent have in common with the first,
// whichever is smaller.
func BenchmarkSharedPrompt(b *testing.B) {
	for name, w := range waves {
		b.Run(name, func(b *testing.B) {
			share := 1.0
			for b.Loop() {
				share = min(share, sharedPrompt(b, w.own, w.shown))
			}
			b.ReportMetric(100*share, "%common")
		})
	}
}

// A server that caches prefixes of prompts reads nearly all of a wave's prompts only once.
func TestOpening_sharedByAWave(t *testing.T) {
	t.Parallel()
	for name, w := range waves {
		require.GreaterOrEqual(t, sharedPrompt(t, w.own, w.shown), w.least, name)
	}
}

// sharedPrompt returns the share of prompt bytes that the second and the third agent of a wave have
// in common with the first, whichever is smaller.
func sharedPrompt(tb testing.TB, own int, shown []coordination.Shown) float64 {
	tb.Helper()
	files, err := tools.Open(tb.Context(), tb.TempDir(), tools.Set{Files: true})
	require.NoError(tb, err)
	defer func() { require.NoError(tb, files.Close()) }()
	first, share := wavePrompt(tb, files.Tools(), 0, own, shown), 1.0
	for i := 1; i < 3; i++ {
		share = min(share, float64(commonPrefix(first, wavePrompt(tb, files.Tools(), i, own, shown)))/float64(len(first)))
	}
	return share
}

// oneAnswerEach returns the first answer of each of three agents.
func oneAnswerEach() []coordination.Shown {
	shown := make([]coordination.Shown, 3)
	for i := range shown {
		shown[i] = coordination.Shown{Agent: agentIDs[i], Number: i + 1, Label: fmt.Sprintf("agent%d.1", i+1), Step: 1}
	}
	return shown
}

var agentIDs = []string{"agent_a", "agent_b", "agent_c"}

// wavePrompt returns an agent's first request as bytes, in the order tools, system, user.
func wavePrompt(tb testing.TB, ordinary []llm.Tool, agent, own int, shown []coordination.Shown) string {
	tb.Helper()
	s := session.Step{
		Token: "run-" + agentIDs[agent], Agents: agentIDs, Query: "Which database suits a small shop that is often offline?", Files: true,
		SystemMessage: strings.Repeat(string(rune('a'+agent)), own),
		Launch:        coordination.Launch{Agent: agentIDs[agent], Number: agent + 1, Shown: shown, Offered: []coordination.Action{coordination.NewAnswer}},
		Commits: func(_ context.Context, s coordination.Shown) (artifact.Commit, error) {
			text, err := json.Marshal(session.Answer{Answer: strings.Repeat(fmt.Sprintf("Answer %d says this. ", s.Number), 50)})
			return artifact.Commit{Token: "run-" + s.Label, Kind: "new_answer", Payload: text}, err
		},
	}
	if len(shown) > 0 {
		s.Launch.Offered = append(s.Launch.Offered, coordination.Vote)
	}
	spec, err := s.Spec(tb.Context(), nil)
	require.NoError(tb, err)
	rules, opening, err := spec.Open(step.Access{Tools: ordinary})
	require.NoError(tb, err)
	offered, err := json.Marshal(append(ordinary, rules.Offer()...))
	require.NoError(tb, err)
	return string(offered) + opening[0].Content + opening[1].Content
}

// commonPrefix returns the length in bytes of the common prefix of a and b.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
