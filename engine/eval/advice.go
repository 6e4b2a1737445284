package eval

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/coordination"
)

// Replay compares a team with its members on recorded answers, or on its own first answers.
type Replay struct {
	Settings  string     `json:"settings,omitempty"` // swept key with its value
	Questions int        `json:"questions"`
	Members   []Accuracy `json:"members"`
	Team      Accuracy   `json:"team"`
	Pairs     []Pair     `json:"pairs"`
	Ceiling   float64    `json:"ceiling"`    // share of questions that some member gets right
	CoFailure []Failing  `json:"co_failure"` // shares of questions on which two members are both wrong
	Spread    float64    `json:"spread"`     // accuracy of the best member less that of the worst
	Unanimous struct {
		Share float64 `json:"share"` // share of questions with equal answers of all members
		Right float64 `json:"right"` // share of right ones among these
	} `json:"unanimous"`
	Order struct { // accuracy in the best and the worst configured order
		Best  float64 `json:"best"`
		Worst float64 `json:"worst"`
	} `json:"order"`
	Calls  float64  `json:"calls"` // steps a question
	Curve  []Acting `json:"curve"`
	Advice []string `json:"advice"`
}

// Accuracy is a share of right answers.
type Accuracy struct {
	Name     string   `json:"name,omitempty"` // of a member
	Accuracy float64  `json:"accuracy"`
	CI95     Interval `json:"ci95"`
}

// Failing is the share of questions on which two members are both wrong.
type Failing struct {
	A     string  `json:"a"`
	B     string  `json:"b"`
	Share float64 `json:"share"`
}

// Acting is the share of questions decided with a value of min_support, and that of right ones among these.
type Acting struct {
	MinSupport float64 `json:"min_support"`
	Acted      float64 `json:"acted"`
	Right      float64 `json:"right"`
}

// count returns the number of questions in groups for which is holds.
func (t *trial) count(is func(i int, g *group) bool) (n int) {
	for i, g := range t.groups {
		if is(i, g) {
			n += g.count
		}
	}
	return n
}

func (t *trial) name(seat int) string { return t.recording.Members[t.lineup.Seats[seat].Member] }

// rightBy says, by group, whether some of the members in an order decide rightly.
func (t *trial) rightBy(order []int) []bool {
	referee := t.refereeOf(&t.lineup, order)
	right, row := make([]bool, len(t.groups)), make(answers, len(order))
	for i, g := range t.groups {
		for place, member := range order {
			row[place] = g.answers[member]
		}
		v, _ := referee.decide(row, g.question)
		right[i] = v.Right
	}
	return right
}

func (t *trial) countRight(right []bool) int {
	return t.count(func(i int, _ *group) bool { return right[i] })
}

func (t *trial) accuracy(name string, right []bool) Accuracy {
	k := t.countRight(right)
	return Accuracy{name, roundedShare(k, len(t.by)), roundInterval(Wilson(float64(k), float64(len(t.by))))}
}

// compare compares two ways to decide.
func (t *trial) compare(a, b string, left, right []bool) Pair {
	won := t.count(func(i int, _ *group) bool { return left[i] && !right[i] })
	lost := t.count(func(i int, _ *group) bool { return !left[i] && right[i] })
	return pairOf(a, b, Paired{n: float64(len(t.by)), sum: float64(won - lost), squares: float64(won + lost)}, won, lost)
}

func (t *trial) summarize() Replay {
	r := Replay{Questions: len(t.by), Pairs: []Pair{}, CoFailure: []Failing{}, Curve: []Acting{}, Advice: []string{}}
	team, members, calls, shares := make([]bool, len(t.groups)), make([][]bool, len(t.order)), 0, []float64{}
	for i, g := range t.groups {
		team[i], calls, shares = g.Right, calls+g.calls*g.count, append(shares, g.share())
		for seat, c := range g.answers {
			members[seat] = append(members[seat], c.right)
		}
	}
	best, worst, alike, most := 0, len(t.by), "", 0.5
	for i, own := range members {
		r.Members = append(r.Members, t.accuracy(t.name(i), own))
		best, worst = max(best, t.countRight(own)), min(worst, t.countRight(own))
		r.Pairs = append(r.Pairs, t.compare(string(Team), r.Members[i].Name, team, own))
		for j, other := range members[:i] {
			a, b := r.Members[j].Name, r.Members[i].Name
			r.Pairs = append(r.Pairs, t.compare(b, a, own, other))
			fail := func(k int, _ *group) bool { return !own[k] && !other[k] }
			r.CoFailure = append(r.CoFailure, Failing{a, b, roundedShare(t.count(fail), len(t.by))})
			same := t.count(func(k int, g *group) bool { return fail(k, g) && slices.Contains(g.answers.equalTo(g.answers[i]), j) })
			if low := Wilson(float64(same), float64(t.count(fail)))[0]; low > most {
				alike, most = a+" and "+b, low
			}
		}
	}
	some := func(_ int, g *group) bool { return slices.ContainsFunc(g.answers, cell.isRight) }
	agree := func(_ int, g *group) bool { return len(g.answers.equalTo(g.answers[0])) == len(g.answers) }
	r.Team, r.Ceiling, r.Spread = t.accuracy("", team), roundedShare(t.count(some), len(t.by)), roundedShare(best-worst, len(t.by))
	r.Unanimous.Share, r.Unanimous.Right = roundedShare(t.count(agree), len(t.by)), roundedShare(t.count(func(i int, g *group) bool { return agree(i, g) && g.answers[0].right }), t.count(agree))
	r.Calls, r.Order.Worst = roundDecimals(float64(calls)/float64(max(len(t.by), 1))), 1
	for _, order := range orders(nil, t.order...) {
		k := roundedShare(t.countRight(t.rightBy(order)), len(t.by))
		r.Order.Best, r.Order.Worst = max(r.Order.Best, k), min(r.Order.Worst, k)
	}
	slices.Sort(shares)
	for _, least := range slices.Compact(shares) {
		acts := func(_ int, g *group) bool { return g.Winner != "" && g.share() >= least }
		right := t.count(func(i int, g *group) bool { return acts(i, g) && g.Right })
		r.Curve = append(r.Curve, Acting{least, roundedShare(t.count(acts), len(t.by)), roundedShare(right, t.count(acts))})
	}
	if len(t.by) >= 100 { // fewer support no advice
		r.Advice = append(r.Advice, t.advise(members, team)...)
		if alike != "" {
			r.Advice = append(r.Advice, "members err alike: "+alike+" mostly give the same wrong answer where both are wrong; a second maker would help more than a third copy")
		}
	}
	return r
}

// share returns the share of votes for the decision.
func (g *group) share() float64 {
	if g.Winner == "" || g.Support == nil {
		return 0
	}
	return roundDecimals(g.Support.Share)
}

// orders returns all orders of up to four members; of more those in which another one comes first.
func orders(order []int, rest ...int) (all [][]int) {
	if len(rest) == 0 || len(order) == 1 && len(rest) > 3 {
		return [][]int{slices.Concat(order, rest)}
	}
	for _, next := range rest {
		all = append(all, orders(append(slices.Clone(order), next), without(rest, next)...)...)
	}
	return all
}

func without(members []int, member int) []int {
	return slices.DeleteFunc(slices.Clone(members), func(i int) bool { return i == member })
}

// advise advises an alternative if the paired 95 % interval of the team less it lies below 0 as a whole.
func (t *trial) advise(members [][]bool, team []bool) (advice []string) {
	best := slices.MaxFunc(t.order, func(a, b int) int { return cmp.Compare(t.countRight(members[a]), t.countRight(members[b])) })
	top := t.name(best)
	words, better := [3]string{}, [3][]bool{team, team, team} // advice with a place for the gain
	propose := func(kind int, advice string, right []bool) {
		if t.countRight(right) > t.countRight(better[kind]) {
			words[kind], better[kind] = advice, right
		}
	}
	propose(0, "use one agent: "+top+" alone is %s better than the team", members[best])
	for _, i := range t.order {
		name, others := t.name(i), without(t.order, i)
		if weaker := t.compare(name, top, members[i], members[best]); len(others) > 1 && weaker.CI95[1] < 0 {
			propose(1, "leave "+name+" out: "+formatPoints(-weaker.Difference)+" weaker than "+top+"; the others alone are %s better than the team", t.rightBy(others))
		}
		propose(2, "list "+name+" first: worth about %s", t.rightBy(append([]int{i}, others...)))
	}
	for i, right := range better {
		if p := t.compare("", "", team, right); p.CI95[1] < 0 {
			told := strings.Replace(words[i], "%s", formatPoints(-p.Difference), 1)
			advice = append(advice, fmt.Sprintf("%s (95 %% from %.1f to %.1f)", told, -100*p.CI95[1], -100*p.CI95[0]))
		}
	}
	return advice
}

// Member is the first answer of an agent, made without seeing another one.
type Member struct {
	Agent string `json:"agent"`
	Key   string `json:"key"` // equal answers have equal keys; empty for an agent that has failed without one
	Right bool   `json:"right"`
}

// replaySamples summarizes the sessions in which every agent has either answered first by itself or failed;
// nil without any. In other orders and smaller teams the agents vote for their own answers.
func replaySamples(samples []Sample) *Replay {
	size, p := 1, &Replayer{recording: &Recording{}, referees: map[string]*referee{}}
	for _, s := range samples {
		if s.Conduct != nil {
			size = max(size, len(s.Conduct.Members))
		}
	}
	t := &trial{Replayer: p, lineup: Lineup{Config: coordination.Config{MaxRevotes: 1}}} // the default
	for _, s := range samples {
		if s.Conduct == nil || len(s.Conduct.Members) < size {
			continue // a part of the team
		}
		g := &group{count: 1, verdict: verdict{coordination.Judged{Support: s.Conduct.Support, Right: s.Right()}, int(s.Cost.ModelCalls)}}
		if s.Failed == "" {
			g.Winner = string(Team)
		}
		for i, m := range s.Conduct.Members {
			if len(t.by) == 0 {
				p.recording.Members, t.order = append(p.recording.Members, m.Agent), append(t.order, i)
				t.lineup.Seats = append(t.lineup.Seats, Seat{Agent: m.Agent, Member: i, Voter: Voter{Votes: VotesOwn}})
			}
			g.answers = append(g.answers, cell{m.Key, m.Key, m.Key, m.Right})
		}
		t.groups, t.by = append(t.groups, g), append(t.by, g)
	}
	if len(t.by) == 0 {
		return nil
	}
	return new(t.summarize())
}
