package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"sort"
	"strings"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
)

// fact is a question about the session with its answer.
type fact struct {
	Name  string
	Lines []string
	Drawn template.HTML // HTML of an earlier drawing
}

// ID returns the ID of the fact's part of the page.
func (f fact) ID() string { return attributeID("fact", f.Name) }

// maxLines is the maximum number of lines of an answer. The events and steps of the page are
// complete.
const maxLines = 60

// factsOf answers the questions that the decision raises.
func factsOf(s *record.Session) []fact {
	facts := []fact{
		{Name: "Changed their mind", Lines: orNone(changeLines(changedMinds(s)), "Nobody changed a vote.")},
		{Name: "Stale votes", Lines: orNone(staleVotes(s), "No vote went stale.")},
		{Name: "Dissent", Lines: orNone(dissentLines(s), "Nobody voted for another answer.")},
		{Name: "Cost", Lines: []string{costLine(s)}},
		{Name: "Slowest step", Lines: orNone(slowestStep(s), "No step has ended.")},
		{Name: "People said", Lines: orNone(messageLines(s), "Nobody said anything.")},
		{Name: "Rejected", Lines: orNone(rejectionLines(s), "No reply was rejected.")},
		{Name: "Files", Lines: orNone(changedFiles(s), "The final answer has no files.")},
		{Name: "Failed", Lines: orNone(failureLines(s), "No agent failed.")},
	}
	for i := range facts {
		if n := len(facts[i].Lines) - maxLines; n > 0 {
			facts[i].Lines = append(facts[i].Lines[:maxLines:maxLines], fmt.Sprintf("%d more.", n))
		}
	}
	for _, more := range []fact{{Name: "Support", Lines: supportLines(s)}, {Name: "Checks", Lines: linesAbout(s, coordination.EntryChecked)}, {Name: "Joined later", Lines: linesAbout(s, coordination.EntryJoined)}} {
		if len(more.Lines) > 0 {
			facts = append(facts, more)
		}
	}
	return facts
}

func orNone(lines []string, none string) []string {
	if len(lines) == 0 {
		return []string{none}
	}
	return lines
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

func dissentLines(s *record.Session) []string {
	var told []string
	for _, p := range standingVotes(s) {
		if s.State.Winner != "" && p.Vote.Target != s.State.Winner {
			told = append(told, fmt.Sprintf("%s voted for %s: “%s”", p.Agent, p.Vote.TargetLabel, briefLine(p.Vote.Reason, maxQuote)))
		}
	}
	return told
}

func costLine(s *record.Session) string {
	u := s.State.Cost
	return fmt.Sprintf("%s, %s tokens, %s.", formatPrice(u), formatTokens(u), cli.Plural(int(u.ModelCalls), "model call"))
}

func slowestStep(s *record.Session) []string {
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
		return nil
	}
	return []string{fmt.Sprintf("step %03d of %s, %s.", most.Number, most.Agent, formatDuration(longest))}
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

func changedFiles(s *record.Session) []string {
	p := s.Final()
	if p == nil || p.Answer == nil || len(p.Answer.Files)+len(p.Answer.Removed) == 0 {
		return nil
	}
	const most = 20
	var paths []string
	for _, f := range p.Answer.Files {
		paths = append(paths, cleanLine(f.Path))
	}
	for _, name := range p.Answer.Removed {
		paths = append(paths, cleanLine(name)+" (removed)")
	}
	slices.Sort(paths)
	more := ""
	if n := len(paths) - most; n > 0 {
		paths, more = paths[:most], fmt.Sprintf(" and %d more", n)
	}
	return []string{p.Answer.Label + " has " + joinWords(paths) + more + "."}
}

func failureLines(s *record.Session) []string {
	var told []string
	for _, a := range s.Agents {
		if a.Error != nil {
			told = append(told, fmt.Sprintf("%s: %s", a.ID, briefLine(a.Error.Type+": "+a.Error.Message, maxQuote)))
		}
	}
	return told
}

func supportLines(s *record.Session) []string {
	with := s.State.Support
	if with == nil {
		return nil
	}
	told := []string{wholePercent(with.Share) + " of the active agents stand behind it."}
	if with.Confidence != nil {
		told = append(told, "Its voters' mean confidence is "+wholePercent(*with.Confidence)+".")
	}
	if with.Agreement != nil && *with.Agreement > 0 { // a revision seldom equals a first answer
		told = append(told, wholePercent(*with.Agreement)+" of the independent first answers equal it.")
	}
	if with.Checks != nil {
		told = append(told, "It passes "+wholePercent(*with.Checks)+" of the checks.")
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

// change is a changed mind: a vote that moved to another answer, or a vote for another answer by
// an agent that had just answered.
type change struct {
	to   string // agent whose answer got the vote
	told string // sentence about the change
}

func changedMinds(s *record.Session) []change {
	var found []change
	answers := answersByAgent(s)
	for _, a := range s.Agents {
		var before *record.Step
		for _, p := range a.Steps {
			if !p.Accepted {
				continue
			}
			if p.Vote != nil && before != nil && prefersAnother(before, p) {
				found = append(found, change{p.Vote.Target, moveSentence(answers, a.ID, before, p)})
			}
			if p.Vote != nil || p.Answer != nil && !p.Answer.Final {
				before = p
			}
		}
	}
	return found
}

func changeLines(of []change) []string {
	var told []string
	for _, c := range of {
		told = append(told, c.told)
	}
	return told
}

func prefersAnother(before, vote *record.Step) bool {
	if before.Answer != nil {
		return vote.Vote.Target != vote.Agent
	}
	return before.Vote.Target != vote.Vote.Target
}

func moveSentence(answers map[string][]*record.Step, agent string, before, vote *record.Step) string {
	from := ""
	switch {
	case before.Answer != nil:
		from = fmt.Sprintf("%s gave up its own %s and voted for %s", agent, before.Answer.Label, vote.Vote.TargetLabel)
	case vote.Vote.Target == agent:
		from = fmt.Sprintf("%s went back from %s to its own %s", agent, before.Vote.TargetLabel, vote.Vote.TargetLabel)
	default:
		from = fmt.Sprintf("%s moved from %s to %s", agent, before.Vote.TargetLabel, vote.Vote.TargetLabel)
	}
	return from + afterSeeing(newlySeen(answers, before, vote), vote.Vote.TargetLabel) + "."
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
