package pipeline

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of what people say.
const (
	MaxText     = 4 << 10 // bytes of a message
	MaxMessages = 100     // of a run
)

// Refuse says why an event that a person asks for makes no sense now, in words
// for that person; nil if it does, and for every other event.
func (s *State) Refuse(event Event) error {
	asked, ok := event.(request)
	if !ok {
		return nil
	}
	if s.Done() {
		return errors.New("the run is over")
	}
	switch e := asked.(type) {
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
	}
	return nil
}

func (s *State) refuseSaid(e Said) error {
	switch {
	case strings.TrimSpace(e.Text) == "":
		return errors.New("the text is empty")
	case len(e.Text) > MaxText:
		return fmt.Errorf("the text has %d bytes, at most %d are accepted", len(e.Text), MaxText)
	case len(s.Messages) >= MaxMessages:
		return fmt.Errorf("the run has %d messages, as many as it can have", MaxMessages)
	}
	return nil
}

// person takes what a person asks for.
func (s *State) person(asked request) {
	if err := s.Refuse(asked); err != nil {
		s.note("", "ignored: "+err.Error())
		return
	}
	switch e := asked.(type) {
	case Pause:
		s.Paused = true
		s.note("", "paused")
	case Resume:
		s.Paused = false
		s.note("", "resumed")
	case Retry:
		s.Parked = nil
		s.note(s.Current(), "the failed step is retried")
	case Said:
		s.Messages = append(s.Messages, Keep{Number: len(s.Messages) + 1, Text: strings.ToValidUTF8(e.Text, "\uFFFD")})
		s.note("", "somebody said: "+truncate(e.Text))
	case Cancel:
		s.end(Cancelled, "the run was cancelled", nil)
	}
}
