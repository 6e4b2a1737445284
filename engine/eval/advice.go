package eval

import (
	"cmp"
	"fmt"
	"slices"

	"conclave/engine/coordination"
)

// Replay compares a team with its members on recorded answers, or on its own first answers.
type Replay struct {
	Settings  string    `json:"settings,omitempty"` // swept keys, with their values
	Questions int       `json:"questions"`
	Members   []Named   `json:"members"`
	Team      Accuracy  `json:"team"`
	Pairs     []Pair    `json:"pairs"`
	Ceiling   float64   `json:"ceiling"`    // share of questions that some member gets right
	CoFailure []Failing `json:"co_failure"` // shares of questions on which two members are both wrong
	Spread    float64   `json:"spread"`     // accuracy of the best member less that of the worst
	Unanimous Unanimity `json:"unanimous"`
	Order     Order     `json:"order"`
	Calls     float64   `json:"calls"` // steps a question
	Curve     []Acting  `json:"curve"`
	Advice    []string  `json:"advice"`
}

// Accuracy is a share of right answers.
type Accuracy struct {
	Accuracy float64  `json:"accuracy"`
	CI95     Interval `json:"ci95"`
}

// Named is the accuracy of a member.
type Named struct {
	Name string `json:"name"`
	Accuracy
}

// Failing is the share of questions on which two members are both wrong.
type Failing struct {
	A     string  `json:"a"`
	B     string  `json:"b"`
	Share float64 `json:"share"`
}

// Unanimity is the share of questions with equal answers of all members, and that of right ones among
// these.
type Unanimity struct {
	Share float64 `json:"share"`
	Right float64 `json:"right"`
}

// Order is the accuracy of the team in the best and the worst configured order: of all orders of up to
// four members, and of more those in which another member comes first.
type Order struct {
	Best       float64  `json:"best"`
	Worst      float64  `json:"worst"`
	BestOrder  []string `json:"best_order"`
	WorstOrder []string `json:"worst_order"`
}

// Acting is the share of questions on which the team acts with a value of min_support, and that of right
// decisions among these.
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

func (t *trial) share(is func(i int, g *group) bool) float64 {
	return roundedShare(t.count(is), t.total)
}

// rightBy says, by group, whether some of the members in an order decide rightly.
func (t *trial) rightBy(order []int) []bool {
	referee := t.refereeOf(&t.lineup, order)
	right, row := make([]bool, len(t.groups)), make(answers, len(order))
	for i, g := range t.groups {
		for place, member := range order {
			row[place] = g.answers[member]
		}
		v := referee.decide(row, g.question)
		right[i] = v.winner >= 0 && row[v.winner].right
	}
	return right
}

func (t *trial) countRight(right []bool) int {
	return t.count(func(i int, _ *group) bool { return right[i] })
}

func (t *trial) accuracy(right []bool) Accuracy {
	k := t.countRight(right)
	return Accuracy{roundedShare(k, t.total), roundInterval(Wilson(float64(k), float64(t.total)))}
}

// compare compares two ways to decide.
func (t *trial) compare(a, b string, left, right []bool) Pair {
	won := t.count(func(i int, _ *group) bool { return left[i] && !right[i] })
	lost := t.count(func(i int, _ *group) bool { return !left[i] && right[i] })
	return pairOf(a, b, Paired{n: float64(t.total), sum: float64(won - lost), squares: float64(won + lost)}, won, lost)
}

func (t *trial) summarize() Replay {
	r := Replay{Questions: t.total, Pairs: []Pair{}, CoFailure: []Failing{}, Advice: []string{}}
	team, members, calls := make([]bool, len(t.groups)), make([][]bool, len(t.order)), 0
	for i, g := range t.groups {
		team[i], calls = g.right, calls+g.calls*g.count
		for seat, c := range g.answers {
			members[seat] = append(members[seat], c.right)
		}
	}
	best, worst := 0.0, 1.0
	for i, own := range members {
		r.Members = append(r.Members, Named{t.lineup.Seats[i].Name, t.accuracy(own)})
		best, worst = max(best, r.Members[i].Accuracy.Accuracy), min(worst, r.Members[i].Accuracy.Accuracy)
		r.Pairs = append(r.Pairs, t.compare(string(Team), r.Members[i].Name, team, own))
		for j, other := range members[:i] {
			a, b := r.Members[j].Name, r.Members[i].Name
			r.Pairs = append(r.Pairs, t.compare(b, a, own, other))
			r.CoFailure = append(r.CoFailure, Failing{a, b, t.share(func(i int, _ *group) bool { return !own[i] && !other[i] })})
		}
	}
	some := func(_ int, g *group) bool {
		return slices.ContainsFunc(g.answers, func(c cell) bool { return c.right })
	}
	alike := func(_ int, g *group) bool { return len(g.answers.equalTo(g.answers[0])) == len(g.answers) }
	r.Team, r.Ceiling, r.Spread, r.Unanimous.Share = t.accuracy(team), t.share(some), round(best-worst), t.share(alike)
	r.Unanimous.Right = roundedShare(t.count(func(i int, g *group) bool { return alike(i, g) && g.answers[0].right }), t.count(alike))
	r.Calls = round(float64(calls) / float64(max(t.total, 1)))
	r.Curve, r.Order = t.refuse(), t.reorder()
	if t.total >= leastForAdvice {
		r.Advice = append(r.Advice, t.advise(members, team)...)
	}
	return r
}

// refuse returns the curve of refusals, with a point for every share of votes that occurs.
func (t *trial) refuse() []Acting {
	shareOf := func(g *group) float64 {
		if g.winner < 0 || g.support == nil {
			return 0
		}
		return round(g.support.Share)
	}
	var shares []float64
	for _, g := range t.groups {
		shares = append(shares, shareOf(g))
	}
	slices.Sort(shares)
	curve := []Acting{}
	for _, least := range slices.Compact(shares) {
		acts := func(_ int, g *group) bool { return g.winner >= 0 && shareOf(g) >= least }
		right := t.count(func(i int, g *group) bool { return acts(i, g) && g.right })
		curve = append(curve, Acting{least, t.share(acts), roundedShare(right, t.count(acts))})
	}
	return curve
}

func (t *trial) reorder() (o Order) {
	for _, order := range t.orders() {
		k := roundedShare(t.countRight(t.rightBy(order)), t.total)
		var names []string
		for _, i := range order {
			names = append(names, t.lineup.Seats[i].Name)
		}
		if o.BestOrder == nil || k > o.Best {
			o.Best, o.BestOrder = k, names
		}
		if o.WorstOrder == nil || k < o.Worst {
			o.Worst, o.WorstOrder = k, names
		}
	}
	return o
}

func (t *trial) orders() (all [][]int) {
	if len(t.order) <= 4 {
		return permute(t.order)
	}
	for _, first := range t.order {
		all = append(all, append([]int{first}, t.without(first)...))
	}
	return all
}

func permute(items []int) [][]int {
	if len(items) == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for i, first := range items {
		for _, rest := range permute(slices.Concat(items[:i], items[i+1:])) {
			all = append(all, append([]int{first}, rest...))
		}
	}
	return all
}

func (t *trial) without(member int) []int {
	return slices.DeleteFunc(slices.Clone(t.order), func(i int) bool { return i == member })
}

// leastForAdvice is the number of questions below which there is no advice.
const leastForAdvice = 100

// alternative is another way to decide with the members of a team.
type alternative struct {
	words string // advice with a place for the gain
	right []bool
}

// advise advises an alternative if the paired 95 % interval of the team less it lies below 0 as a whole. It
// also says if members err alike.
func (t *trial) advise(members [][]bool, team []bool) (advice []string) {
	better := func(a, b int) int { return cmp.Compare(t.countRight(members[a]), t.countRight(members[b])) }
	best := slices.MaxFunc(t.order, better)
	top := t.lineup.Seats[best].Name
	single := []alternative{{"use one agent: " + top + " alone is %s better than the team", members[best]}}
	var orders, smaller []alternative
	for _, i := range t.order {
		name := t.lineup.Seats[i].Name
		orders = append(orders, alternative{"list " + name + " first: worth about %s", t.rightBy(append([]int{i}, t.without(i)...))})
		if weaker := t.compare(name, top, members[i], members[best]); len(t.order) > 2 && weaker.CI95[1] < 0 {
			words := fmt.Sprintf("leave %s out: %s weaker than %s; the others alone are %%s better than the team", name, formatPoints(-weaker.Difference), top)
			smaller = append(smaller, alternative{words, t.rightBy(t.without(i))})
		}
	}
	for _, all := range [][]alternative{single, smaller, orders} {
		if len(all) == 0 {
			continue
		}
		most := slices.MaxFunc(all, func(a, b alternative) int { return cmp.Compare(t.countRight(a.right), t.countRight(b.right)) })
		if p := t.compare("", "", team, most.right); p.CI95[1] < 0 {
			advice = append(advice, fmt.Sprintf(most.words+" (95 %% from %.1f to %.1f)", formatPoints(-p.Difference), -100*p.CI95[1], -100*p.CI95[0]))
		}
	}
	if names := t.errAlike(); names != "" {
		advice = append(advice, "members err alike: "+names+" mostly give the same wrong answer where both are wrong; a second maker would help more than a third copy")
	}
	return advice
}

// errAlike returns the two members that most often give the same wrong answer where both are wrong, if the
// interval of that share lies above one half.
func (t *trial) errAlike() (names string) {
	most := 0.5
	for i := range t.order {
		for j := range i {
			wrong := func(_ int, g *group) bool {
				a, b := g.answers[i], g.answers[j]
				return a.whole > 0 && b.whole > 0 && !a.right && !b.right
			}
			same := t.count(func(k int, g *group) bool { return wrong(k, g) && slices.Contains(g.answers.equalTo(g.answers[i]), j) })
			if low := Wilson(float64(same), float64(t.count(wrong)))[0]; low > most {
				names, most = t.lineup.Seats[j].Name+" and "+t.lineup.Seats[i].Name, low
			}
		}
	}
	return names
}

// Member is the first answer of an agent, made without seeing another one.
type Member struct {
	Agent string `json:"agent"`
	Key   string `json:"key"` // equal answers have equal keys; empty for no answer, if the agent has failed
	Right bool   `json:"right"`
}

// replaySamples summarizes sessions that were held, those in which every agent has either answered first
// by itself or failed. For other orders and smaller teams the agents vote for their own answers. It returns
// nil without any.
func replaySamples(samples []Sample) *Replay {
	p := &Replayer{recording: &Recording{}, referees: map[string]*referee{}}
	l := Lineup{Config: coordination.Config{MaxRevotes: 1}} // the default
	for _, s := range samples {
		if s.Conduct == nil || len(s.Conduct.Members) < max(len(l.Seats), 1) {
			continue
		}
		if len(s.Conduct.Members) > len(l.Seats) {
			p.cells, p.held, l.Seats = nil, nil, nil // those before were sessions of a part of the team
			for i, m := range s.Conduct.Members {
				l.Seats = append(l.Seats, Seat{Agent: m.Agent, Name: m.Agent, Member: i, Voter: Voter{Votes: VotesOwn}})
			}
		}
		var keys []string
		g := group{verdict: verdict{winner: -1, support: s.Conduct.Support, calls: int(s.Cost.ModelCalls)}, right: s.Right()}
		if s.Failed == "" {
			g.winner = 0
		}
		for _, m := range s.Conduct.Members {
			n := internNumber(&keys, m.Key)
			g.answers = append(g.answers, cell{n, n, m.Right})
		}
		p.cells, p.held = append(p.cells, g.answers), append(p.held, g)
	}
	if len(p.cells) == 0 {
		return nil
	}
	r := p.Replay(l)
	return &r
}
