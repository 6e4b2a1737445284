package scenario

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of the messages of people.
const (
	maxMessage  = 4 << 10 // most bytes of one message
	maxMessages = 100     // most messages of a run
)

func (s *State) refuseSaid(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New("the text is empty")
	case len(text) > maxMessage:
		return fmt.Errorf("the text has %d bytes, at most %d are accepted", len(text), maxMessage)
	case s.Said >= maxMessages:
		return fmt.Errorf("the run has %d messages, the most that it accepts", maxMessages)
	}
	return nil
}

// drainMessages returns the commands that write messages and announce them to the running
// step.
func (s *State) drainMessages() []Command {
	var commands []Command
	for _, m := range s.Messages {
		commands = append(commands, m)
	}
	s.Messages = nil
	if s.Launched != nil && !s.Stopped {
		commands = append(commands, s.ring()...)
	}
	return commands
}

// ring announces messages that have not been announced.
func (s *State) ring() []Command {
	if s.Announced == s.Said {
		return nil
	}
	s.Announced = s.Said
	return []Command{Ring{s.Said}}
}
