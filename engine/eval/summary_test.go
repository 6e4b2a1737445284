package eval_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/eval"
	"conclave/engine/llm"
)

func arms(t *testing.T, list string) []eval.Arm {
	t.Helper()
	arms, err := eval.ParseArms(list)
	require.NoError(t, err)
	return arms
}

// played returns samples of arms. The string of an arm has 1 for a right answer, 0 for a wrong one,
// u for an unreadable one and f for a failure.
func played(epoch int, outcomes map[string]string) []eval.Sample {
	var samples []eval.Sample
	for arm, each := range outcomes {
		for i, outcome := range each {
			s := eval.Sample{
				ID: fmt.Sprintf("q%d", i), Epoch: epoch, Arm: arm, Seconds: 1.5,
				Cost: llm.Usage{InputTokens: 80, CachedInputTokens: 30, OutputTokens: 20, ModelCalls: 1, TotalUSD: new(0.25)},
			}
			if arm == "team" {
				s.Cost.InputTokens = 380
			}
			switch outcome {
			case '0', '1':
				s.Correct = new(outcome == '1')
			case 'f':
				s.Failed = "failed: no answer"
			}
			samples = append(samples, s)
		}
	}
	return samples
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	s := eval.Summarize(played(1, map[string]string{"single": "0000111fu1", "team": "1111110111"}), arms(t, "single,team"))
	require.Equal(t, []string{"single", "team"}, s.Order)
	single := s.Arms["single"]
	require.Equal(t, eval.Figures{
		N: 10, Correct: 4, Accuracy: .4, CI95: single.CI95, Unparsed: 1, Failed: 1,
		Tokens: 1000, CachedTokens: 300, TotalUSD: new(2.5), ModelCalls: 10, Seconds: 15, Fields: map[string]float64{},
	}, single)
	require.InDelta(t, .168, single.CI95[0], 1e-3)
	require.InDelta(t, .687, single.CI95[1], 1e-3)
	require.Len(t, s.Pairs, 1)
	p := s.Pairs[0]
	require.Equal(t, []string{"team", "single"}, []string{p.A, p.B})
	require.InDelta(t, .5, p.Difference, 1e-9)
	require.InDelta(t, .125, p.P, 1e-4, "6 won and 1 lost: 2 * (1 + 7) of 2^7")

	data, err := json.Marshal(s)
	require.NoError(t, err)
	for _, key := range []string{`"arms":{"single":{"n":10,"correct":4,"accuracy":0.4,"ci95":[`, `"unparsed":1,"failed":1,"tokens":1000,"cached_tokens":300,"total_usd":2.5,"model_calls":10,"seconds":15`, `"pairs":[{"a":"team","b":"single","difference":0.5,"ci95":[`, `"questions_needed":`, `"verdict":"`} {
		require.Contains(t, string(data), key)
	}
}

// The same figures are computed independently, from counts in a table of both arms and the formulas
// of the papers, with random outcomes.
func TestSummarize_asByHand(t *testing.T) {
	t.Parallel()
	const z = 1.959964
	chance := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		n := 5 + chance.IntN(60)
		var a, b string
		var table [2][2]float64
		for range n {
			x, y := chance.IntN(2), chance.IntN(2)
			a, b = a+fmt.Sprint(x), b+fmt.Sprint(y)
			table[x][y]++
		}
		s := eval.Summarize(played(1, map[string]string{"single": b, "team": a}), arms(t, "single,team"))
		size := float64(n)
		p := (table[1][0] + table[1][1]) / size
		center, half := p+z*z/(2*size), z*math.Sqrt(p*(1-p)/size+z*z/(4*size*size))
		require.InDelta(t, (center-half)/(1+z*z/size), s.Arms["team"].CI95[0], 1e-4)
		require.InDelta(t, (center+half)/(1+z*z/size), s.Arms["team"].CI95[1], 1e-4)

		won, lost := table[1][0], table[0][1]
		require.InDelta(t, (won-lost)/size, s.Pairs[0].Difference, 1e-4)
		d := (won - lost) / (size + 2)
		spread := math.Sqrt(((won+lost+1)/(size+2) - d*d) / (size + 2))
		require.InDelta(t, max(-1, d-z*spread), s.Pairs[0].CI95[0], 1e-4)
		tail, term := 0.0, math.Pow(.5, won+lost)
		for k := 0.0; k <= min(won, lost); k++ {
			tail += term
			term *= (won + lost - k) / (k + 1)
		}
		require.InDelta(t, min(1, 2*tail), s.Pairs[0].P, 1e-4)
	}
}

// A small p-value is neither 0 nor printed as 0.
func TestSummarize_smallProbability(t *testing.T) {
	t.Parallel()
	p := eval.Summarize(played(1, map[string]string{"single": strings.Repeat("0", 40), "team": strings.Repeat("1", 40)}), arms(t, "single,team")).Pairs[0]
	require.InEpsilon(t, math.Pow(.5, 39), p.P, 1e-3)
	require.Equal(t, "<0.0001", p.Probability())
}

// With several epochs, questions are compared rather than their repetitions.
func TestSummarize_epochs(t *testing.T) {
	t.Parallel()
	samples := append(played(1, map[string]string{"single": "0011", "team": "1111"}), played(2, map[string]string{"single": "0101", "team": "1101"})...)
	s := eval.Summarize(samples, arms(t, "single,team"))
	require.Equal(t, 8, s.Arms["team"].N)
	require.InDelta(t, .875, s.Arms["team"].Accuracy, 1e-9)
	require.InDelta(t, .396, s.Arms["team"].CI95[0], .01, "3.5 of 4")
	require.Equal(t, 4, s.Pairs[0].N)
	require.InDelta(t, .375, s.Pairs[0].Difference, 1e-9)
	require.InDelta(t, .5, s.Pairs[0].P, 1e-9, "two won, none lost")
}

func TestSummarize_team(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	samples := []eval.Sample{
		{ID: "a", Arm: "team", Correct: yes, Conduct: &eval.Conduct{Status: "consensus", FirstVote: no, First: []*bool{yes, no, no}, Votes: 3, Judged: 2, Chance: 1}},
		{ID: "b", Arm: "team", Correct: no, Conduct: &eval.Conduct{Status: "consensus", FirstVote: yes, First: []*bool{yes, yes, nil}, Votes: 1, Judged: 0, Chance: .5}},
		{ID: "c", Arm: "team", Failed: "failed", Conduct: &eval.Conduct{Status: "failed", Lost: 3}},
	}
	team := eval.Summarize(samples, arms(t, "team")).Team
	require.Equal(t, &eval.TeamFigures{
		FirstRight: .5, Judging: new(.5), ByChance: new(.375), Votes: 4, Helped: 1, Hurt: 1, AnyRight: .6667, Lost: 3,
		Statuses: map[string]int{"consensus": 2, "failed": 1},
	}, team)
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	repeat := func(s string, n int) (out string) {
		for range n {
			out += s
		}
		return out
	}
	for name, tc := range map[string]struct {
		outcomes map[string]string
		list     string
		verdict  eval.Worth
		sentence string
	}{
		"worth it": {
			map[string]string{"single": repeat("0", 30), "team": repeat("1", 30)},
			"single,team", eval.WorthIt,
			"Use the team, not one agent: the team is 100 points better at 4.0 × the tokens, 95 % from +83 to +100.",
		},
		"not worth it": {
			map[string]string{"single": repeat("1", 30), "team": repeat("0", 30)},
			"single,team", eval.NotWorthIt,
			"Use one agent: the team is 100 points worse at 4.0 × the tokens, 95 % from −100 to −83.",
		},
		"too few": {
			map[string]string{"first-vote": "0011", "majority:match": "0111", "team": "1111"},
			"first-vote,majority:match,team", eval.TooFew,
			"4 questions cannot tell; until then use a vote of as many samples as the team's tokens buy: the team is 25 points better at 4.0 × the tokens, 95 % from −28 to +61; about 29 questions would tell.",
		},
		"the same": {
			map[string]string{"majority:3": "01", "team": "01"},
			"majority:3,team", eval.TooFew,
			"2 questions cannot tell; until then use a vote of 3 samples: the team is as good at 4.0 × the tokens, 95 % from −49 to +49; no difference was seen that more questions could confirm.",
		},
		"no rival": {map[string]string{"team": "01"}, "team", eval.TooFew, "There is nothing to compare: the verdict needs the arm team and another one."},
		"no team":  {map[string]string{"single": "01"}, "single", eval.TooFew, "There is nothing to compare: the verdict needs the arm team and another one."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := eval.Summarize(played(1, tc.outcomes), arms(t, tc.list))
			require.Equal(t, tc.sentence, s.Reason)
			require.Equal(t, tc.verdict, s.Verdict)
		})
	}
}

func TestCondition(t *testing.T) {
	t.Parallel()
	of := arms(t, "single,team")
	s := eval.Summarize(played(1, map[string]string{"single": "0011", "team": "0111"}), of)
	for text, want := range map[string]string{
		"0.75": "", "team>=single": "", "team > single": "", "single>=0.5": "",
		"0.8":          "below --fail-under 0.8: the accuracy of team is 0.750, and at least 0.800 is demanded",
		"single>=team": "the accuracy of single is 0.500, and at least 0.750, the accuracy of team, is demanded",
		"team>0.75":    "and more than 0.750 is demanded",
	} {
		c, err := eval.ParseCondition(text, of)
		require.NoError(t, err, text)
		if err = c.Check(s); want == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "is not a condition", "high": "is not a condition", "2": "from 0 to 1", "team>=plain": "there is no arm plain", "team=>single": "is not a condition", "NaN": "from 0 to 1",
	} {
		_, err := eval.ParseCondition(text, of)
		require.ErrorContains(t, err, want, text)
	}
}
