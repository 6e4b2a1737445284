package pipeline

import (
	"slices"
	"strconv"

	"conclave/engine/text"
)

// Entry is one line of the timeline.
type Entry struct {
	Seq  int    `json:"seq"` // from 1
	Step string `json:"step,omitempty"`
	Text string `json:"text"`
}

const (
	keptEntries    = 50  // bounds the payload of continue-as-new
	keptCharacters = 280 // of any text an agent wrote
)

// Timeline is the last 50 entries, oldest first.
func (s *State) Timeline() []Entry { return append([]Entry{}, s.Recent...) }

func (s *State) note(step, text string) {
	s.Events++
	if len(s.Recent) == keptEntries {
		s.Recent = slices.Delete(s.Recent, 0, 1)
	}
	s.Recent = append(s.Recent, Entry{Seq: s.Events, Step: step, Text: text})
}

func launchID(n int) LaunchID { return LaunchID("l" + strconv.Itoa(n)) }

// truncate keeps the first 280 characters of what an agent wrote.
func truncate(s string) string { return text.HeadRunes(s, keptCharacters) }
