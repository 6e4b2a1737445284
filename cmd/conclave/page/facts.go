package page

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/record"
	"conclave/engine/coordination"
)

// fact is a question about the session with its answer.
type fact struct {
	Name  string
	Lines []string
	Drawn template.HTML // HTML of an earlier drawing
}

// ID returns the ID of the fact's part of the page.
func (f fact) ID() string { return slug("fact", f.Name) }

// maxLines is the maximum number of lines of an answer. The events and steps of the page are
// complete.
const maxLines = 60

// factsOf answers the questions that the decision raises.
func factsOf(s *record.Session) []fact {
	facts := []fact{
		{Name: "Changed their mind", Lines: orNone(sentences(changes(s)), "Nobody changed a vote.")},
		{Name: "Stale votes", Lines: orNone(staleVotes(s), "No vote went stale.")},
		{Name: "Dissent", Lines: orNone(dissenters(s), "Nobody voted for another answer.")},
		{Name: "Cost", Lines: []string{costLine(s)}},
		{Name: "Slowest step", Lines: orNone(slowest(s), "No step has ended.")},
		{Name: "People said", Lines: orNone(messages(s), "Nobody said anything.")},
		{Name: "Rejected", Lines: orNone(rejected(s), "No reply was rejected.")},
		{Name: "Files", Lines: orNone(changedFiles(s), "The final answer has no files.")},
		{Name: "Failed", Lines: orNone(failures(s), "No agent failed.")},
	}
	for i := range facts {
		if n := len(facts[i].Lines) - maxLines; n > 0 {
			facts[i].Lines = append(facts[i].Lines[:maxLines:maxLines], fmt.Sprintf("%d more.", n))
		}
	}
	for _, more := range []fact{{Name: "Support", Lines: support(s)}, {Name: "Checks", Lines: checkLines(s)}, {Name: "Joined later", Lines: joined(s)}} {
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

// staleVotes describes which votes became stale, and because of which answer or message.
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

func dissenters(s *record.Session) []string {
	var told []string
	for _, p := range standingVotes(s) {
		if s.State.Winner != "" && p.Vote.Target != s.State.Winner {
			told = append(told, fmt.Sprintf("%s voted for %s: “%s”", p.Agent, p.Vote.TargetLabel, brief(p.Vote.Reason, maxQuote)))
		}
	}
	return told
}

func costLine(s *record.Session) string {
	u := s.State.Cost
	return fmt.Sprintf("%s, %s tokens, %s.", money(u), tokens(u), progress.Plural(int(u.ModelCalls), "model call"))
}

func slowest(s *record.Session) []string {
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
	return []string{fmt.Sprintf("step %03d of %s, %s.", most.Number, most.Agent, seconds(longest))}
}

func messages(s *record.Session) []string {
	var told []string
	for _, m := range s.Messages {
		to := "to all"
		if m.Agent != "" {
			to = "to " + m.Agent
		}
		told = append(told, fmt.Sprintf("%s: “%s”", to, brief(m.Text, maxQuote)))
	}
	return told
}

// rejected lists refused replies and actions that were not accepted.
func rejected(s *record.Session) []string {
	var told []string
	for _, p := range s.Steps {
		for _, r := range p.Rejections {
			told = append(told, fmt.Sprintf("a reply in step %03d of %s (%s); the model was told: “%s”", p.Number, p.Agent, line(r.Code), brief(firstSentence(r.Text), 160)))
		}
	}
	for _, e := range s.Events {
		if e.Kind == coordination.EntryRefused {
			told = append(told, line(e.Text)+".")
		}
	}
	return told
}

// firstSentence is the beginning of a text up to the end of its first sentence.
func firstSentence(text string) string {
	text = line(text)
	if first, _, more := strings.Cut(text, ". "); more {
		return first + "."
	}
	return text
}

// changedFiles lists the files of the final answer.
func changedFiles(s *record.Session) []string {
	p := s.Final()
	if p == nil || p.Answer == nil || len(p.Answer.Files)+len(p.Answer.Removed) == 0 {
		return nil
	}
	const most = 20
	var paths []string
	for _, f := range p.Answer.Files {
		paths = append(paths, line(f.Path))
	}
	for _, name := range p.Answer.Removed {
		paths = append(paths, line(name)+" (removed)")
	}
	slices.Sort(paths)
	more := ""
	if n := len(paths) - most; n > 0 {
		paths, more = paths[:most], fmt.Sprintf(" and %d more", n)
	}
	return []string{p.Answer.Label + " has " + join(paths) + more + "."}
}

func failures(s *record.Session) []string {
	var told []string
	for _, a := range s.Agents {
		if a.Error != nil {
			told = append(told, fmt.Sprintf("%s: %s", a.ID, brief(a.Error.Type+": "+a.Error.Message, maxQuote)))
		}
	}
	return told
}

// support describes how strongly the agents support the decision.
func support(s *record.Session) []string {
	with := s.State.Support
	if with == nil {
		return nil
	}
	told := []string{percentOf(with.Share) + " of the active agents stand behind it."}
	if with.Confidence != nil {
		told = append(told, "Its voters' mean confidence is "+percentOf(*with.Confidence)+".")
	}
	if with.Agreement != nil && *with.Agreement > 0 { // a revision seldom equals a first answer
		told = append(told, percentOf(*with.Agreement)+" of the independent first answers equal it.")
	}
	if with.Checks != nil {
		told = append(told, "It passes "+percentOf(*with.Checks)+" of the checks.")
	}
	return told
}

func percentOf(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// checkLines returns the events about checks.
func checkLines(s *record.Session) []string {
	var told []string
	for _, e := range s.Events {
		if e.Kind == coordination.EntryChecked {
			told = append(told, line(e.Text)+".")
		}
	}
	return told
}

// joined lists the agents that joined the running session, with the reasons.
func joined(s *record.Session) []string {
	var told []string
	for _, e := range s.Events {
		if e.Kind == coordination.EntryJoined {
			told = append(told, line(e.Text)+".")
		}
	}
	return told
}
