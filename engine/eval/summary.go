package eval

import (
	"fmt"
	"math"
	"slices"

	"conclave/engine/eval/stats"
	"conclave/engine/llm"
)

// Summary is the result of an evaluation, summary.json.
type Summary struct {
	Arms    map[string]Figures `json:"arms"`
	Order   []string           `json:"order"` // order of the arms
	Pairs   []Pair             `json:"pairs"`
	Team    *TeamFigures       `json:"team"` // null without the arm team
	Verdict Worth              `json:"verdict"`
	Reason  string             `json:"sentence"` // the verdict for people
}

// Figures are the results of an arm. For Accuracy, an answer that failed or could not be read
// is not right.
type Figures struct {
	N            int            `json:"n"`
	Correct      int            `json:"correct"`
	Accuracy     float64        `json:"accuracy"`
	CI95         stats.Interval `json:"ci95"`
	Unparsed     int            `json:"unparsed"`
	Failed       int            `json:"failed"`
	Tokens       int64          `json:"tokens"`
	CachedTokens int64          `json:"cached_tokens"`
	TotalUSD     *float64       `json:"total_usd"` // null if a price is unknown
	ModelCalls   int64          `json:"model_calls"`
	Seconds      float64        `json:"seconds"`
}

// Pair compares two arms on the questions that both have answered.
type Pair struct {
	A          string         `json:"a"`
	B          string         `json:"b"`
	Difference float64        `json:"difference"` // accuracy of A less that of B
	CI95       stats.Interval `json:"ci95"`
	P          float64        `json:"p"`                // p-value of the exact McNemar test
	Needed     *int           `json:"questions_needed"` // null if no difference was seen
	N          int            `json:"n"`                // number of questions
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
	sortSamples(samples)
	s := Summary{Arms: map[string]Figures{}, Pairs: []Pair{}}
	byArm := map[string][]Sample{}
	for _, sample := range samples {
		byArm[sample.Arm] = append(byArm[sample.Arm], sample)
	}
	for _, arm := range arms {
		own := byArm[arm.Name]
		if len(own) == 0 {
			continue
		}
		for _, before := range s.Order {
			if p := compare(own, byArm[before]); p.N > 0 {
				s.Pairs = append(s.Pairs, p)
			}
		}
		s.Order = append(s.Order, arm.Name)
		s.Arms[arm.Name] = figures(own)
		if arm.Decides() {
			s.Team = teamFigures(own)
		}
	}
	s.Verdict, s.Reason = s.judge(arms)
	return s
}

func figures(samples []Sample) Figures {
	f := Figures{N: len(samples)}
	var spent llm.Usage
	for _, s := range samples {
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
	means := means(samples)
	sum := 0.0
	for _, m := range means {
		sum += m
	}
	f.Accuracy = float64(f.Correct) / float64(f.N)
	f.CI95 = rounded(stats.Wilson(sum, float64(len(means))))
	f.Tokens, f.CachedTokens, f.TotalUSD, f.ModelCalls = tokens(spent), spent.CachedInputTokens, spent.TotalUSD, spent.ModelCalls
	f.Seconds = round(f.Seconds)
	return f
}

// means returns the share of right answers of each question over its epochs.
func means(samples []Sample) map[string]float64 {
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

// compare compares two arms on the epochs of questions that both have. With several epochs,
// the arm with more right answers wins a question.
func compare(a, b []Sample) Pair {
	p := Pair{A: a[0].Arm, B: b[0].Arm}
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
	p.N = len(each)
	p.Difference, p.CI95 = stats.Difference(each)
	p.Difference, p.CI95, p.P = round(p.Difference), rounded(p.CI95), significant(stats.McNemar(wins, losses))
	if needed, ok := stats.Needed(each); ok {
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
	t.FirstRight, t.AnyRight = share(right, firsts), share(anyRight, conducted)
	if t.Votes > 0 {
		judging, byChance := share(judged, t.Votes), round(chance/float64(t.Votes))
		t.Judging, t.ByChance = &judging, &byChance
	}
	return t
}

func share(k, n int) float64 {
	if n == 0 {
		return 0
	}
	return round(float64(k) / float64(n))
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

// significant rounds to four significant digits.
func significant(x float64) float64 {
	if x == 0 {
		return 0
	}
	unit := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*unit) / unit
}

func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }

func rounded(in stats.Interval) stats.Interval { return stats.Interval{round(in[0]), round(in[1])} }
