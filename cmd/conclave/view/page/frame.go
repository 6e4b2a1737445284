package page

import (
	"fmt"
	"strings"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
	"conclave/engine/text"
	"conclave/workflows"
)

// frame has the parts that pages of all kinds share: the head of the document, and the bar above the
// page with the verdict and the tabs.
type frame struct {
	Live               *Live  // nil for a standalone page
	Title              string // title of the document
	Home               string // address of the list to which the page belongs; empty without one
	Kind, ID           string // of the run; empty for a page that shows no run
	Status, Word, Said string // class of the verdict, and the verdict in one word and in a few more; empty without one
	Tabs               []tab
	Keys               bool // the page has steps, for which there are keys
}

// tab leads to a section of the page.
type tab struct{ ID, Name string }

// action is a request that a reader can send, with the command line that does the same.
type action struct {
	Path, Token, Verb string
	Name, Command     string
	Warning           string // warning before a second click; empty to send at once
	Hint              string // purpose of the text field; empty without one
	Long              bool   // the text has several lines
	To                []*record.Agent
	Teams             []string // to choose from
	Change            string   // hash of the change that was shown
	Question          string   // ID of the question that is answered
	Option            int      // the option that is the answer; 0 for none
	Main, Harmful     bool
}

// steering has the requests that a run takes in its state; empty texts leave requests out.
type steering struct {
	ID           string
	Running      bool
	Paused       bool
	Retry        string // name of the request that repeats failed steps
	Say          string // hint of the text field
	To           []*record.Agent
	Decide, Stop string // effects of deciding now and of cancelling
}

// actions returns the requests that a reader may send.
func (l *Live) actions(s steering) (all []action) {
	if l == nil || l.Token == "" {
		return nil
	}
	add := func(verb, name string, args ...string) *action {
		all = append(all, action{
			Path: l.Base + "/" + verb, Token: l.Token, Verb: verb, Name: name, Command: commandLine(l, verb, append([]string{s.ID}, args...)...),
		})
		return &all[len(all)-1]
	}
	if s.Retry != "" {
		add(workflows.RetrySignal, s.Retry).Main = true
	}
	if s.Say != "" {
		say := add(workflows.SaySignal, "Send", placeholder)
		say.Hint, say.To = s.Say, s.To
	}
	switch {
	case !s.Running:
		return all
	case s.Paused:
		add(workflows.ResumeSignal, "Resume")
	default:
		add(workflows.PauseSignal, "Pause")
	}
	if s.Decide != "" {
		add(workflows.FinishSignal, "Decide now").Warning = s.Decide
	}
	cancel := add("cancel", "Cancel")
	cancel.Warning, cancel.Harmful = s.Stop, true
	return all
}

// commandLine returns a command for a terminal, with the flags that find the run of the page.
func commandLine(l *Live, command string, args ...string) string {
	if l != nil && l.Command != nil {
		return l.Command(command, args...)
	}
	line := "conclave " + command
	for _, a := range args {
		line += " " + text.ShellQuote(a)
	}
	return line
}

// placeholder stands for the text of a message or a question in a command line.
const placeholder = "TEXT"

// wait describes a run that has not ended: the reason for its wait, and since when.
type wait struct {
	Class, Title, Why string
	Since             time.Time
}

// waitFor describes a run by its state; why says otherwise.
func waitFor(parked *string, paused bool, why string, since time.Time) wait {
	switch {
	case parked != nil:
		why = *parked
		if remedy, cause, ok := strings.Cut(why, ": "); ok && strings.Contains(remedy, workflows.RetrySignal) {
			why = cause // the page has buttons for the remedy
		}
		return wait{workflows.Parked, "It waits for you", cleanLine(why), since}
	case paused:
		return wait{workflows.Paused, "Paused", "A person has paused it. Nothing runs until it is resumed.", since}
	}
	return wait{workflows.Running, "At work", why, since}
}

func (v *view) waitNow() wait {
	since := v.Began()
	for _, e := range v.Events {
		switch e.Kind {
		case coordination.EntryFailed, coordination.EntryWaiting, coordination.EntryPaused, coordination.EntryResumed, coordination.EntryRound, coordination.EntryRevote:
			since = e.Time
		}
	}
	if open := v.State.Questions; len(open) > 0 && v.State.Parked == nil && !v.State.Paused {
		return waitForReply(open[0])
	}
	why, _, _ := strings.Cut(describeProgress(v.Session), ".")
	if len(v.Activity) == 0 {
		why = describeProgress(v.Session)
	}
	return waitFor(v.State.Parked, v.State.Paused, why, since)
}

func waitForReply(q coordination.Question) wait {
	return wait{workflows.Waiting, "It waits for you", cleanLine(q.Agent) + " asks:", q.Since}
}

// answerActions returns the answers to the open questions of a run that the page shows whole, the first question first.
func (l *Live) answerActions(id string, open []coordination.Question) (all []action) {
	if l == nil || l.Token == "" {
		return nil
	}
	for _, q := range open {
		add := func(verb, name string) *action {
			all = append(all, action{
				Path: l.Base + "/" + verb, Token: l.Token, Verb: verb, Name: name, Question: q.QuestionID,
				Command: commandLine(l, verb, id, q.QuestionID),
			})
			return &all[len(all)-1]
		}
		switch {
		case q.Path != "": // a person approves nothing that is cut
			continue
		case q.QuestionKind == coordination.AskApproval && !q.TakesOption():
			add(workflows.ApproveSignal, "Approve").Main = true
			add("deny", "Deny").Harmful = true
			continue
		}
		for i, o := range q.Options {
			choice := add(workflows.ReplySignal, cleanLine(o))
			choice.Option, choice.Command = i+1, choice.Command+fmt.Sprintf(" --option %d", i+1)
		}
		if q.TakesOption() {
			add("deny", "Deny").Harmful = true
		}
		if q.QuestionKind == coordination.AskQuestion {
			reply := add(workflows.ReplySignal, "Reply")
			reply.Hint, reply.Main = "Your reply to "+q.Agent, true
		}
	}
	return all
}

// Actions returns the requests that the session takes in its state.
func (v *view) Actions() []action {
	if !v.Running() {
		return v.steerActions()
	}
	return append(v.Live.answerActions(v.ID, v.State.Questions), v.steerActions()...)
}

func (v *view) steerActions() []action {
	s := steering{ID: v.ID, Running: v.Running(), Paused: v.State.Paused, To: v.Agents}
	if v.Running() && v.HasFailed() || v.CanRetry() {
		s.Retry = "Retry the failed steps"
	}
	switch {
	case v.Undecided():
		s.Retry, s.Say = "Vote again", "A message after which the agents vote again"
	case v.Running():
		s.Say, s.Stop = "A message to the agents", "The session ends without a decision: nobody wins. Its answers and votes stay on record."
		s.Decide = "No agent has an answer yet, so the session would end without one."
		if leader := v.Answered(v.State.Leader); leader != nil {
			s.Decide = fmt.Sprintf("%s of %s would win now, with %d of %s. Steps at work are ended.",
				v.State.Leader, leader.Agent, v.State.Votes[leader.Agent], cli.Plural(countActive(v.Session), "vote"))
		}
	case v.Final != nil && v.Live != nil && v.Live.Token != "":
		return []action{{
			Path: v.Live.Base + "/continue", Token: v.Live.Token, Verb: "continue", Name: "Ask a follow-up", Hint: "A question that continues this conversation", Long: true,
			Command: commandLine(v.Live, "run --continue", v.ID, placeholder),
		}}
	}
	return v.Live.actions(s)
}

// ApplyAction returns the request that applies the change that the page shows whole; nil if it cannot be
// applied from here.
func (v *view) ApplyAction() *action {
	if v.Live == nil || v.Live.Token == "" || v.Live.Target == "" || v.Change == nil || v.Change.More > 0 {
		return nil
	}
	return &action{
		Path: v.Live.Base + "/apply", Token: v.Live.Token, Verb: "apply", Name: "Apply", Change: v.Change.Hash, Main: true, Command: commandLine(v.Live, "apply", v.ID),
		Warning: "The change above is made in " + v.Live.Target + ": all of it, or nothing if a file there differs from what was changed.",
	}
}

// Commands returns the command lines that continue where the page ends. A directory has none.
func (v *view) Commands() []string {
	commands := []string{"result"}
	switch {
	case v.State.SessionID == "":
		return nil
	case v.Running():
		commands = []string{"watch", "status"}
	case v.Final == nil:
		commands = []string{"retry", "status"}
	case v.Change != nil:
		commands = []string{"apply", "diff", "result"}
	case len(v.Final.Files) > 0:
		commands = []string{"files", "result"}
	}
	return commandLines(v.Live, v.State.SessionID, commands...)
}

func commandLines(l *Live, id string, commands ...string) (lines []string) {
	if l != nil && l.Command == nil {
		return nil
	}
	for _, command := range commands {
		lines = append(lines, commandLine(l, command, id))
	}
	return lines
}

// Problem renders the page of an address that shows nothing else.
func Problem(title, why string) ([]byte, error) {
	return executeTemplate("problem", struct {
		frame
		Why string
	}{frame{Live: &Live{}, Title: title}, cleanText(why)})
}

// Evaluation renders the report of an evaluation, a standalone page. Its data is that of the
// template; the ID is the evaluation's.
func Evaluation(id string, data any) ([]byte, error) {
	return executeTemplate("report", struct {
		Frame frame
		Data  any
	}{frame{Title: "Evaluation " + id, Kind: "evaluation", ID: id, Tabs: []tab{{"verdict", "Verdict"}, {"arms", "Arms"}, {"questions", "Questions"}}}, data})
}
