package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"sort"
	"strings"
	"time"

	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
)

// fact is something that happened in the session, which the decision and the reasons do not tell.
type fact struct {
	Name  string
	Lines []string
	Drawn template.HTML // HTML of an earlier drawing
}

// ID returns the ID of the fact's part of the page.
func (f fact) ID() string { return attributeID("fact", f.Name) }

// factsOf returns the facts of a session. It has none about things that did not happen.
func factsOf(s *record.Session) []fact {
	const most = 60 // lines; the events and steps of the page are complete
	var facts []fact
	for _, f := range []fact{
		{Name: "Failed", Lines: failureLines(s)},
		{Name: "Changed their mind", Lines: otherMoves(s)},
		{Name: "Stale votes", Lines: staleVotes(s)},
		{Name: "Support", Lines: supportLines(s)},
		{Name: "People said", Lines: messageLines(s)},
		{Name: "Rejected", Lines: rejectionLines(s)},
		{Name: "Joined later", Lines: linesAbout(s, coordination.EntryJoined)},
	} {
		if len(f.Lines) == 0 || s.Running() && f.Name == "Failed" { // the agents' states tell it
			continue
		}
		if n := len(f.Lines) - most; n > 0 {
			f.Lines = append(f.Lines[:most:most], fmt.Sprintf("%d more.", n))
		}
		facts = append(facts, f)
	}
	return facts
}

// isCut reports whether a step was ended by the decision of the others.
func isCut(s *record.Session, p *record.Step) bool {
	a := s.Agent(p.Agent)
	return p.Action == "" && a != nil && a.Error == nil && s.State.CutOff(p.Agent) != "" && p == a.Steps[len(a.Steps)-1]
}

func staleVotes(s *record.Session) []string {
	var told []string
	for _, p := range s.Steps {
		if p.Vote == nil || p.Vote.Stale == nil {
			continue
		}
		by := ""
		switch st := p.Vote.Stale; {
		case st.Label != "":
			by = ": it had not seen " + st.Label
		case st.Message > 0:
			by = fmt.Sprintf(": it had not read message %d", st.Message)
		}
		told = append(told, fmt.Sprintf("%s's vote for %s (step %03d)%s.", p.Agent, p.Vote.TargetLabel, p.Number, by))
	}
	return told
}

// slowestStep returns the step that took longest, in words; "" if none has ended.
func slowestStep(s *record.Session) string {
	var most *record.Step
	var longest time.Duration
	for _, p := range s.Steps {
		if p.Ended.IsZero() {
			continue
		}
		if d := p.Ended.Sub(p.Started); most == nil || d > longest {
			most, longest = p, d
		}
	}
	if most == nil {
		return ""
	}
	return fmt.Sprintf("%s %03d was slowest, %s", most.Agent, most.Number, formatDuration(longest))
}

func messageLines(s *record.Session) []string {
	var told []string
	for _, m := range s.Messages {
		to := "to all"
		if m.Agent != "" {
			to = "to " + m.Agent
		}
		told = append(told, fmt.Sprintf("%s: “%s”", to, briefLine(m.Text, maxQuote)))
	}
	return told
}

func rejectionLines(s *record.Session) []string {
	var told []string
	for _, p := range s.Steps {
		for _, r := range p.Rejections {
			told = append(told, fmt.Sprintf("a reply in step %03d of %s (%s); the model was told: “%s”", p.Number, p.Agent, cleanLine(r.Code), briefLine(firstSentence(r.Text), 160)))
		}
	}
	return append(told, linesAbout(s, coordination.EntryRefused)...)
}

func firstSentence(text string) string {
	text = cleanLine(text)
	if first, _, more := strings.Cut(text, ". "); more {
		return first + "."
	}
	return text
}

func failureLines(s *record.Session) []string {
	var told []string
	for _, a := range s.Agents {
		if a.Error != nil {
			told = append(told, fmt.Sprintf("%s failed and did not vote: %s.", a.ID, strings.TrimSuffix(briefLine(a.Error.Type+": "+a.Error.Message, maxQuote), ".")))
		}
	}
	return told
}

func supportLines(s *record.Session) []string {
	with := s.State.Support
	if with == nil {
		return nil
	}
	var told []string
	if with.Confidence != nil {
		told = append(told, "Its voters' mean confidence is "+wholePercent(*with.Confidence)+".")
	}
	if with.Agreement != nil && *with.Agreement > 0 {
		told = append(told, wholePercent(*with.Agreement)+" of the other first answers equal it.")
	}
	return told
}

func wholePercent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func linesAbout(s *record.Session, kind string) []string {
	var told []string
	for _, e := range s.Events {
		if e.Kind == kind {
			told = append(told, cleanLine(e.Text)+".")
		}
	}
	return told
}

// move is a changed mind: a vote that moved to another answer, or a vote for another answer by
// an agent that had just answered.
type move struct {
	agent, target   string // voter, and author of the answer that got the vote
	from, to, after string // words
}

// words describes the move, without the answer to which it led if that is where the agent's vote stands.
func (m move) words(stands bool) string {
	if stands {
		return m.from + m.after
	}
	return m.from + m.to + m.after
}

// changedMinds returns the changed minds of a session by agent.
func changedMinds(s *record.Session) []move {
	var found []move
	answers := answersByAgent(s)
	for _, a := range s.Agents {
		var before *record.Step
		for _, p := range a.Steps {
			if !p.Accepted {
				continue
			}
			if p.Vote != nil && before != nil && prefersAnother(before, p) {
				found = append(found, moveOf(answers, before, p))
			}
			if p.Vote != nil || p.Answer != nil && !p.Answer.Final {
				before = p
			}
		}
	}
	return found
}

// otherMoves returns the changed minds of agents without a vote that stands; those of the others are
// with their reasons.
func otherMoves(s *record.Session) []string {
	votes := standingVotes(s)
	var told []string
	for _, m := range changedMinds(s) {
		if !slices.ContainsFunc(votes, func(p *record.Step) bool { return p.Agent == m.agent }) {
			told = append(told, m.agent+" "+m.words(false)+".")
		}
	}
	return told
}

func prefersAnother(before, vote *record.Step) bool {
	if before.Answer != nil {
		return vote.Vote.Target != vote.Agent
	}
	return before.Vote.Target != vote.Vote.Target
}

func moveOf(answers map[string][]*record.Step, before, vote *record.Step) move {
	m := move{agent: vote.Agent, target: vote.Vote.Target, to: " to " + vote.Vote.TargetLabel}
	switch {
	case before.Answer != nil:
		m.from, m.to = "gave up its own "+before.Answer.Label, " and voted for "+vote.Vote.TargetLabel
	case vote.Vote.Target == vote.Agent:
		m.from, m.to = "went back from "+before.Vote.TargetLabel+" to its own "+vote.Vote.TargetLabel, ""
	default:
		m.from = "moved from " + before.Vote.TargetLabel
	}
	m.after = afterSeeing(newlySeen(answers, before, vote), vote.Vote.TargetLabel)
	return m
}

// afterSeeing names the newly seen answers. If there are many, it names only the chosen one.
func afterSeeing(seen []string, chosen string) string {
	const most = 3
	switch i := slices.Index(seen, chosen); {
	case len(seen) == 0:
		return ""
	case len(seen) <= most:
		return " after seeing " + joinWords(seen)
	case i >= 0:
		return fmt.Sprintf(" after seeing %s and %d others", chosen, len(seen)-1)
	}
	return fmt.Sprintf(" after seeing %d new answers", len(seen))
}

// newlySeen returns the labels that a step has seen and an earlier one has not, only the newest of
// each other agent.
func newlySeen(answers map[string][]*record.Step, before, after *record.Step) []string {
	var labels []string
	for agent, upTo := range after.Seen {
		of := answers[agent]
		later := sort.Search(len(of), func(i int) bool { return of[i].Number > upTo })
		if agent == after.Agent || later == 0 || of[later-1].Number <= before.Seen[agent] {
			continue
		}
		labels = append(labels, of[later-1].Answer.Label)
	}
	slices.Sort(labels)
	return labels
}

func answersByAgent(s *record.Session) map[string][]*record.Step {
	all := map[string][]*record.Step{}
	for _, a := range s.Agents {
		for _, p := range a.Steps {
			if p.Answer != nil {
				all[a.ID] = append(all[a.ID], p)
			}
		}
		slices.SortFunc(all[a.ID], func(p, q *record.Step) int { return cmp.Compare(p.Number, q.Number) })
	}
	return all
}
