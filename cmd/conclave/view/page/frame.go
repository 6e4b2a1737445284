package page

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/engine/text"
	"conclave/workflows"
)

// frame has what pages of all kinds have in common: the head of the document, and the bar above the
// page with the verdict and the tabs.
type frame struct {
	Live   *Live
	Title  string // title of the document
	Home   string // address of the list to which the page belongs; empty without one
	Kind   string // kind of the run, or the name of a page that shows no run
	ID     string
	Status string // class of the verdict
	Word   string // verdict; empty without one
	Said   string // verdict in a few more words
	Tabs   []tab
	Keys   bool // the page has steps, for which there are keys
}

// tab leads to a section of the page.
type tab struct{ ID, Name string }

// Standalone reports whether the document has to name its own policy.
func (f frame) Standalone() bool { return f.Live == nil }

// Action is a request that a reader can send, with the command line that does the same.
type action struct {
	Path, Token   string
	Verb, Name    string
	Command       string
	Warning       string // what is said before a second click; empty to send at once
	Hint          string // what a text field is for; empty without one
	Long          bool   // the text has several lines
	To            []string
	Change        string // hash of the change that was shown
	Main, Harmful bool
}

// ID returns the part of the IDs of the action's fields.
func (a action) ID() string { return attributeID(a.Verb) }

// newAction returns an action on the run of the page. Args follow the ID in the command line.
func (l *Live) newAction(verb, name, id string, args ...string) action {
	return action{
		Path: l.Base + "/" + verb, Token: l.Token, Verb: verb, Name: name, Command: commandLine(l, verb, append([]string{id}, args...)...),
	}
}

func (a action) warning(format string, args ...any) action {
	a.Warning = fmt.Sprintf(format, args...)
	return a
}

// asking gives the action a text field.
func (a action) asking(hint string, long bool, to ...string) action {
	a.Hint, a.Long, a.To = hint, long, to
	return a
}

// commandLine returns a command for a terminal, with the flags that find the run of the page.
func commandLine(l *Live, command string, args ...string) string {
	if l != nil && l.Command != nil {
		return l.Command(command, args...)
	}
	words := []string{"conclave " + command}
	for _, a := range args {
		words = append(words, text.ShellQuote(a))
	}
	return strings.Join(words, " ")
}

// placeholder stands for the text of a message or a question in a command line.
const placeholder = "TEXT"

// wait describes a run that has not ended: what it waits for, and since when.
type wait struct {
	Class string // parked, paused or running
	Title string
	Why   string
	Since time.Time
}

// waitOf describes what a session waits for.
func (v *view) waitOf() wait {
	st := v.State
	switch {
	case st.Parked != nil:
		return wait{workflows.Parked, "It waits for you", parkedWords(*st.Parked), v.lastEvent(coordination.EntryFailed, coordination.EntryWaiting)}
	case st.Paused:
		return wait{workflows.Paused, "Paused", "A person paused the session. Nothing runs until it is resumed.", v.lastEvent(coordination.EntryPaused)}
	}
	w := wait{Class: workflows.Running, Title: "At work", Since: v.lastEvent(coordination.EntryRound, coordination.EntryRevote)}
	switch st.Phase {
	case coordination.PhasePreparing:
		w.Why = "The team is being prepared."
	case coordination.PhaseWaitingForTools:
		w.Title, w.Why = "It waits for its caller", "The results of the caller's tools are missing."
	case coordination.PhasePresenting:
		w.Why = "The decision is made; its final answer is being written."
	case coordination.PhaseInitialAnswers:
		w.Why = "The agents give their first answers."
	default:
		w.Why = fmt.Sprintf("Round %d: the agents answer, or vote for an answer.", st.Round)
	}
	return w
}

// parkedWords returns why a run is parked, without the commands that the page has as buttons.
func parkedWords(why string) string {
	if remedy, cause, ok := strings.Cut(why, ": "); ok && strings.Contains(remedy, "retry") {
		why = cause
	}
	return cleanLine(why)
}

// lastEvent returns the time of the last event of the given kinds, or that of the start.
func (v *view) lastEvent(kinds ...string) time.Time {
	var at time.Time
	for _, e := range v.Events {
		for _, kind := range kinds {
			if e.Kind == kind {
				at = e.Time
			}
		}
	}
	if at.IsZero() {
		return v.Began()
	}
	return at
}

// Actions returns the requests that the session takes in its state.
func (v *view) Actions() []action {
	l := v.Live
	if l == nil || l.Token == "" {
		return nil
	}
	if !v.Running() {
		return v.furtherActions()
	}
	var all []action
	if v.HasFailed() {
		retry := l.newAction(workflows.RetrySignal, "Retry the failed steps", v.ID)
		retry.Main = v.State.Parked != nil
		all = append(all, retry)
	}
	all = append(all, l.sayAction(v.ID, "A message to the agents", v.agentIDs()...), l.pauseAction(v.ID, v.State.Paused))
	decide := "No agent has an answer yet, so the session would end without one."
	if leader := v.Answered(v.State.Leader); leader != nil {
		decide = fmt.Sprintf("%s of %s would win now, with %d of %s. Steps at work are ended.",
			v.State.Leader, leader.Agent, v.State.Votes[leader.Agent], cli.Plural(countActive(v.Session), "vote"))
	}
	cancel := l.newAction("cancel", "Cancel", v.ID).warning("The session ends without a decision: nobody wins. Its answers and votes stay on record.")
	cancel.Harmful = true
	return append(all, l.newAction(workflows.FinishSignal, "Decide now", v.ID).warning("%s", decide), cancel)
}

func (v *view) furtherActions() []action {
	l := v.Live
	switch {
	case v.Undecided():
		return []action{l.newAction(workflows.RetrySignal, "Vote again", v.ID), l.sayAction(v.ID, "A message after which the agents vote again", v.agentIDs()...)}
	case v.CanRetry():
		return []action{l.newAction(workflows.RetrySignal, "Retry the failed steps", v.ID)}
	case v.Final == nil || l.Guest:
		return nil
	}
	ask := l.newAction("continue", "Ask a follow-up", v.ID).asking("A question that continues this conversation", true)
	ask.Command = commandLine(l, "run --continue", v.ID, placeholder)
	return []action{ask}
}

func (l *Live) sayAction(id, hint string, to ...string) action {
	return l.newAction(workflows.SaySignal, "Send", id, placeholder).asking(hint, false, to...)
}

func (l *Live) pauseAction(id string, paused bool) action {
	if paused {
		return l.newAction(workflows.ResumeSignal, "Resume", id)
	}
	return l.newAction(workflows.PauseSignal, "Pause", id)
}

// ApplyAction returns the request that applies the change that the page shows; nil if it cannot be
// applied from here.
func (v *view) ApplyAction() *action {
	if v.Live == nil || v.Live.Token == "" || v.Live.Target == "" || v.Change == nil || v.Change.More > 0 {
		return nil
	}
	a := v.Live.newAction("apply", "Apply", v.ID).warning("The change above is made in %s: all of it, or nothing if a file there differs from what was changed.", v.Live.Target)
	a.Change, a.Main = v.Change.Hash, true
	return &a
}

func (v *view) agentIDs() []string {
	var ids []string
	for _, a := range v.Agents {
		ids = append(ids, a.ID)
	}
	return ids
}

// Commands returns the command lines that continue where the page ends.
func (v *view) Commands() []string {
	id := v.State.SessionID
	if id == "" || v.Live != nil && v.Live.Command == nil { // a directory has no commands
		return nil
	}
	line := func(command string, args ...string) string {
		return commandLine(v.Live, command, append([]string{id}, args...)...)
	}
	switch {
	case v.Running():
		return []string{line("watch"), line("status")}
	case v.Final == nil:
		return []string{line("retry"), line("status")}
	case v.Change != nil:
		return []string{line("apply"), line("diff"), line("result")}
	case len(v.Final.Files) > 0:
		return []string{line("files"), line("result")}
	}
	return []string{line("result"), line("pull", "DIR")}
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

func firstWords(s, otherwise string) string { return cmp.Or(briefLine(s, 60), otherwise) }
