// Rules 25, 26, 28, 29 and 104: a State, its events, and the requests of people.

package coordination

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Protocol is the version of the rules. A State keeps the version with which it was started;
// a run of another version is not continued by this one.
const Protocol = 6

// State is the state of a session's coordination: plain data that survives JSON
// unchanged at any point. It is the payload of continue-as-new.
//
// A State is not safe for concurrent use. Its size is bounded by the number of agents,
// their step limits and the number of human messages, not by the length of the session.
type State struct {
	Protocol int `json:"protocol"`
	finale       // and the floors below it; facts has the fields
}

// New starts a session. The first Drain launches the first steps.
func New(c Config) *State {
	s := &State{Protocol: Protocol}
	s.Config = c.withDefaults()
	sorted := slices.Sorted(slices.Values(s.Config.Agents))
	for _, id := range s.Config.Agents {
		s.Agents = append(s.Agents, &agent{ID: id, Number: 1 + slices.Index(sorted, id)})
	}
	for _, id := range s.Config.Checks[:min(len(s.Config.Checks), MaxSessionChecks)] {
		s.Checks = append(s.Checks, check{ID: id})
	}
	s.assembleTeam(&s.roster)
	return s
}

// Step applies one event. It never fails: a stale or impossible event is noted in the timeline and changes
// nothing else. Step all events that happened together before Drain.
func (s *State) Step(event Event) {
	switch e := event.(type) {
	case Answered, Voted, Stopped, Failed, Suspended, Awaiting, Restarted, Exhausted, Evaluated, Critiqued:
		s.applyEnd(e.(ending))
	case Pause, Resume, Finish, Retry, Said, ToolResults, Replied:
		s.stepRequest(e.(request))
	case TimeShort:
		s.noteTimeShort()
	case Waited:
		s.endWaiting()
	case Checked:
		s.note(s.endChecks(&s.roster, e))
	case CallerGone:
		if s.Gone = s.Calling; !s.Gone {
			s.ignore("the end of the caller's time ignored: nothing waits for the caller")
		}
	case Lapsed:
		s.noteAll(s.lapse(&s.roster, e))
	case CancelRequested:
		s.requestCancel()
	case Reopened:
		s.reopen(e)
	case Drafted:
		s.countPreparation(e)
	case ModelReport:
		s.takeModelReport(e)
	case TimeUp:
		s.forceDecision(Timeout, "time is up")
	default:
		s.ignore("unknown event ignored")
	}
}

// applyEnd hands the end of a step to the rules of the step's purpose.
func (s *State) applyEnd(event ending) {
	a, run := s.endRun(event)
	if run == nil {
		return
	}
	if run.Purpose == Evaluation {
		s.endCritique(a, run, event)
		return
	}
	switch e := event.(type) {
	case Awaiting:
		s.noteAll(s.awaitResults(&s.roster, a, run, e))
		return
	case Suspended:
		s.suspendStep(a, run, e)
		return
	}
	if failed, ok := event.(Failed); !ok || failed.Outage == NoOutage {
		s.Waits = 0
	}
	if run.Purpose == Coordinate {
		s.endStep(a, run, event)
		return
	}
	s.endFinaleStep(a, run, event)
}

// Bounds of human messages.
const (
	MaxText     = 4 << 10 // bytes of a message
	maxMessages = 100     // most messages of a session
)

// Refuse returns the reason, for people, why a person's request makes no sense now. It
// returns nil for other events.
func (s *State) Refuse(event Event) error {
	if e, ok := event.(Reopened); ok {
		return s.refuseReopened(e)
	}
	asked, ok := event.(request)
	if !ok {
		return nil
	}
	if _, replies := asked.(Replied); s.Done() && replies {
		return fmt.Errorf("the session has ended, %s; its questions are withdrawn", s.Outcome.text())
	} else if s.Done() {
		return errors.New("the session is over")
	}
	if s.Forced != "" { // the next Drain decides
		return errors.New("a decision was asked for already")
	}
	switch e := asked.(type) {
	case Pause:
		if s.Paused {
			return errors.New("the session is paused already")
		}
	case Resume:
		return s.refuseResume()
	case Retry:
		return s.refuseRetry(e.Agent)
	case Said:
		return s.refuseSaid(e)
	case ToolResults:
		return s.refuseResults(&s.roster, e)
	case Replied:
		return s.refuseReplied(&s.roster, e)
	}
	return nil
}

func (s *State) refuseResume() error {
	switch {
	case s.Paused:
		return nil
	case s.isParked():
		return errors.New("the session is not paused but parked: " + s.parkedFor())
	}
	return errors.New("the session is not paused")
}

func (s *State) refuseRetry(id string) error {
	if id == "" {
		if !slices.ContainsFunc(s.Agents, func(a *agent) bool { return a.Error != nil }) {
			return errors.New("no agent has failed")
		}
		return nil
	}
	switch a := s.agentOf(id); {
	case a == nil:
		return fmt.Errorf("the team has no agent %s; it has: %s", quoteText(id), strings.Join(s.Config.Agents, ", "))
	case a.Error == nil:
		return fmt.Errorf("agent %s has not failed", id)
	}
	return nil
}

func (s *State) refuseSaid(e Said) error {
	switch {
	case strings.TrimSpace(e.Text) == "":
		return errors.New("the text is empty")
	case len(e.Text) > MaxText:
		return fmt.Errorf("the text has %d bytes, at most %d are accepted", len(e.Text), MaxText)
	case len(s.Messages) >= maxMessages:
		return fmt.Errorf("the session has %d messages, the most that it accepts", maxMessages)
	case e.Agent != "" && s.agentOf(e.Agent) == nil:
		return fmt.Errorf("the team has no agent %s; it has: %s", quoteText(e.Agent), strings.Join(s.Config.Agents, ", "))
	case e.Agent != "":
		return s.refuseRecipient(s.agentOf(e.Agent))
	}
	return nil
}

func (s *State) refuseRecipient(a *agent) error {
	idle := a.isActive() && a.Run == nil && !a.hasOpenStep()
	switch f := s.Finale; {
	case f != nil && a.ID != f.By && s.afterPresenting() == stageOver:
		return fmt.Errorf("the team has decided, and agent %s takes no further step; %s makes the final answer", a.ID, f.By)
	case f != nil:
	case a.Absent:
		return fmt.Errorf("agent %s has not joined the team and takes no step unless it does; leave the agent out", a.ID)
	case a.Error != nil && a.Away == NoOutage && !s.isParked():
		return fmt.Errorf("agent %s has failed and takes no further step; retry it first", a.ID)
	case idle && s.Config.Mode == voting && !s.Config.decidesByVote() && (s.atStepLimit(a) || s.atAnswerLimit(a)):
		return fmt.Errorf("agent %s is at its limit and takes no further step", a.ID)
	}
	return nil
}

func (s *State) stepRequest(asked request) {
	if err := s.Refuse(asked); err != nil {
		s.ignore(asked.requestName() + " ignored: " + err.Error())
		return
	}
	switch e := asked.(type) {
	case Finish:
		s.forceDecision(Finished, "a decision was requested")
	case Pause:
		s.Paused = true
		s.note(Entry{Kind: EntryPaused, Text: "paused"})
	case Resume:
		s.Paused = false
		s.note(Entry{Kind: EntryResumed, Text: "resumed"})
	case Retry:
		s.retryFailed(e.Agent)
	case Said:
		s.addMessage(e)
	case ToolResults:
		s.noteAll(s.takeResults(&s.roster, e, s.Cost()))
	case Replied:
		s.noteAll(s.takeReplied(&s.roster, e))
	}
}

func (s *State) retryFailed(id string) {
	for _, a := range s.Agents {
		if a.Error == nil || id != "" && id != a.ID {
			continue
		}
		if a.Rest != nil {
			a.Rest.Launch.AwaySince = time.Time{}
		}
		s.reviveAgent(a)
	}
}

// addMessage puts a message into the ledger. Votes and stops that have not heard it are stale.
func (s *State) addMessage(e Said) {
	m := Message{Number: len(s.Messages) + 1, Agent: e.Agent}
	s.Messages = append(s.Messages, m)
	text := strings.ToValidUTF8(e.Text, "\uFFFD")
	s.accept(Accepted{Action: Say, Agent: e.Agent, Message: m.Number, Text: text})
	whom := "all agents"
	if e.Agent != "" {
		whom = e.Agent
	}
	s.note(Entry{Kind: entrySaid, Agent: e.Agent, Reason: truncate(text), Text: "message to " + whom})
}
