package coordination

import (
	"slices"
	"strconv"

	"conclave/engine/text"
)

// Entry is one line of the timeline.
type Entry struct {
	Seq    int    `json:"seq"`   // from 1
	Round  int    `json:"round"` // wave it happened in, 0 before the first
	Kind   Kind   `json:"kind"`
	Agent  string `json:"agent,omitempty"`
	Step   int    `json:"step,omitempty"`
	Label  string `json:"label,omitempty"`  // of the answer given or voted for
	Target string `json:"target,omitempty"` // of a vote
	Reason string `json:"reason,omitempty"` // why it voted, stopped or failed, or what was said; cut at 280 characters
	Text   string `json:"text"`             // the line for a person, without the reason
}

// Kind sorts timeline entries.
type Kind string

// The kinds of timeline entries.
const (
	EntryRound     Kind = "round"
	EntryRevote    Kind = "revote"
	EntryAnswer    Kind = "answer"
	EntryVote      Kind = "vote"
	EntryStopped   Kind = "stopped"   // the agent has done its part, or is blocked
	EntryRefused   Kind = "refused"   // the step ended with something that does not count
	EntrySuspended Kind = "suspended" // the step was ended from outside
	EntryRestarted Kind = "restarted" // the step ended itself, to see what is new
	EntryFailed    Kind = "failed"
	EntryRetried   Kind = "retried"
	EntrySaid      Kind = "said" // by a person
	EntryPaused    Kind = "paused"
	EntryResumed   Kind = "resumed"
	EntryAsked     Kind = "asked"
	EntryPresented Kind = "presented"
	EntryJudged    Kind = "judged"
	EntryDecided   Kind = "decided"
	EntryIgnored   Kind = "ignored" // stale or impossible; changed nothing
)

const (
	keptEntries    = 50  // bounds the payload of continue-as-new
	keptCharacters = 280 // of any text an agent wrote
)

// Timeline is the last 50 entries, oldest first.
func (s *State) Timeline() []Entry {
	if len(s.Recent) == 0 {
		return []Entry{}
	}
	return slices.Clone(s.Recent)
}

func (s *State) note(e Entry) {
	s.Events++
	e.Seq, e.Round = s.Events, s.Round
	if len(s.Recent) == keptEntries {
		s.Recent = slices.Delete(s.Recent, 0, 1)
	}
	s.Recent = append(s.Recent, e)
}

func quoted(text string) string { return strconv.Quote(truncate(text)) }

// truncate keeps the first 280 characters of what an agent wrote.
func truncate(s string) string { return text.HeadRunes(s, keptCharacters) }
