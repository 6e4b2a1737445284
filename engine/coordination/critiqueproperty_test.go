package coordination

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/llm"
)

// TestCritiqueProperties plays random sessions with evaluations to their end. Every answer is
// evaluated at most once, no agent has two steps at the same time, a step with tasks can only
// answer, and every session ends.
func TestCritiqueProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }
		s := New(randomCritical(pick))
		running := map[LaunchID]Launch{}
		evaluated := map[string]int{} // tries, by label and attempt of the team
		step := map[string]int{}
		for batches := 0; !s.Done(); batches++ {
			require.Less(t, batches, 400, "the session does not end")
			for _, c := range s.Drain() {
				l, ok := c.(Launch)
				if !ok {
					continue
				}
				for _, other := range running {
					require.NotEqual(t, other.Agent, l.Agent)
				}
				running[l.ID] = l
				switch {
				case l.Purpose == Evaluation:
					label := s.agentOf(l.Agent).latestLabel()
					if l.ResumeFrom == "" {
						evaluated[label]++
					}
					require.LessOrEqual(t, evaluated[label], 1, label)
				case l.Purpose == Coordinate && l.Critique != nil && l.Critique.Tasks && slices.Contains(l.Offered, NewAnswer):
					require.Equal(t, []Action{NewAnswer}, l.Offered)
				}
			}
			if s.Done() {
				break
			}
			require.NotEmpty(t, running, "nothing runs and nothing is decided")
			ids := []LaunchID{}
			for id := range running {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			id := ids[pick(len(ids))]
			l := running[id]
			delete(running, id)
			s.Step(randomEnd(pick, l, step))
			data, err := json.Marshal(s)
			require.NoError(t, err)
			s = &State{}
			require.NoError(t, json.Unmarshal(data, s), "a state survives JSON at any point")
		}
	})
}

func randomCritical(pick pick) Config {
	agents := []string{"a", "b", "c"}[:1+pick(3)]
	return Config{
		Agents: agents, Critiques: true, StopAtCeiling: pick(2) == 0, MaxStepsPerAgent: 1 + pick(5), AnswersPerAgent: pick(4),
		Pacing: drawn(pick, pacingRounds, pacingContinuous), Mode: drawn(pick, voting, Decomposition), OnSplit: drawn(pick, splitRevote, splitPlurality),
		Secluded: pick(3) == 0, DeferVoting: pick(3) == 0, Quorum: pick(3) == 0, MaxRestarts: pick(2), Strategy: drawn(pick, winnerReuse, winnerPresent),
	}
}

// randomEnd ends a step in one of the ways that it permits.
func randomEnd(pick pick, l Launch, steps map[string]int) Event {
	end := End{Launch: l.ID, Usage: llm.Usage{ModelCalls: 1, InputTokens: 5}}
	if l.Purpose == Evaluation {
		end.Step = l.After + 1
		if pick(5) == 0 {
			return Failed{End: end, Cause: Failure{Type: "NoAction"}, Token: "t"}
		}
		return Critiqued{
			End: end, Verdict: drawn(pick, Iterate, Converged), Tasks: pick(2) == 0, Ceiling: drawn(pick, CeilingReached, CeilingNotReached),
			Scores: []RoundScore{{ID: "E1", Score: float64(pick(11))}},
		}
	}
	steps[l.Agent] = max(steps[l.Agent], l.After) + 1
	end.Step = steps[l.Agent]
	if pick(12) == 0 && l.Purpose == Coordinate {
		return Exhausted{End: end, Token: "t"}
	}
	switch l.Offered[pick(len(l.Offered))] {
	case Vote:
		return Voted{End: end, Choice: Choice{Target: l.Shown[pick(len(l.Shown))].Agent}, Seen: l.seenAnswers(), Heard: l.lastMessage()}
	case Stop:
		return Stopped{End: end, Status: Complete, Seen: l.seenAnswers(), Heard: l.lastMessage()}
	case Submit, RestartTeam:
		return Evaluated{End: end, Again: pick(2) == 0, Reason: "r"}
	default:
		return Answered{End: end, Seen: l.seenAnswers(), Heard: l.lastMessage()}
	}
}
