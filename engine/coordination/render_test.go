package coordination

import (
	"fmt"
	"strconv"
	"strings"
)

// describe formats a command in the language of the scripts.
func describe(command Command) []string {
	switch d := command.(type) {
	case Launch:
		return []string{describeLaunch(d)}
	case Cancel:
		if d.Suspend {
			return []string{"suspend " + string(d.ID)}
		}
		return []string{"cancel " + string(d.ID)}
	case Ring:
		return []string{describeBell(d)}
	case Record:
		return []string{fmt.Sprintf("record %d: %s", d.Entry.Seq, describeEntry(d.Entry))}
	case Check:
		return []string{fmt.Sprintf("check %s of %s: %s", d.ID, d.Answer.Label, strings.Join(d.Checks, " "))}
	case Wait:
		if d.Firsts {
			return []string{fmt.Sprintf("wait %d s for first answers", d.Seconds)}
		}
		return []string{fmt.Sprintf("wait %d s", d.Seconds)}
	case Done:
		return []string{"done: " + describeDecision(d.Decision)}
	}
	return []string{fmt.Sprintf("unknown command %T", command)}
}

func describeEntry(e Accepted) string {
	text := ""
	switch e.Action {
	case NewAnswer:
		text = fmt.Sprintf("%s step %d answers %s", e.Agent, e.Step, e.Label)
	case Vote:
		text = fmt.Sprintf("%s step %d votes for %s (%s), having seen %s", e.Agent, e.Step, e.Target, e.TargetLabel, describeSeen(e.Seen))
	case Stop:
		text = fmt.Sprintf("%s step %d stops, %s, having seen %s", e.Agent, e.Step, e.Status, describeSeen(e.Seen))
	case Say:
		text = fmt.Sprintf("message %d to %s: %s", e.Message, describeReceiver(e.Agent), e.Text)
	case Submit, RestartTeam:
		text = "an action that is not for the ledger"
	}
	if e.Attempt > 0 {
		text += fmt.Sprintf(", in attempt %d", e.Attempt)
	}
	return text
}

func describeReceiver(agent string) string {
	if agent == "" {
		return "all"
	}
	return agent
}

func describeDecision(d Decision) string {
	switch {
	case d.Winner == "" && d.Asked != "":
		return string(d.Status) + ", forced: " + string(d.Asked)
	case d.Winner == "" && d.Final != nil:
		return string(d.Status) + ", the best answer is " + d.Final.Label
	case d.Winner == "":
		return string(d.Status)
	}
	votes := "no fresh votes"
	for i, n := range d.Votes {
		if i == 0 {
			votes = "votes"
		}
		votes += fmt.Sprintf(" %s:%d", n.Target, n.Votes)
	}
	presented := ""
	if f := d.Final; f != nil && f.Label != d.WinnerLabel {
		presented = fmt.Sprintf(", presented as %s (step %d)", f.Label, f.Step)
	}
	return fmt.Sprintf("%s, %s with %s (step %d)%s; %s", d.Status, d.Winner, d.WinnerLabel, d.WinnerStep, presented, votes) + describeBasis(d)
}

// describeTable formats the outcomes of checks that a voter is shown.
func describeTable(table CheckTable) string {
	text := "is shown checks " + strings.Join(table.Checks, " ") + ":"
	for _, row := range table.Rows {
		text += " " + row.Label + "=" + row.Verdicts
	}
	return text
}

// describeBasis formats the basis and the support of a decision that was not made by votes alone.
func describeBasis(d Decision) string {
	text := ""
	if d.By != "" {
		text += "; by " + string(d.By)
	}
	if len(d.Cut) > 0 {
		text += ", cut: " + strings.Join(d.Cut, " ")
	}
	if s := d.Support; s != nil && (s.Confidence != nil || d.Despite != "" || s.Checks != nil) {
		text += fmt.Sprintf("; support %.2f", s.Share)
		if s.Checks != nil {
			text += fmt.Sprintf(", checks %.2f", *s.Checks)
		}
		if s.Confidence != nil {
			text += fmt.Sprintf(", confidence %.2f", *s.Confidence)
		}
		if s.Spread != nil {
			text += fmt.Sprintf(", agreement %.2f, spread %.2f", *s.Agreement, *s.Spread)
		}
	}
	if d.Despite != "" {
		text += "; instead of " + string(d.Despite)
	}
	return text
}

func describeBell(b Ring) string {
	parts := []string{"answers " + describeShown(b.Answers)}
	if len(b.Messages) > 0 {
		parts = append(parts, "messages "+describeMessages(b.Messages))
	}
	if b.Directive != "" {
		parts = append(parts, string(b.Directive))
	}
	return fmt.Sprintf("ring %d: %s", b.Epoch, strings.Join(parts, ", "))
}

// describeLaunch formats the common fields of a launch, then the optional ones.
func describeLaunch(l Launch) string {
	head := fmt.Sprintf("round %d: launch %s of %s after step %d", l.Round, l.ID, l.Agent, l.After)
	parts := []string{head, "sees " + describeShown(l.Shown), describeOffered(l)}
	if len(l.Messages) > 0 {
		parts = append(parts, "receives messages "+describeMessages(l.Messages))
	}
	if l.Revote {
		parts = append(parts, "is shown a split vote")
	}
	if l.Updates.Mode != noUpdates {
		parts = append(parts, describeUpdates(l.Updates))
	}
	if l.Allowance != (Allowance{}) {
		parts = append(parts, describeAllowance(l.Allowance))
	}
	if l.Checks != nil {
		parts = append(parts, describeTable(*l.Checks))
	}
	if l.Brief != nil {
		parts = append(parts, renderBrief(*l.Brief))
	}
	if l.Final != nil {
		parts = append(parts, fmt.Sprintf("judges %s (step %d)", l.Final.Label, l.Final.Step))
	}
	if a := l.Previous; a != nil {
		parts = append(parts, fmt.Sprintf("attempt %d came to %s and %s step %d says why that will not do", a.Number, a.Answer.Label, a.Agent, a.Step))
	}
	if l.ResumeFrom != "" {
		parts = append(parts, "resumes from "+l.ResumeFrom)
	}
	return strings.Join(parts, ", ")
}

func describeOffered(l Launch) string {
	words := map[Action]string{
		NewAnswer: "answer", Vote: "vote", Stop: "stop", Submit: "submit", RestartTeam: "begin again",
	}
	var may []string
	for _, action := range l.Offered {
		may = append(may, words[action])
	}
	if l.Purpose == Present {
		may = []string{"present"}
	}
	if len(may) == 1 {
		return "may only " + may[0]
	}
	return "may " + strings.Join(may, " or ")
}

func describeShown(answers []Shown) string {
	labels := make([]string, 0, len(answers))
	for _, shown := range answers {
		labels = append(labels, shown.Label)
	}
	return orNothing(labels)
}

func describeMessages(messages []Message) string {
	numbers := make([]string, 0, len(messages))
	for _, m := range messages {
		numbers = append(numbers, strconv.Itoa(m.Number))
	}
	return strings.Join(numbers, " ")
}

func describeUpdates(u Updates) string {
	text := "takes updates by " + string(u.Mode)
	if u.Most > 0 {
		text += fmt.Sprintf(", %d at most", u.Most)
	}
	if u.UntilChecklist {
		text += ", up to its checklist"
	}
	return text
}

func describeAllowance(a Allowance) string {
	var may []string
	if a.Tokens > 0 {
		may = append(may, fmt.Sprintf("%d tokens", a.Tokens))
	}
	if a.USD > 0 {
		may = append(may, fmt.Sprintf("$%.2f", a.USD))
	}
	return "has " + strings.Join(may, " and ")
}

func renderBrief(v Brief) string {
	text := "by " + string(v.Strategy)
	if v.Label != "" {
		text += fmt.Sprintf(" of %s with %d of %d votes", v.Label, v.Votes, v.Voters)
	}
	if v.Tied {
		text += ", tied"
	}
	if len(v.Reasons) > 0 {
		text += " because: " + strings.Join(v.Reasons, "; ")
	}
	for _, s := range v.Stops {
		text += fmt.Sprintf("; agent%d %s: %s", s.Number, s.Status, s.Summary)
	}
	return text
}

func describeSeen(seen []Seen) string {
	words := make([]string, 0, len(seen))
	for _, n := range seen {
		words = append(words, fmt.Sprintf("%s:%d", n.Agent, n.Step))
	}
	return orNothing(words)
}

func orNothing(words []string) string {
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " ")
}
