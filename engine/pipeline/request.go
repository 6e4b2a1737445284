package pipeline

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of human messages.
const (
	maxText     = 4 << 10 // most bytes of one message
	maxMessages = 100     // most messages of a run
)

// Refuse returns the reason, for people, why a person's request has no effect now. It returns
// nil for other events.
func (s *State) Refuse(event Event) error {
	if _, ok := event.(Reopened); ok {
		return s.refuseReopened()
	}
	if s.Done() {
		switch event.(type) {
		case Pause, Resume, Retry, Said, Cancel:
			return errors.New("the run is over")
		case Ended, Broke, Suspended, Reopened, TimeUp:
		}
		return nil
	}
	switch e := event.(type) {
	case Pause:
		if s.Paused {
			return errors.New("the run is paused already")
		}
	case Resume:
		switch {
		case s.Paused:
		case s.Parked != nil:
			return errors.New("the run is not paused but parked: retry or cancel it")
		default:
			return errors.New("the run is not paused")
		}
	case Retry:
		if s.Parked == nil {
			return errors.New("no step has failed")
		}
	case Said:
		return s.refuseSaid(e)
	case Cancel, Ended, Broke, Suspended, Reopened, TimeUp:
	}
	return nil
}

func (s *State) refuseSaid(e Said) error {
	switch {
	case strings.TrimSpace(e.Text) == "":
		return errors.New("the text is empty")
	case len(e.Text) > maxText:
		return fmt.Errorf("the text has %d bytes, at most %d are accepted", len(e.Text), maxText)
	case len(s.Messages) >= maxMessages:
		return fmt.Errorf("the run has %d messages, the most that it accepts", maxMessages)
	}
	return nil
}

// Unread records that a person's request could not be read, and why.
func (s *State) Unread(request, why string) { s.note("", request+" ignored: "+truncate(why)) }

// request applies a person's request, or records why it has no effect.
func (s *State) request(event Event) {
	if err := s.Refuse(event); err != nil {
		s.note("", "ignored: "+err.Error())
		return
	}
	switch e := event.(type) {
	case Pause:
		s.Paused = true
		s.add(Entry{Kind: EntryPaused, Text: "paused"})
	case Resume:
		s.Paused = false
		s.note("", "resumed")
	case Retry:
		s.Parked = nil
		s.note(s.Current(), "the failed step is retried")
		s.tryAgain()
	case Said:
		s.Messages = append(s.Messages, Keep{Number: len(s.Messages) + 1, Text: strings.ToValidUTF8(e.Text, "\uFFFD")})
		s.note("", "human message: "+truncate(e.Text))
	case Cancel:
		s.Rest = s.Pending
		s.end(Cancelled, "the run was cancelled", nil)
	case Ended, Broke, Suspended, Reopened, TimeUp:
	}
}
