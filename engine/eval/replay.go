package eval

import (
	"fmt"
	"slices"
	"strconv"

	"conclave/engine/coordination"
)

// Seat is the place of a member in a replayed team.
type Seat struct {
	Agent  string   // ID of the agent
	Name   string   // name in the report
	Member int      // its column in the recording
	Skill  *float64 // nil without one
	Voter  Voter
}

// Lineup is a team whose sessions are replayed. In another order its members take the IDs of the
// agents in whose places they are.
type Lineup struct {
	Seats  []Seat // in configured order
	Config coordination.Config
	Blind  bool // voters are not told which answers are equal
}

// cell is a recorded answer. Answers to the same question that are equal have equal numbers.
type cell struct {
	whole uint8 // of the digest of the text; 0 for no answer
	line  uint8 // of the digest of the last line "ANSWER: …"; 0 without one
	right bool
}

// digest returns a digest that equals those of equal answers to the same question.
func (c cell) digest() coordination.Digest {
	d := coordination.Digest{Exact: strconv.Itoa(int(c.whole))}
	if c.line > 0 {
		d.ExactLine = strconv.Itoa(int(c.line))
	}
	d.Normalized, d.NormalizedLine = d.Exact, d.ExactLine
	return d
}

// answers are the answers to a question, by place.
type answers []cell

// appendPattern appends bytes that are the same for answers that equal each other in the same way.
func (a answers) appendPattern(to []byte) []byte {
	var names [2][256]byte
	var next [2]byte
	for _, c := range a {
		for of, number := range [2]uint8{c.whole, c.line} {
			if number > 0 && names[of][number] == 0 {
				next[of]++
				names[of][number] = next[of]
			}
			to = append(to, names[of][number])
		}
	}
	return to
}

// equalTo returns the places with an answer equal to c.
func (a answers) equalTo(c cell) (places []int) {
	lines := !slices.ContainsFunc(a, func(c cell) bool { return c.whole > 0 && c.line == 0 })
	for i, other := range a {
		if c.whole > 0 && (lines && other.line == c.line || !lines && other.whole == c.whole) {
			places = append(places, i)
		}
	}
	return places
}

// mostGiven returns the place of the first of the most frequent answers, if several members gave it, else
// -1, and whether as many gave another.
func (a answers) mostGiven() (first int, tied bool) {
	first, most := -1, 1
	for i, c := range a {
		switch equal := a.equalTo(c); {
		case len(equal) == 0 || equal[0] < i:
		case len(equal) > most:
			first, most, tied = i, len(equal), false
		case len(equal) == most:
			tied = first >= 0
		}
	}
	return first, tied
}

// cellsOf returns the answers to each question, by member. Their digests are compared as agree says.
func (r *Recording) cellsOf(agree string, digest func(text string) coordination.Digest) []answers {
	digests := map[string]coordination.Digest{}
	all := make([]answers, len(r.Questions))
	for i, q := range r.Questions {
		var wholes, lines []string
		known := map[string]cell{"": {}}
		for m := range r.Members {
			text := r.Answer(i, m)
			c, seen := known[text]
			if !seen {
				if digests[text] == (coordination.Digest{}) {
					digests[text] = digest(text)
				}
				_, correct := q.Score(r.scorer, text)
				c = cell{internNumber(&wholes, digests[text].Whole(agree)), internNumber(&lines, digests[text].Line(agree)), correct != nil && *correct}
				known[text] = c
			}
			all[i] = append(all[i], c)
		}
	}
	return all
}

// internNumber returns the number of a value, from 1, or 0 for the empty one.
func internNumber(known *[]string, value string) uint8 {
	if value != "" && !slices.Contains(*known, value) {
		*known = append(*known, value)
	}
	return uint8(slices.Index(*known, value) + 1)
}

// Replayer replays teams on a recording. Questions whose answers form the same pattern are decided once,
// unless votes depend on more than the answers.
type Replayer struct {
	recording *Recording
	cells     []answers
	held      []group // sessions that were held, by question; nil for sessions to be played
	referees  map[string]*referee
}

// NewReplayer prepares the answers of a recording. digest returns the digest of a text, and agree is the
// value of coordination.Config.Agree.
func NewReplayer(r *Recording, agree string, digest func(text string) coordination.Digest) *Replayer {
	return &Replayer{recording: r, cells: r.cellsOf(agree, digest), referees: map[string]*referee{}}
}

// referee plays the sessions of a team in one order by the rules of the core.
type referee struct {
	config coordination.Config
	voters []Voter
	blind  bool
	known  map[string]verdict // by pattern; nil if votes depend on more
}

// verdict is the end of a session.
type verdict struct {
	winner  int // its place; -1 without one, and if the session is undecided
	support *coordination.Support
	calls   int // number of steps launched
}

// refereeOf returns the referee of some of a team's members in an order.
func (p *Replayer) refereeOf(l *Lineup, order []int) *referee {
	r := &referee{config: l.Config, blind: l.Blind, known: map[string]verdict{}}
	r.config.Agents, r.config.Skill = nil, map[string]float64{}
	for place, member := range order {
		id, seat := l.Seats[place].Agent, l.Seats[member]
		r.config.Agents = append(r.config.Agents, id)
		if seat.Skill != nil {
			r.config.Skill[id] = *seat.Skill
		}
		if r.voters = append(r.voters, seat.Voter); seat.Voter.judges() {
			r.known = nil
		}
	}
	key := fmt.Sprint(r.config.Agents, r.config.Skill, r.voters)
	if p.referees[key] == nil {
		p.referees[key] = r
	}
	return p.referees[key]
}

// decide returns the verdict on answers. The question matters to voters that judge.
func (r *referee) decide(a answers, question string) verdict {
	if r.known == nil {
		return r.play(a, question)
	}
	var buffer [64]byte
	key := a.appendPattern(buffer[:0])
	v, known := r.known[string(key)]
	if !known {
		v = r.play(a, question)
		r.known[string(key)] = v
	}
	return v
}

// maxLaunches bounds a session that would not end.
const maxLaunches = 1000

// play plays a session. Steps end one after the other, in the order of their launches.
func (r *referee) play(a answers, question string) verdict {
	s := coordination.New(r.config)
	v := verdict{winner: -1}
	for running := []coordination.Launch{}; v.calls < maxLaunches; running = running[1:] {
		for _, c := range s.Drain() {
			switch c := c.(type) {
			case coordination.Launch:
				running = append(running, c)
				v.calls++
			case coordination.Cancel:
				running = slices.DeleteFunc(running, func(l coordination.Launch) bool { return l.ID == c.ID })
				s.Step(coordination.Suspended{End: coordination.End{Launch: c.ID}})
			case coordination.Wait:
				s.Step(coordination.Waited{})
			case coordination.Done:
				if v.support = c.Decision.Support; c.Decision.Status != coordination.Undecided {
					v.winner = slices.Index(r.config.Agents, c.Decision.Winner)
				}
				return v
			case coordination.Record, coordination.Ring, coordination.Check, coordination.AskCaller:
			}
		}
		if len(running) == 0 {
			break // parked
		}
		s.Step(r.endOf(running[0], a, question))
	}
	return v
}

// endOf returns how a step ends: its agent gives the recorded answer, and then votes.
func (r *referee) endOf(l coordination.Launch, a answers, question string) coordination.Event {
	place := func(agent string) int { return slices.Index(r.config.Agents, agent) }
	end, own := coordination.End{Launch: l.ID, Step: l.After + 1}, a[place(l.Agent)]
	var seen []coordination.Seen
	var shown answers
	b := Ballot{Again: l.Revote}
	for _, s := range l.Shown {
		seen = append(seen, coordination.Seen{Agent: s.Agent, Step: s.Step})
		shown, b.Labels = append(shown, a[place(s.Agent)]), append(b.Labels, s.Label)
	}
	b.Own = slices.IndexFunc(shown, func(c cell) bool { return c.whole == own.whole })
	switch mayAnswer := slices.Contains(l.Offered, coordination.NewAnswer); {
	case l.Purpose == coordination.Evaluate:
		return coordination.Evaluated{End: end}
	case l.Purpose == coordination.Evaluation:
		return coordination.Critiqued{End: end, Verdict: coordination.Converged}
	case own.whole == 0:
		return coordination.Failed{End: end, Cause: coordination.Failure{Type: "NoAnswer", Message: "no answer is recorded"}}
	case slices.Contains(l.Offered, coordination.Vote) && (b.Own >= 0 || !mayAnswer):
		b.Right = slices.IndexFunc(shown, func(c cell) bool { return c.right })
		if b.Most, b.Tied = shown.mostGiven(); r.blind {
			b.Most = -1
		}
		choice, _ := r.voters[place(l.Agent)].Choose(question, l.Agent, b)
		return coordination.Voted{End: end, Choice: coordination.Choice{Target: l.Shown[choice].Agent, TargetLabel: l.Shown[choice].Label}, Seen: seen}
	}
	return coordination.Answered{End: end, Digest: own.digest(), Seen: seen}
}

// group has the questions whose answers form the same pattern and are right alike.
type group struct {
	answers  answers
	question string // one of them
	count    int
	verdict
	right bool // the decision
}

// trial is a team with the groups of all questions.
type trial struct {
	*Replayer
	lineup Lineup
	groups []*group
	order  []int // configured order
	total  int
}

func (p *Replayer) newTrial(l Lineup) *trial {
	t := &trial{Replayer: p, lineup: l, total: len(p.cells)}
	for i := range l.Seats {
		t.order = append(t.order, i)
	}
	referee, single := p.refereeOf(&l, t.order), p.held != nil
	byKey, row, key := map[string]*group{}, make(answers, len(l.Seats)), []byte{}
	for i, cells := range p.cells {
		key = key[:0]
		for seat, s := range l.Seats {
			row[seat] = cells[s.Member]
			key = strconv.AppendBool(key, row[seat].right)
		}
		if key = row.appendPattern(key); single || referee.known == nil {
			key = strconv.AppendInt(key, int64(i), 10)
		}
		g := byKey[string(key)]
		switch {
		case g == nil && single:
			g = &p.held[i]
		case g == nil:
			g = &group{answers: slices.Clone(row), question: p.recording.Questions[i].ID}
			g.verdict = referee.decide(row, g.question)
			g.right = g.winner >= 0 && row[g.winner].right
		}
		if g.count++; g.count == 1 {
			byKey[string(key)], t.groups = g, append(t.groups, g)
		}
	}
	return t
}

// Judge returns the decisions of a team on all questions.
func (p *Replayer) Judge(l Lineup) []coordination.Judged {
	var all []coordination.Judged
	for _, g := range p.newTrial(l).groups {
		all = append(all, slices.Repeat([]coordination.Judged{{Support: g.support, Right: g.right}}, g.count)...)
	}
	return all
}

// Replay summarizes the decisions of a team on all questions.
func (p *Replayer) Replay(l Lineup) Replay { return p.newTrial(l).summarize() }
