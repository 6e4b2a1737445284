package coordination

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of human messages.
const (
	MaxText     = 4 << 10 // bytes of a message
	maxMessages = 100     // most messages of a session
)

// Held reports whether the session is paused or parked, that is, waits for a person. Its
// clock is then stopped.
func (s *State) Held() bool { return !s.Done() && (s.Paused || s.parked()) }

// parked reports whether the session waits for a failed agent to be retried.
func (s *State) parked() bool {
	return s.Config.OnAgentFailure == failurePark && s.lost() || s.stranded()
}

// parkedFor returns the remedy and the failures of a parked session, or "" if it is not
// parked.
func (s *State) parkedFor() string {
	if s.Done() || !s.parked() {
		return ""
	}
	if s.stranded() {
		return "retry after mending it, or cancel: " + s.unreached()
	}
	var failed, causes []string
	for _, a := range s.Agents {
		if a.Error != nil {
			failed, causes = append(failed, a.ID), append(causes, a.Error.Type+": "+a.Error.Message)
		}
	}
	return "retry, finish or cancel: " + Together(failed, causes, " failed, ")
}

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
	if s.Done() {
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
		return s.refuseResults(e)
	}
	return nil
}

func (s *State) refuseResume() error {
	switch {
	case s.Paused:
		return nil
	case s.parked():
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
	switch a := s.agent(id); {
	case a == nil:
		return fmt.Errorf("the team has no agent %s; it has: %s", quoted(id), strings.Join(s.Config.Agents, ", "))
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
	case e.Agent != "" && s.agent(e.Agent) == nil:
		return fmt.Errorf("the team has no agent %s; it has: %s", quoted(e.Agent), strings.Join(s.Config.Agents, ", "))
	case e.Agent != "":
		return s.refuseRecipient(s.agent(e.Agent))
	}
	return nil
}

// refuseRecipient refuses a message to an agent that takes no further step.
func (s *State) refuseRecipient(a *agent) error {
	idle := a.active() && a.Run == nil && !a.goesOn()
	switch f := s.Finale; {
	case f != nil && a.ID != f.By && s.afterPresenting() == stageOver:
		return fmt.Errorf("the team has decided, and agent %s takes no further step; %s makes the final answer", a.ID, f.By)
	case f != nil:
	case a.Absent:
		return fmt.Errorf("agent %s has not joined the team and takes no step unless it does; leave the agent out", a.ID)
	case a.Error != nil && a.Away == NoOutage && !s.parked():
		return fmt.Errorf("agent %s has failed and takes no further step; retry it first", a.ID)
	case idle && s.Config.Mode == voting && !s.Config.votes() && (s.atLimit(a) || s.full(a)):
		return fmt.Errorf("agent %s is at its limit and takes no further step", a.ID)
	}
	return nil
}

// Unread records that a person's request could not be read, and why.
func (s *State) Unread(request, why string) {
	s.note(Entry{Kind: EntryIgnored, Reason: truncate(why), Text: request + " ignored"})
}

// stepRequest applies a person's request.
func (s *State) stepRequest(asked request) {
	if err := s.Refuse(asked); err != nil {
		s.ignore(asked.name() + " ignored: " + err.Error())
		return
	}
	switch e := asked.(type) {
	case Finish:
		s.force(Finished, "a decision was requested")
	case Pause:
		s.Paused = true
		s.note(Entry{Kind: EntryPaused, Text: "paused"})
	case Resume:
		s.Paused = false
		s.note(Entry{Kind: EntryResumed, Text: "resumed"})
	case Retry:
		s.retry(e.Agent)
	case Said:
		s.said(e)
	case ToolResults:
		s.toolResults(e)
	}
}

// retry makes failed agents active again. Their steps are not counted twice.
func (s *State) retry(id string) {
	for _, a := range s.Agents {
		if a.Error == nil || id != "" && id != a.ID {
			continue
		}
		if a.Rest != nil {
			a.Rest.Launch.AwaySince = time.Time{}
		}
		s.revive(a)
	}
}

// said puts a message into the ledger. Votes and stops that have not heard it are
// stale.
func (s *State) said(e Said) {
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
