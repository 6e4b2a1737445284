package eval_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/eval"
	"conclave/engine/llm"
	"conclave/engine/session"
)

const header = "question_id\tcategory\tanswer\toptions\ta\tb\tc\n"

// A majority is right, a majority is wrong, all differ, and one has no answer.
const letters = header +
	"1\tmath\tA\t4\tA\tA\tB\n" +
	"2\tmath\tB\t4\tB\tC\tC\n" +
	"3\tlaw\tC\t5\tC\tD\tE\n" +
	"4\tlaw\tD\t5\t-\tA\tD\n"

func read(t *testing.T, file, data string) *eval.Recording {
	t.Helper()
	r, err := eval.ReadRecording(file, []byte(data))
	require.NoError(t, err)
	return r
}

func lineup(members ...int) eval.Lineup {
	l := eval.Lineup{Config: coordination.Config{MaxRevotes: 1}}
	for i, member := range members {
		l.Seats = append(l.Seats, eval.Seat{Agent: fmt.Sprintf("agent_%c", 'a'+i), Member: member, Voter: eval.Voter{Votes: eval.VotesOwn}})
	}
	return l
}

func TestReadRecording(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := w.Write([]byte(letters))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for _, r := range []*eval.Recording{read(t, "x.tsv", letters), read(t, "x.tsv.gz", zipped.String())} {
		require.Equal(t, []string{"a", "b", "c"}, r.Members)
		require.Len(t, r.Questions, 4)
		q := r.Questions[3]
		require.Equal(t, "Question 4 of the table, law: which of its 5 options is right?\n\n"+eval.Form, q.Prompt())
		require.Empty(t, q.Recorded("a"))
		require.Equal(t, "This answer is recorded; no language model was asked.\n\nANSWER: D", q.Recorded("c"))
	}
	lines := `{"id":"x","input":"2 + 2?","target":"4","answers":{"z":"4","b":"It is 5.\nANSWER: 5"}}` + "\n" +
		`{"id":"y","input":"2 + 3?","target":"5","answers":{"a":"def f():\n    return 5"}}`
	r := read(t, "x.jsonl", lines)
	require.Equal(t, []string{"a", "b", "z"}, r.Members)
	require.Contains(t, r.Questions[0].Recorded("z"), "\nANSWER: 4")
	require.Equal(t, "It is 5.\nANSWER: 5", r.Questions[0].Recorded("b"))
	require.Equal(t, "def f():\n    return 5", r.Questions[1].Recorded("a"))

	require.Equal(t, 1, eval.FindQuestion(r.Questions, "y\n\n# Files"))
	require.Equal(t, 1, eval.FindQuestion(r.Questions, r.Questions[1].Prompt()+"\n\n# Conversation"))
	require.Equal(t, -1, eval.FindQuestion(r.Questions, "2 + 3?"))
}

func TestReadRecording_refuses(t *testing.T) {
	t.Parallel()
	for want, file := range map[string][2]string{
		"line 1: a table of letters has the columns question_id, category, answer, options, then one for each member": {"x.tsv", "question_id\tcategory\tanswer\ta\n1\tmath\tA\tB\n"},
		"line 3: it has 6 columns, and the first line 7":                                                              {"x.tsv", header + "1\tm\tA\t4\tA\tB\tC\n2\tm\tA\t4\tA\tB\n"},
		"line 3: the id \"1\" is that of line 2, too":                                                                 {"x.tsv", header + "1\tm\tA\t4\tA\tB\tC\n1\tm\tA\t4\tA\tB\tC\n"},
		"it has no question": {"x.tsv", header},
		"unpack it: ":        {"x.tsv.gz", "\x1f\x8bno"},
		"it has answers of 0 members, and may have those of 1 to 250; give lines":   {"x.jsonl", `{"id":"x","input":"2 + 2?","target":"4"}`},
		"question x has the scorer command, which needs more than the recorded tex": {"x.jsonl", `{"id":"x","input":"f","target":"true","scorer":"command","answers":{"a":"4"}}`},
		"line 1: not a JSON object": {"x.txt", letters},
	} {
		_, err := eval.ReadRecording(file[0], []byte(file[1]))
		require.ErrorContains(t, err, want)
	}
	many := `{"id":"x","input":"2 + 2?","target":"4","answers":{"m0":"1"`
	for i := range 250 {
		many += fmt.Sprintf(`,"m%d":"1"`, i+1)
	}
	_, err := eval.ReadRecording("x.jsonl", []byte(many+"}}"))
	require.ErrorContains(t, err, "it has answers of 251 members")
}

func TestVoter(t *testing.T) {
	t.Parallel()
	labels := []string{"agent1.1", "agent2.1", "agent3.1"}
	for name, c := range map[string]struct {
		voter  eval.Voter
		ballot eval.Ballot
		want   int
		reason string
	}{
		"own":                       {eval.Voter{Votes: eval.VotesOwn}, eval.Ballot{Own: 2, Most: 0, Right: 1}, 2, "votes for its own answer"},
		"own is not shown":          {eval.Voter{Votes: eval.VotesOwn}, eval.Ballot{Own: -1, Most: 0, Right: 1}, 0, "follows most agents"},
		"plurality":                 {eval.Voter{Votes: eval.VotesPlurality}, eval.Ballot{Own: 2, Most: 0, Right: 1}, 0, "follows most agents"},
		"tied plurality":            {eval.Voter{Votes: eval.VotesPlurality}, eval.Ballot{Own: 2, Most: 0, Right: 1, Tied: true}, 2, "votes for its own answer"},
		"no plurality":              {eval.Voter{Votes: eval.VotesPlurality}, eval.Ballot{Own: 2, Most: -1, Right: 1}, 2, "votes for its own answer"},
		"judges":                    {eval.Voter{Votes: eval.VotesOwn, Judging: 1}, eval.Ballot{Own: 2, Most: 0, Right: 1}, 1, "recognizes it"},
		"judges, and none is right": {eval.Voter{Votes: eval.VotesOwn, Judging: 1}, eval.Ballot{Own: 2, Most: 0, Right: -1}, 2, "votes for its own answer"},
	} {
		c.ballot.Labels = labels
		choice, reason := c.voter.Choose("q1", "agent_a", c.ballot)
		require.Equal(t, c.want, choice, name)
		require.Equal(t, c.reason, reason, name)
	}
	guess := func(question string) int {
		choice, reason := eval.Voter{}.Choose(question, "agent_a", eval.Ballot{Labels: labels, Own: 0, Most: -1, Right: 1})
		require.Equal(t, "guesses", reason)
		return choice
	}
	guesses := map[int]int{}
	for i := range 300 {
		q := fmt.Sprint(i)
		first := guess(q)
		require.Equal(t, first, guess(q))
		guesses[first]++
	}
	require.InDelta(t, 100, guesses[1], 25, "three standard deviations")
}

func TestReplay(t *testing.T) {
	t.Parallel()
	player := eval.NewReplayer(read(t, "x.tsv", letters), "normalized", session.DigestText)
	r := player.Replay(lineup(0, 1, 2))
	require.Equal(t, 4, r.Questions)
	var names []string
	var shares []float64
	for _, m := range append(r.Members, r.Team) {
		names, shares = append(names, m.Name), append(shares, m.Accuracy)
	}
	require.Equal(t, []string{"a", "b", "c", ""}, names)
	require.Equal(t, []float64{0.75, 0.25, 0.25, 0.5}, shares)
	require.Equal(t, []eval.Failing{{A: "a", B: "b", Share: 0.25}, {A: "a", B: "c", Share: 0}, {A: "b", B: "c", Share: 0.5}}, r.CoFailure)
	require.Equal(t, []float64{1, 0.5, 0, 0}, []float64{r.Ceiling, r.Spread, r.Unanimous.Share, r.Unanimous.Right})
	require.Equal(t, []float64{0.75, 0.25}, []float64{r.Order.Best, r.Order.Worst}, "c before b is right on the last, a last is wrong on the third")
	require.Len(t, r.Pairs, 6)
	require.Equal(t, "team less a", r.Pairs[0].A+" less "+r.Pairs[0].B)
	require.InDelta(t, -0.25, r.Pairs[0].Difference, 1e-9)
	require.Greater(t, r.Calls, 6., "three answers, three votes, and a revote without a majority")
	require.InDelta(t, 1, r.Curve[0].Acted, 1e-9)
	last := r.Curve[len(r.Curve)-1]
	require.Equal(t, eval.Acting{MinSupport: 0.6667, Acted: 0.5, Right: 0.5}, last, "two have a majority of two of three")
	require.Empty(t, r.Advice, "four questions are too few")

	wrong := player.Judge(lineup(1, 0, 2))[2]
	require.Equal(t, "agent_a", wrong.Winner, "the member in the first place")
	require.False(t, wrong.Right)

	skilled := lineup(0, 1, 2)
	for i, skill := range []float64{0.2, 0.1, 0.9} {
		skilled.Seats[i].Skill = &skill
	}
	with := player.Replay(skilled)
	require.InDelta(t, with.Order.Best, with.Order.Worst, 0, "ties go to the greater skill in any order")
	require.InDelta(t, 0.5, with.Team.Accuracy, 1e-9, "c is wrong on the third and right on the last")

	undecided := lineup(0, 1, 2)
	undecided.Config.MinSupport = 0.6
	require.InDelta(t, 0.25, player.Replay(undecided).Team.Accuracy, 1e-9, "an undecided question is not right")
	small := lineup(2, 1, 0)
	small.Config.Start = 2
	require.Less(t, player.Replay(small).Calls, r.Calls)
}

// Answers are compared by their last lines only where all have one, as the core does it.
func TestReplay_texts(t *testing.T) {
	t.Parallel()
	lines := `{"id":"x","input":"?","target":"4","answers":{"a":"Two and two.\nANSWER: 4","b":"Counted.\nANSWER: 4","c":"ANSWER: 5\n"}}` + "\n" +
		`{"id":"y","input":"?!","target":"4","answers":{"a":"Two and two.\nANSWER: 4","b":"one\ntwo","c":"one\ntwo"}}`
	r := read(t, "x.jsonl", lines)
	for i, want := range []bool{true, false} {
		require.Equal(t, want, eval.NewReplayer(r, "normalized", session.DigestText).Judge(lineup(0, 1, 2))[i].Right, i)
	}
}

// repeated returns a table of n questions on which members are right as said; the wrong letter is the same.
func repeated(n int, right ...func(i int) bool) string {
	var b strings.Builder
	b.WriteString(header)
	for i := range n {
		fmt.Fprintf(&b, "%d\tm\tA\t4", i)
		for _, is := range right {
			b.WriteString(map[bool]string{true: "\tA", false: "\tB"}[is(i)])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestReplay_advice(t *testing.T) {
	t.Parallel()
	often := func(i int) bool { return i%10 > 0 }
	half := func(i int) bool { return i%2 == 0 }
	advice := func(n int, right ...func(i int) bool) string {
		return strings.Join(eval.NewReplayer(read(t, "x.tsv", repeated(n, right...)), "normalized", session.DigestText).Replay(lineup(0, 1, 2)).Advice, "\n")
	}
	told := advice(200, often, half, half)
	require.Contains(t, told, "use one agent: a alone is 40 points better than the team (95 % from 3")
	require.Contains(t, told, "leave b out: 40 points weaker than a; the others alone are 40 points better than the team")
	require.NotContains(t, told, "first")
	require.Contains(t, told, "members err alike: b and c mostly give the same wrong answer where both are wrong; a second maker")
	require.Empty(t, advice(99, often, half, half))
	require.NotContains(t, advice(200, often, often, often), "use one")

	thirds := func(of int) func(i int) bool { return func(i int) bool { return i%3 != of } }
	require.Empty(t, advice(300, thirds(0), thirds(1), thirds(2)), "the team is always right")
}

// The sessions of an evaluation are summarized like recorded ones, if every agent answered first by itself.
func TestSummarize_replay(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	var samples []eval.Sample
	for i, c := range []struct {
		correct *bool
		members []eval.Member
	}{
		{&yes, []eval.Member{{Agent: "agent_a", Key: "4", Right: true}, {Agent: "agent_b", Key: "4", Right: true}}},
		{&no, []eval.Member{{Agent: "agent_a", Key: "5"}, {Agent: "agent_b", Key: "4", Right: true}}},
		{&no, []eval.Member{{Agent: "agent_a"}, {Agent: "agent_b", Key: "7"}}},
		{&yes, []eval.Member{{Agent: "agent_b", Key: "4", Right: true}}},
	} {
		conduct := &eval.Conduct{Members: c.members, Support: &coordination.Support{Share: 0.5}}
		samples = append(samples, eval.Sample{ID: fmt.Sprint(i), Epoch: 1, Arm: "team", Correct: c.correct, Conduct: conduct, Cost: llm.Usage{ModelCalls: 4}})
	}
	r := eval.Summarize(samples, arms(t, "team")).Replay
	require.Equal(t, 3, r.Questions, "in one session an agent answered later")
	require.Equal(t, []string{"agent_a", "agent_b"}, []string{r.Members[0].Name, r.Members[1].Name})
	require.Equal(t, []float64{0.3333, 0.6667, 0.3333, 0.6667}, []float64{r.Members[0].Accuracy, r.Members[1].Accuracy, r.Team.Accuracy, r.Ceiling})
	require.Equal(t, []float64{0.3333, 1, 4, 0.6667, 0.3333}, []float64{r.Unanimous.Share, r.Unanimous.Right, r.Calls, r.Order.Best, r.Order.Worst})
	require.Equal(t, []eval.Acting{{MinSupport: 0.5, Acted: 1, Right: 0.3333}}, r.Curve)
	require.Nil(t, eval.Summarize([]eval.Sample{{ID: "x", Epoch: 1, Arm: "team", Correct: &yes}}, arms(t, "team")).Replay)
}

// A probability that is too small for four digits is zero.
func TestReplay_certainDifference(t *testing.T) {
	t.Parallel()
	never, always := func(int) bool { return false }, func(int) bool { return true }
	data, err := json.Marshal(eval.NewReplayer(read(t, "x.tsv", repeated(1017, always, never, never)), "normalized", session.DigestText).Replay(lineup(0, 1, 2)))
	require.NoError(t, err)
	require.Contains(t, string(data), `"p":0,`)
}
