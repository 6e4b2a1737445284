package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
)

// maxQuote is the maximum length of a quoted reason, in characters.
const maxQuote = 400

// explainOutcome returns at most three sentences that explain from the record why the session ended
// as it did. The reasons of the voters and the facts have the rest.
func explainOutcome(s *record.Session) []string {
	w := &why{s: s, final: s.Winner()}
	w.tellDecision()
	if !s.Running() {
		w.tellTie()
		if f := w.s.State.Final; f != nil && f.Label != "" && w.final != nil && f.Label != w.final.Answer.Label {
			w.addSentence("%s then presented it as %s.", f.Agent, f.Label)
		}
	}
	return w.sentences
}

// why collects sentences.
type why struct {
	s         *record.Session
	final     *record.Step // winning answer; nil without one
	sentences []string
}

func (w *why) addSentence(format string, args ...any) {
	w.sentences = append(w.sentences, fmt.Sprintf(format, args...))
}

// countActive counts the agents that have joined and not failed.
func countActive(s *record.Session) int {
	n := 0
	for _, a := range s.Agents {
		if a.Error == nil && !a.Absent {
			n++
		}
	}
	return n
}

func (w *why) tellDecision() {
	st := w.s.State
	if w.s.Running() {
		w.addSentence("%s", describeProgress(w.s))
		return
	}
	if st.Winner == "" {
		w.addSentence("%s", explainNoWinner(w.s))
		return
	}
	winner := st.Winner
	if w.final != nil {
		winner = fmt.Sprintf("%s, the answer of %s,", w.final.Answer.Label, st.Winner)
	}
	votes := fmt.Sprintf("%d of %s", st.Votes[st.Winner], cli.Plural(countActive(w.s), "active agent"))
	switch coordination.Status(st.Status) {
	case coordination.Consensus:
		w.addSentence("%s %s", winner, consensusWords(st, votes))
	case coordination.Plurality:
		w.addSentence("%s %s", winner, pluralityWords(st, votes))
	case coordination.Undecided:
		w.addSentence("%s", undecidedWords(w.s, winner, votes))
	case coordination.Presented:
		if st.DecidedBy == coordination.BySkill {
			w.addSentence("%s is the final answer: this team does not vote, and the agent with the greatest skill gave it.", winner)
			break
		}
		w.addSentence("%s is the final answer: this team does not vote, its presenter joins the work.", winner)
	default:
		w.addSentence("%s was taken by force: %s. It had the fresh votes of %s at that moment.", winner, forcedBy(st.Status), votes)
	}
}

func consensusWords(st acts.State, votes string) string {
	switch st.DecidedBy {
	case coordination.ByAgreement:
		return "won by consensus before any vote: more than half of the agents gave an equal first answer."
	case coordination.ByQuorum:
		told := "won by consensus of a quorum: " + votes + " voted for it"
		if len(st.Cut) > 0 {
			return told + "; cut off by the quorum: " + joinWords(st.Cut) + "."
		}
		return told + "."
	case coordination.ByChecks:
		return "won by consensus, and by its checks: " + votes + " voted for it."
	}
	return "won by consensus: " + votes + " voted for it, all with every newest answer in view."
}

func pluralityWords(st acts.State, votes string) string {
	switch st.DecidedBy {
	case coordination.ByChecks:
		return "won by its checks, which rank before the votes: " + votes + " voted for it."
	case coordination.BySkill:
		return "won a tie by skill, since the agent with the greatest of those tied gave it: " + votes + " voted for it."
	}
	return "won without a majority: " + votes + " voted for it, and no answer had more than half of the votes."
}

func undecidedWords(s *record.Session, best, votes string) string {
	told := "Nothing was decided: the best answer has too little support. It is " + strings.TrimSuffix(best, ",") + ", with the fresh votes of " + votes
	if least := s.Team.Orchestrator.Act.MinSupport; least != nil {
		told += fmt.Sprintf("; min_support asks for %.0f %%", 100**least)
	}
	if wrong := s.Team.Orchestrator.Act.Wrong; wrong != nil {
		told += fmt.Sprintf("; with as little support, more than %g %% of the calibrated decisions could be wrong", 100**wrong)
	}
	return told + "."
}

func forcedBy(status string) string {
	switch coordination.Status(status) {
	case coordination.Finished:
		return "a person asked for a decision"
	case coordination.Timeout:
		return "the session's time ran out"
	case coordination.OverSpent:
		return "the session's budget ran out"
	case coordination.Limit:
		return "the agents used up their steps"
	}
	return "the session ended as " + status
}

func explainNoWinner(s *record.Session) string {
	why := "the session ended without an answer"
	switch {
	case s.State.Status == string(coordination.Cancelled):
		return "Nothing was decided: a person cancelled the session."
	case s.State.Error != nil:
		why = s.State.Error.Message
		if why == "" {
			why = s.State.Error.Type
		}
	}
	return "Nothing was decided: " + strings.TrimSuffix(cleanLine(why), ".") + "."
}

func (w *why) tellTie() {
	tied := tiedWith(w.s)
	if len(tied) == 0 || w.final == nil {
		return
	}
	w.addSentence("It was a tie: the answers of %s had as many votes, and the rule for ties chose %s.", joinWords(tied), w.final.Answer.Label)
}

func tiedWith(s *record.Session) []string {
	var tied []string
	if len(s.State.Tie) > 0 {
		return slices.DeleteFunc(slices.Clone(s.State.Tie), func(id string) bool { return id == s.State.Winner })
	}
	most := s.State.Votes[s.State.Winner]
	if s.State.Winner == "" || s.Running() || most == 0 {
		return nil
	}
	for _, a := range s.Agents {
		if a.ID != s.State.Winner && s.State.Votes[a.ID] == most {
			tied = append(tied, a.ID)
		}
	}
	return tied
}

// side has the votes for the answers of one agent, with their reasons.
type side struct {
	Label string
	Class string // color of the author
	For   bool   // it won
	Votes int
	Moved int // voters that had another answer or another vote before
	Said  []reason
	Moves []string // earlier choices of the voters of a large team
}

// reason is a reason that several voters gave, with their earlier choices.
type reason struct {
	Voters []voter
	Text   string
	Moves  []string
	Stale  bool
}

type voter struct{ Name, Class, Step string }

// By names the first voter who gave the reason, and counts the others.
func (r reason) By() string {
	if others := len(r.Voters) - 1; others > 0 {
		return r.Voters[0].Name + " and " + cli.Plural(others, "other")
	}
	return r.Voters[0].Name
}

// Because returns the reason that most of the decision's voters gave, for the first screen; nil without one.
func (v *view) Because() *reason {
	var most *reason
	for _, s := range v.Sides {
		for i, r := range s.Said {
			if s.For && !r.Stale && r.Text != "" && (most == nil || len(r.Voters) > len(most.Voters)) {
				most = &s.Said[i]
			}
		}
	}
	return most
}

// sidesOf groups the votes that were not replaced by the author of their answer: the winner first,
// then those with most votes. Equal reasons are one.
func sidesOf(s *record.Session) []side {
	moves := changedMinds(s)
	var sides []side
	of := map[string]int{}
	for _, p := range standingVotes(s) {
		at, known := of[p.Vote.Target]
		if !known {
			at, of[p.Vote.Target] = len(sides), len(sides)
			sides = append(sides, side{Label: p.Vote.TargetLabel, Class: agentClass(s, p.Vote.Target), For: hasWon(s, p.Vote.Target)})
		}
		var told []string
		for _, m := range moves {
			if m.agent == p.Agent {
				told = append(told, m.words(m.target == p.Vote.Target))
			}
		}
		sides[at].addVote(s, p, told)
	}
	slices.SortStableFunc(sides, func(a, b side) int {
		return cmp.Or(compareFlags(a.For, b.For), cmp.Compare(b.Votes, a.Votes))
	})
	for i := range sides {
		one := &sides[i]
		for j, r := range one.Said {
			if len(s.Agents) > manyAgents || len(r.Voters) > 3 {
				one.Moves, one.Said[j].Moves = append(one.Moves, r.Moves...), nil
			}
		}
	}
	return sides
}

// hasWon reports whether the decision is for an agent's answer. An undecided session has no winner,
// although its state names the best answer.
func hasWon(s *record.Session, agent string) bool {
	return s.State.Winner == agent && !s.Running() && s.State.Status != string(coordination.Undecided)
}

// compareFlags puts a set flag first.
func compareFlags(a, b bool) int {
	if a == b {
		return 0
	}
	return map[bool]int{true: -1, false: 1}[a]
}

// addVote joins votes with the same reason, unless their voters had told different things before.
func (s *side) addVote(of *record.Session, p *record.Step, moves []string) {
	s.Votes++
	if len(moves) > 0 {
		s.Moved++
	}
	r := reason{Text: briefLine(p.Vote.Reason, maxQuote), Moves: moves, Stale: p.Vote.Stale != nil}
	v := voter{p.Agent, agentClass(of, p.Agent), stepID(p)}
	at := slices.IndexFunc(s.Said, func(other reason) bool { return other.Text == r.Text && other.Stale == r.Stale && r.Text != "" })
	if at < 0 {
		r.Voters = []voter{v}
		s.Said = append(s.Said, r)
		return
	}
	if first := &s.Said[at]; len(first.Voters) == 1 { // the moves have to name their agents
		for i := range first.Moves {
			first.Moves[i] = first.Voters[0].Name + " " + first.Moves[i]
		}
	}
	s.Said[at].Voters = append(s.Said[at].Voters, v)
	for _, told := range moves {
		s.Said[at].Moves = append(s.Said[at].Moves, p.Agent+" "+told)
	}
}

// agentClass returns the class of an agent's color.
func agentClass(s *record.Session, agent string) string {
	for i, a := range s.Agents {
		if a.ID == agent {
			return colorClass(i)
		}
	}
	return ""
}

// standingVotes returns the votes that were not replaced, in the configured order of the agents.
func standingVotes(s *record.Session) []*record.Step {
	var votes []*record.Step
	for _, a := range s.Agents {
		for _, p := range a.Steps {
			if p.Vote != nil && p.Vote.Stands && a.Error == nil {
				votes = append(votes, p)
			}
		}
	}
	return votes
}

func describeProgress(s *record.Session) string {
	var at []string
	for _, a := range s.Agents {
		if a.Running {
			at = append(at, a.ID)
		}
	}
	where := "Round " + fmt.Sprint(s.State.Round) + ", " + strings.ReplaceAll(string(s.State.Phase), "_", " ") + "."
	switch {
	case s.State.Parked != nil:
		return where + " The session is parked: " + cleanLine(*s.State.Parked)
	case s.State.Paused:
		return where + " A person paused the session."
	case len(at) > 0:
		return where + " At work: " + joinWords(at) + "."
	}
	return where
}

// tallyRow is the bar of votes for an agent's answer.
type tallyRow struct {
	Label, Agent, Class string
	Winner              bool
	Fresh, Stale        int
	FreshW, StaleW      string // widths of the bars
	Note                string
}

// tally has a bar for each answer that could be voted for.
type tally struct {
	Rows  []tallyRow
	Rest  int // answers without a vote that are left out
	Fresh int // fresh votes for all answers
	All   int // agents that may vote
	Cast  int // votes that were not replaced
}

// tallyOf counts the votes that were not replaced. A large team has the bars of answers with votes only.
func tallyOf(s *record.Session) tally {
	const few, most = 6, 8
	votes := standingVotes(s)
	t := tally{All: countActive(s), Cast: len(votes)}
	for i, a := range s.Agents {
		if a.LatestLabel == "" {
			continue
		}
		row := tallyRow{Label: a.LatestLabel, Agent: a.ID, Class: colorClass(i), Winner: hasWon(s, a.ID)}
		if w := s.Winner(); row.Winner && w != nil {
			row.Label = w.Answer.Label
		}
		for _, p := range votes {
			switch {
			case p.Vote.Target != a.ID:
			case p.Vote.Stale != nil:
				row.Stale++
			default:
				row.Fresh++
			}
		}
		if p := s.Answered(row.Label); p != nil && len(p.Checks) > 0 {
			row.Note = checksWords(p)
		}
		t.Fresh += row.Fresh
		scale := float64(max(t.All, len(votes), 1))
		row.FreshW, row.StaleW = cssPercent(float64(row.Fresh)/scale), cssPercent(float64(row.Stale)/scale)
		t.Rows = append(t.Rows, row)
	}
	slices.SortStableFunc(t.Rows, func(a, b tallyRow) int {
		return cmp.Or(compareFlags(a.Winner, b.Winner), cmp.Compare(b.Fresh, a.Fresh), cmp.Compare(b.Stale, a.Stale))
	})
	if voted := slices.IndexFunc(t.Rows, func(r tallyRow) bool { return r.Fresh+r.Stale == 0 }); len(t.Rows) > few && voted > 0 {
		t.Rest = len(t.Rows) - min(voted, most)
		t.Rows = t.Rows[:min(voted, most)]
	}
	return t
}

// checksWords says how many checks of an answer passed.
func checksWords(p *record.Step) string {
	passed := 0
	for _, c := range p.Checks {
		if c.Passed {
			passed++
		}
	}
	return fmt.Sprintf("%d of %s", passed, cli.Plural(len(p.Checks), "check"))
}
