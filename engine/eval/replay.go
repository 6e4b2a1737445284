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

// cell is a recorded answer.
type cell struct {
	text  string // empty for no answer
	whole string // digest of the text
	line  string // digest of the last line "ANSWER: …"; empty without one
	right bool
}

func (c cell) isRight() bool { return c.right }

// answers are the answers to a question, by place.
type answers []cell

// pattern returns a key that is the same for answers that equal each other in the same way and are right
// alike.
func (a answers) pattern() string {
	key := make([]byte, 0, 128)
	for _, c := range a {
		for of, part := range [3]string{c.text, c.whole, c.line} {
			first := slices.IndexFunc(a, func(c cell) bool { return [3]string{c.text, c.whole, c.line}[of] == part })
			if part == "" {
				first = maxMembers
			}
			key = append(key, byte(first))
		}
		key = strconv.AppendBool(key, c.right)
	}
	return string(key)
}

// equalTo returns the places with an answer equal to c.
func (a answers) equalTo(c cell) (places []int) {
	lines := !slices.ContainsFunc(a, func(c cell) bool { return c.text != "" && c.line == "" })
	for i, other := range a {
		if c.text != "" && (lines && other.line == c.line || !lines && other.whole == c.whole) {
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
	all := make([]answers, len(r.Questions))
	for i, q := range r.Questions {
		known := map[string]cell{"": {}}
		for _, member := range r.Members {
			text := q.Recorded(member)
			if _, seen := known[text]; !seen {
				d := digest(text)
				_, correct := q.Score("", text)
				known[text] = cell{text, d.Whole(agree), d.Line(agree), correct != nil && *correct}
			}
			all[i] = append(all[i], known[text])
		}
	}
	return all
}

// Replayer replays teams on a recording. Questions whose answers form the same pattern are decided once,
// unless votes depend on more than the answers.
type Replayer struct {
	recording *Recording
	cells     []answers
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
	judges bool // votes depend on more than the equality of answers
	blind  bool
	known  map[string]verdict // by pattern
}

// verdict is the end of a session. Its winner is empty if the session is undecided.
type verdict struct {
	coordination.Judged
	calls int // number of steps launched
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
		r.voters, r.judges = append(r.voters, seat.Voter), r.judges || seat.Voter.Judging > 0 || seat.Voter.Votes == ""
	}
	key := fmt.Sprint(r.config, r.blind, r.voters)
	if p.referees[key] == nil {
		p.referees[key] = r
	}
	return p.referees[key]
}

// decide returns the verdict on answers, and a key that is the same for answers with the same verdict.
func (r *referee) decide(a answers, question string) (_ verdict, key string) {
	if key = a.pattern(); r.judges {
		key += question
	}
	if _, known := r.known[key]; !known {
		r.known[key] = r.play(a, question)
	}
	return r.known[key], key
}

func (r *referee) place(agent string) int { return slices.Index(r.config.Agents, agent) }

// play plays a session. Steps end one after the other, in the order of their launches.
func (r *referee) play(a answers, question string) (v verdict) {
	s := coordination.New(r.config)
	for running := []coordination.Launch{}; v.calls < 1000; running = running[1:] { // others would not end
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
				if v.Support = c.Decision.Support; c.Decision.Status != coordination.Undecided && c.Decision.Winner != "" {
					v.Winner, v.Right = c.Decision.Winner, a[r.place(c.Decision.Winner)].right
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
	end, own := coordination.End{Launch: l.ID, Step: l.After + 1}, a[r.place(l.Agent)]
	var seen []coordination.Seen
	var shown answers
	b := Ballot{Again: l.Revote}
	for _, s := range l.Shown {
		seen = append(seen, coordination.Seen{Agent: s.Agent, Step: s.Step})
		shown, b.Labels = append(shown, a[r.place(s.Agent)]), append(b.Labels, s.Label)
	}
	b.Own = slices.IndexFunc(shown, func(c cell) bool { return c.text == own.text })
	switch mayAnswer := slices.Contains(l.Offered, coordination.NewAnswer); {
	case l.Purpose == coordination.Evaluate:
		return coordination.Evaluated{End: end}
	case l.Purpose == coordination.Evaluation:
		return coordination.Critiqued{End: end, Verdict: coordination.Converged}
	case own.text == "":
		return coordination.Failed{End: end, Cause: coordination.Failure{Type: "NoAnswer", Message: "no answer is recorded"}}
	case slices.Contains(l.Offered, coordination.Vote) && (b.Own >= 0 || !mayAnswer):
		b.Right = slices.IndexFunc(shown, cell.isRight)
		if b.Most, b.Tied = shown.mostGiven(); r.blind {
			b.Most = -1
		}
		choice, _ := r.voters[r.place(l.Agent)].Choose(question, l.Agent, b)
		return coordination.Voted{End: end, Choice: coordination.Choice{Target: l.Shown[choice].Agent, TargetLabel: l.Shown[choice].Label}, Seen: seen}
	}
	return coordination.Answered{End: end, Digest: coordination.Digest{Exact: own.whole, Normalized: own.whole, ExactLine: own.line, NormalizedLine: own.line}, Seen: seen}
}

// group has the questions whose answers form the same pattern and are right alike.
type group struct {
	answers  answers
	question string // one of them
	count    int
	verdict
}

// trial is a team with the groups of all questions.
type trial struct {
	*Replayer
	lineup Lineup
	groups []*group
	by     []*group // by question
	order  []int    // configured order
}

// play plays the sessions of a team on all questions.
func (p *Replayer) play(l Lineup) *trial {
	t := &trial{Replayer: p, lineup: l}
	for i := range l.Seats {
		t.order = append(t.order, i)
	}
	referee, byKey, row := t.refereeOf(&t.lineup, t.order), map[string]*group{}, make(answers, len(t.order))
	for i, cells := range t.cells {
		for seat, s := range t.lineup.Seats {
			row[seat] = cells[s.Member]
		}
		question := t.recording.Questions[i].ID
		v, key := referee.decide(row, question)
		g := byKey[key]
		if g == nil {
			g = &group{answers: slices.Clone(row), question: question, verdict: v}
			byKey[key], t.groups = g, append(t.groups, g)
		}
		g.count++
		t.by = append(t.by, g)
	}
	return t
}

// Judge returns the decisions of a team, by question.
func (p *Replayer) Judge(l Lineup) (all []coordination.Judged) {
	for _, g := range p.play(l).by {
		all = append(all, g.Judged)
	}
	return all
}

// Replay summarizes the decisions of a team on all questions.
func (p *Replayer) Replay(l Lineup) Replay { return p.play(l).summarize() }
