package page

import (
	"fmt"
	"slices"
	"strings"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
)

// maxTold is the maximum number of changes, and of quotes of each side, in the paragraph.
// The facts below it have all of them.
const maxTold = 4

// maxQuote is the maximum length of a quoted reason, in characters.
const maxQuote = 400

func explainOutcome(s *record.Session) []string {
	w := &why{s: s, final: s.Winner()}
	w.tellDecision()
	if s.Running() {
		return w.sentences
	}
	w.tellTie()
	w.tellMoves()
	w.quoteSupport()
	w.quoteDissent()
	w.tellFailures()
	w.tellMessages()
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
		w.addSentence("%s is the final answer: this team does not vote, its presenter joins the work.", winner)
	default:
		w.addSentence("%s was taken by force: %s. It had the fresh votes of %s at that moment.", winner, forcedBy(st.Status), votes)
	}
	if f := st.Final; f != nil && f.Label != "" && w.final != nil && f.Label != w.final.Answer.Label {
		w.addSentence("%s then presented it as %s.", f.Agent, f.Label)
	}
}

func consensusWords(st acts.State, votes string) string {
	switch st.DecidedBy {
	case coordination.ByAgreement:
		return "won by consensus before any vote: more than half of the agents gave an equal first answer."
	case coordination.ByQuorum:
		told := "won by consensus of a quorum: " + votes + " voted for it"
		if len(st.Cut) > 0 {
			return told + " while " + joinWords(st.Cut) + " still worked."
		}
		return told + "."
	case coordination.ByChecks:
		return "won by consensus, and by its checks: " + votes + " voted for it."
	}
	return "won by consensus: " + votes + " voted for it, all with every newest answer in view."
}

func pluralityWords(st acts.State, votes string) string {
	if st.DecidedBy == coordination.ByChecks {
		return "won by its checks, which rank before the votes: " + votes + " voted for it."
	}
	return "won without a majority: " + votes + " voted for it, and no answer had more than half of the votes."
}

func undecidedWords(s *record.Session, best, votes string) string {
	told := "Nothing was decided: the best answer has too little support. It is " + strings.TrimSuffix(best, ",") + ", with the fresh votes of " + votes
	if least := s.Team.Orchestrator.Act.MinSupport; least != nil {
		told += fmt.Sprintf("; min_support asks for %.0f %%", 100**least)
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

// tellMoves describes who changed to the winner, from which answer, and after seeing which ones. Without
// a winner it describes every change.
func (w *why) tellMoves() {
	all := slices.DeleteFunc(changedMinds(w.s), func(c change) bool { return w.s.State.Winner != "" && c.to != w.s.State.Winner })
	for i, c := range all {
		if i == maxTold {
			w.addSentence("%d more changed their mind.", len(all)-i)
			break
		}
		w.addSentence("%s", c.told)
	}
}

func (w *why) quoteSupport() {
	quoted, more := 0, 0
	for _, p := range standingVotes(w.s) {
		switch {
		case p.Vote.Stale != nil || p.Vote.Target != w.s.State.Winner || p.Vote.Reason == "":
		case quoted == maxTold:
			more++
		default:
			quoted++
			w.addSentence("%s voted for it: “%s”", p.Agent, briefLine(p.Vote.Reason, maxQuote))
		}
	}
	if more > 0 {
		w.addSentence("%d more voted for it.", more)
	}
}

// quoteDissent quotes every standing vote if there is no winner.
func (w *why) quoteDissent() {
	against := 0
	for _, p := range standingVotes(w.s) {
		if w.s.State.Winner != "" && p.Vote.Target == w.s.State.Winner {
			continue
		}
		if against++; against > maxTold {
			continue
		}
		state := "voted for"
		if p.Vote.Stale != nil {
			state = "had a stale vote for"
		}
		w.addSentence("Dissent: %s %s %s: “%s”", p.Agent, state, p.Vote.TargetLabel, briefLine(p.Vote.Reason, maxQuote))
	}
	if against > maxTold {
		w.addSentence("%d more voted for other answers.", against-maxTold)
	}
	if against == 0 && w.s.State.Winner != "" && len(standingVotes(w.s)) > 0 {
		w.addSentence("Nobody voted for another answer.")
	}
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

func (w *why) tellFailures() {
	for _, a := range w.s.Agents {
		if a.Error != nil {
			w.addSentence("%s failed and did not vote: %s.", a.ID, strings.TrimSuffix(briefLine(a.Error.Type+": "+a.Error.Message, maxQuote), "."))
		}
	}
}

func (w *why) tellMessages() {
	if n := len(w.s.Messages); n > 0 {
		w.addSentence("People sent %s.", cli.Plural(n, "message"))
	}
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
