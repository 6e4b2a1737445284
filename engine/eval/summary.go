package eval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// Summary is the result of an evaluation, summary.json.
type Summary struct {
	Arms    map[string]Figures `json:"arms"`
	Order   []string           `json:"order"` // order of the arms
	Pairs   []Pair             `json:"pairs"`
	Team    *TeamFigures       `json:"team"` // null without the arm team
	Verdict Worth              `json:"verdict"`
	Reason  string             `json:"sentence"`         // the verdict for people
	Replay  *Replay            `json:"replay,omitempty"` // of the arm team
}

// Figures are the results of an arm. For Accuracy, an answer that failed or could not be read
// is not right.
type Figures struct {
	N            int      `json:"n"`
	Correct      int      `json:"correct"`
	Accuracy     float64  `json:"accuracy"`
	CI95         Interval `json:"ci95"`
	Unparsed     int      `json:"unparsed"`
	Failed       int      `json:"failed"`
	Tokens       int64    `json:"tokens"`
	CachedTokens int64    `json:"cached_tokens"`
	TotalUSD     *float64 `json:"total_usd"` // null if a price is unknown
	ModelCalls   int64    `json:"model_calls"`
	Seconds      float64  `json:"seconds"`

	// Fields is the accuracy of each field, by its path, with the scorer JSON.
	Fields map[string]float64 `json:"fields,omitempty"`
}

// Pair compares two arms on the questions that both have answered.
type Pair struct {
	A          string   `json:"a"`
	B          string   `json:"b"`
	Difference float64  `json:"difference"` // accuracy of A less that of B
	CI95       Interval `json:"ci95"`
	P          float64  `json:"p"`                // p-value of the exact McNemar test
	Needed     *int     `json:"questions_needed"` // null if no difference was seen
	N          int      `json:"n"`                // number of questions
}

// TeamFigures explain why the team is better or worse than its rivals.
type TeamFigures struct {
	FirstRight float64        `json:"first_right"` // share of the first answers
	Judging    *float64       `json:"judging"`     // share of the votes; null without any
	ByChance   *float64       `json:"judging_by_chance"`
	Votes      int            `json:"votes"` // cast where right and wrong answers were shown
	Helped     int            `json:"helped"`
	Hurt       int            `json:"hurt"`
	AnyRight   float64        `json:"any_right"` // share of the questions
	Lost       int            `json:"lost"`      // number of agents that failed
	Statuses   map[string]int `json:"statuses"`
}

// Summarize summarizes the samples of an evaluation. Arms determines the order of the arms.
func Summarize(samples []Sample, arms []Arm) Summary {
	samples = slices.Clone(samples)
	slices.SortStableFunc(samples, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Arm, b.Arm))
	})
	s := Summary{Arms: map[string]Figures{}, Pairs: []Pair{}}
	byArm := groupByArm(samples)
	for _, arm := range arms {
		own := byArm[arm.Name]
		if len(own) == 0 {
			continue
		}
		for _, before := range s.Order {
			if p := compareArms(own, byArm[before]); p.N > 0 {
				s.Pairs = append(s.Pairs, p)
			}
		}
		s.Order = append(s.Order, arm.Name)
		s.Arms[arm.Name] = armFigures(own)
		if arm.Decides() {
			s.Team, s.Replay = teamFigures(own), replaySamples(own)
		}
	}
	s.Verdict, s.Reason = s.judgeTeam(arms)
	return s
}

func armFigures(samples []Sample) Figures {
	f := Figures{N: len(samples), Fields: map[string]float64{}}
	var spent llm.Usage
	right, all := map[string]int{}, map[string]int{}
	for _, s := range samples {
		for path, ok := range s.Fields {
			if all[path]++; ok {
				right[path]++
			}
			f.Fields[path] = roundedShare(right[path], all[path])
		}
		switch {
		case s.Right():
			f.Correct++
		case s.Failed != "":
			f.Failed++
		case s.Correct == nil:
			f.Unparsed++
		}
		spent = spent.Add(s.Cost)
		f.Seconds += s.Seconds
	}
	means := meanScores(samples)
	sum := 0.0
	for _, m := range means {
		sum += m
	}
	f.Accuracy = float64(f.Correct) / float64(f.N)
	f.CI95 = roundInterval(Wilson(sum, float64(len(means))))
	f.Tokens, f.CachedTokens, f.TotalUSD, f.ModelCalls = totalTokens(spent), spent.CachedInputTokens, spent.TotalUSD, spent.ModelCalls
	f.Seconds = roundDecimals(f.Seconds)
	return f
}

func meanScores(samples []Sample) map[string]float64 {
	right, epochs := map[string]float64{}, map[string]float64{}
	for _, s := range samples {
		epochs[s.ID]++
		if s.Right() {
			right[s.ID]++
		}
	}
	out := map[string]float64{}
	for id, n := range epochs {
		out[id] = right[id] / n
	}
	return out
}

// compareArms compares two arms on the epochs of questions that both have. With several epochs,
// the arm with more right answers wins a question.
func compareArms(a, b []Sample) Pair {
	other := map[Key]Sample{}
	for _, s := range b {
		other[Key{ID: s.ID, Epoch: s.Epoch}] = s
	}
	sums, epochs := map[string]float64{}, map[string]float64{}
	for _, s := range a {
		o, both := other[Key{ID: s.ID, Epoch: s.Epoch}]
		if !both {
			continue
		}
		epochs[s.ID]++
		switch {
		case s.Right() && !o.Right():
			sums[s.ID]++
		case o.Right() && !s.Right():
			sums[s.ID]--
		}
	}
	var each []float64
	wins, losses := 0, 0
	for id, n := range epochs {
		d := sums[id] / n
		each = append(each, d)
		if d > 0 {
			wins++
		} else if d < 0 {
			losses++
		}
	}
	slices.Sort(each) // sums of floating-point numbers depend on the order
	return pairOf(a[0].Arm, b[0].Arm, PairUp(each), wins, losses)
}

// pairOf compares a with b, of which a alone is right in wins cases and b alone in losses.
func pairOf(a, b string, of Paired, wins, losses int) Pair {
	p := Pair{A: a, B: b, N: int(of.n), P: roundSignificant(McNemar(wins, losses))}
	mean, in := of.Difference()
	p.Difference, p.CI95 = roundDecimals(mean), roundInterval(in)
	if needed, ok := of.Needed(); ok {
		p.Needed = &needed
	}
	return p
}

func teamFigures(samples []Sample) *TeamFigures {
	t := &TeamFigures{Statuses: map[string]int{}}
	firsts, right, anyRight, judged, conducted := 0, 0, 0, 0, 0
	chance := 0.0
	for _, s := range samples {
		c := s.Conduct
		if c == nil {
			continue
		}
		conducted++
		t.Statuses[c.Status]++
		t.Lost += c.Lost
		some := false
		for _, first := range c.First {
			firsts++
			if first != nil && *first {
				right++
				some = true
			}
		}
		if some {
			anyRight++
		}
		if first := c.FirstVote != nil && *c.FirstVote; s.Right() && !first {
			t.Helped++
		} else if first && !s.Right() {
			t.Hurt++
		}
		t.Votes += c.Votes
		judged += c.Judged
		chance += c.Chance
	}
	t.FirstRight, t.AnyRight = roundedShare(right, firsts), roundedShare(anyRight, conducted)
	if t.Votes > 0 {
		judging, byChance := roundedShare(judged, t.Votes), roundDecimals(chance/float64(t.Votes))
		t.Judging, t.ByChance = &judging, &byChance
	}
	return t
}

func roundedShare(k, n int) float64 {
	if n == 0 {
		return 0
	}
	return roundDecimals(float64(k) / float64(n))
}

// Cost returns TotalUSD as text.
func (f Figures) Cost() string {
	if f.TotalUSD == nil {
		return "unknown"
	}
	return fmt.Sprintf("$%.4f", *f.TotalUSD)
}

// Judged says how to read the two figures of a Pair.
const Judged = "The verdict goes by the interval alone; p is a second look, and neither is corrected for the number of rows."

// Probability returns P as text.
func (p Pair) Probability() string {
	if p.P < 1e-4 {
		return "<0.0001"
	}
	return fmt.Sprintf("%.4f", p.P)
}

func roundSignificant(x float64) float64 {
	if math.Abs(x) < 1e-300 { // the unit would be infinite
		return 0
	}
	unit := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*unit) / unit
}

// roundDecimals rounds to four decimals; -0 becomes 0.
func roundDecimals(x float64) float64 { return math.Round(x*1e4)/1e4 + 0 }

func roundInterval(in Interval) Interval { return Interval{roundDecimals(in[0]), roundDecimals(in[1])} }

// Sample is the outcome of a question in one epoch and arm, a line of samples.jsonl.
type Sample struct {
	ID        string    `json:"id"`
	Epoch     int       `json:"epoch"`
	Arm       string    `json:"arm"`
	Answer    string    `json:"answer"`
	Extracted string    `json:"extracted"`
	Correct   *bool     `json:"correct"` // null if the answer failed, is undecided or could not be read
	SessionID string    `json:"session_id"`
	Cost      llm.Usage `json:"cost"`
	Seconds   float64   `json:"seconds"`

	// Paid is the cost of Runs: the sessions and pipeline runs of the question that no
	// earlier outcome has paid for.
	Paid llm.Usage `json:"paid"`
	Runs []string  `json:"runs,omitempty"`
	// Failed is the reason why there is no answer; it is empty if there is one.
	Failed string `json:"failed,omitempty"`
	// Samples is the number of answers that a vote counted.
	Samples int `json:"samples,omitempty"`
	// Fields has the fields of the answer and of the target, and whether each is right.
	Fields map[string]bool `json:"fields,omitempty"`
	// Conduct describes how the team came to its answer; it is null for other arms.
	Conduct *Conduct `json:"team,omitempty"`
}

// Right reports whether the answer is right.
func (s Sample) Right() bool { return s.Correct != nil && *s.Correct }

// Outcome returns the outcome in one word.
func (s Sample) Outcome() string {
	switch {
	case s.Right():
		return "right"
	case s.Failed != "":
		return "failed"
	case s.Correct == nil:
		return "unparsed"
	}
	return "wrong"
}

// Key identifies a sample in an evaluation.
type Key struct {
	ID    string
	Epoch int
	Arm   string
}

// Key returns the key of a sample.
func (s Sample) Key() Key { return Key{s.ID, s.Epoch, s.Arm} }

// Conduct describes how a team came to a decision.
type Conduct struct {
	Status    string  `json:"status"`
	FirstVote *bool   `json:"first_vote"` // whether the vote of the first answers is right
	First     []*bool `json:"first"`      // whether each first answer is right
	Lost      int     `json:"lost"`       // agents that had failed at the end

	// Members has the first answers of the agents in configured order; agents that answered later, or did
	// not take part, are missing.
	Members []Member              `json:"members,omitempty"`
	Support *coordination.Support `json:"support,omitempty"` // support of the decision

	// Votes counts the votes that were cast when both right and wrong answers were shown, and
	// Judged those of them for a right one. Chance is the number for a right one that votes
	// at random would have had.
	Votes  int     `json:"votes"`
	Judged int     `json:"judged"`
	Chance float64 `json:"chance"`
}

// ReadSamples reads samples.jsonl and keeps the last line for each question, epoch and arm.
// It ignores a last line that was cut off; any other unreadable line is an error.
func ReadSamples(data []byte) ([]Sample, error) {
	var samples []Sample
	at := map[Key]int{}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		var s Sample
		if err := json.Unmarshal(line, &s); err != nil {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			return nil, fmt.Errorf("line %d: %w; remove the line, and its question is asked again", number, err)
		}
		if i, known := at[s.Key()]; known {
			samples[i] = s
			continue
		}
		at[s.Key()] = len(samples)
		samples = append(samples, s)
	}
	return samples, nil
}

// Vote returns the index of the answer whose key occurs most often; ties go to the answer
// given first. It returns -1 if all keys are empty.
func Vote(keys []string) (winner int) {
	counts := map[string]int{}
	for _, key := range keys {
		counts[key]++
	}
	winner = -1
	for i, key := range keys {
		if key != "" && (winner < 0 || counts[key] > counts[keys[winner]]) {
			winner = i
		}
	}
	return winner
}

// Matching returns how many samples cost as many tokens as the team, at least one. Firsts are
// the usages of single answers.
func Matching(team llm.Usage, firsts []llm.Usage) int {
	var each int64
	for _, u := range firsts {
		each += totalTokens(u)
	}
	if each == 0 {
		return 1
	}
	k := (totalTokens(team)*int64(len(firsts)) + each/2) / each
	return int(min(max(k, 1), MostSamples))
}

func totalTokens(u llm.Usage) int64 { return u.InputTokens + u.OutputTokens }

// Across compares the arms that two evaluations have in common. Differences are those of the
// second less the first.
func Across(first, second []Sample, arms []Arm) []Pair {
	before, after := groupByArm(first), groupByArm(second)
	var pairs []Pair
	for _, arm := range arms {
		a, b := after[arm.Name], before[arm.Name]
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		if p := compareArms(a, b); p.N > 0 {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

func groupByArm(samples []Sample) map[string][]Sample {
	byArm := map[string][]Sample{}
	for _, s := range samples {
		byArm[s.Arm] = append(byArm[s.Arm], s)
	}
	return byArm
}
