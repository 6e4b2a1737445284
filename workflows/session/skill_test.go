//go:build !race

package session_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/eval"
	"conclave/engine/files/artifact"
	"conclave/workflows/session"
	"conclave/workflows/stagetest"
)

// Teams with models of known skill decide correctly as often as the probabilities predict. A team
// that cannot judge is no worse than the vote of its first answers, because it is told which
// answers are equal.
func TestSkill(t *testing.T) {
	t.Parallel()
	const sessions, skill = 100, 0.6
	for _, judging := range []float64{0.8, 0.4, 0} {
		t.Run(fmt.Sprint(judging), func(t *testing.T) {
			t.Parallel()
			data, err := eval.GenerateQuestions(eval.QuestionOptions{Seed: 5, Count: sessions, Kinds: []string{"arithmetic"}})
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "questions.jsonl")
			require.NoError(t, os.WriteFile(file, data, 0o600))
			questions, err := eval.ReadQuestions(data, "")
			require.NoError(t, err)
			decided, voted := 0, 0
			for i, q := range questions {
				byTeam, byVote := playSkilled(t, q, map[string]any{"skill": skill, "judging": judging, "seed": 1, config.Targets: file}, i)
				decided += byTeam
				voted += byVote
			}
			expected := expect(skill, judging)
			t.Logf("decision %d (expected %.1f), vote of first answers %d (expected %.1f)", decided, sessions*expected.decision, voted, sessions*expected.vote)
			require.InDelta(t, sessions*expected.decision, decided, within99(sessions, expected.decision))
			require.InDelta(t, sessions*expected.vote, voted, within99(sessions, expected.vote))
			require.GreaterOrEqual(t, expected.decision, expected.vote)
			require.GreaterOrEqual(t, decided, voted)
		})
	}
}

// within99 is half the width of the 99 % interval of a count.
func within99(n int, p float64) float64 { return 2.576*math.Sqrt(float64(n)*p*(1-p)) + 0.5 }

// playSkilled plays a session of three agents, and returns 1 for a right decision and for a
// right vote of their first answers.
func playSkilled(t *testing.T, q eval.Question, params map[string]any, number int) (decided, voted int) {
	t.Helper()
	agents := []string{"agent_a", "agent_b", "agent_c"}
	s := stagetest.New(t, map[string][]any{agents[0]: nil, agents[1]: nil, agents[2]: nil}, func(team *config.Team) {
		for i := range team.Agents {
			team.Agents[i].Backend = config.Backend{Type: config.Offline, Params: params}
			team.Agents[i].Tools.Files = false
		}
	})
	id := fmt.Sprintf("s%d", number)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: q.Prompt(), SessionID: id})
	if _, right := q.Score("", result.Answer); right != nil && *right {
		decided = 1
	}
	var keys, texts []string
	for _, agent := range agents {
		a, err := artifact.ReadJSON[artifact.Answer](t.Context(), s.Store, artifact.InBucket(id).Step(agent, 1, "answer.json"))
		require.NoError(t, err)
		texts, keys = append(texts, a.Answer), append(keys, q.VoteKey("", a.Answer))
	}
	if _, right := q.Score("", texts[eval.Vote(keys)]); right != nil && *right {
		voted = 1
	}
	return decided, voted
}

// expected are the probabilities of right outcomes.
type expected struct{ decision, vote float64 }

// expect enumerates the first answers of three agents, each right or one of four wrong ones,
// and their votes, twice if the first ones are split. It shares no code with the engine or
// the model.
func expect(skill, judging float64) (e expected) {
	const wrong = 4
	chance := func(answer int) float64 {
		if answer == 0 {
			return skill
		}
		return (1 - skill) / wrong
	}
	for a := range wrong + 1 {
		for b := range wrong + 1 {
			for c := range wrong + 1 {
				answers := [3]int{a, b, c}
				p := chance(a) * chance(b) * chance(c)
				most := 0
				if b == c {
					most = 1
				}
				if answers[most] == 0 {
					e.vote += p
				}
				e.decision += p * decides(answers, judging)
			}
		}
	}
	return e
}

// decides returns the probability that three agents with these answers, of which 0 is right,
// decide for a right one.
func decides(answers [3]int, judging float64) float64 {
	one := [3]float64{1. / 3, 1. / 3, 1. / 3} // of a vote that is not a judgement
	switch {
	case answers[0] == answers[1] || answers[0] == answers[2]:
		one = [3]float64{1, 0, 0}
	case answers[1] == answers[2]:
		one = [3]float64{0, 1, 0}
	}
	for i, answer := range answers {
		if answer == 0 {
			for j := range one {
				one[j] *= 1 - judging
			}
			one[i] += judging
			break
		}
	}
	right, split, plural := 0., 0., 0.
	for x := range 3 {
		for y := range 3 {
			for z := range 3 {
				p := one[x] * one[y] * one[z]
				switch {
				case x == y || x == z:
					right += p * isRight(answers[x])
				case y == z:
					right += p * isRight(answers[y])
				default:
					split += p
					plural += p * isRight(answers[plurality([3]int{x, y, z})])
				}
			}
		}
	}
	if split == 0 {
		return right
	}
	return right + split*(right+plural)
}

func isRight(answer int) float64 {
	if answer == 0 {
		return 1
	}
	return 0
}

// plurality returns the winner of three votes for three different answers: the first with a
// vote of another agent, else the first.
func plurality(votes [3]int) int {
	winner := 0
	for target := 2; target >= 0; target-- {
		for voter, vote := range votes {
			if vote == target && voter != target {
				winner = target
			}
		}
	}
	return winner
}
