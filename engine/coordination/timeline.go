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
	Label  string `json:"label,omitempty"`  // of the answer, or of the vote's target
	Target string `json:"target,omitempty"` // of a vote
	Reason string `json:"reason,omitempty"` // of the vote, stop or failure, or the message; truncated to 280 characters
	Text   string `json:"text"`             // for people, without the reason
}

// Kind is the kind of a timeline entry.
type Kind string

// The kinds of timeline entries.
const (
	entryRound     Kind = "round"
	EntryRevote    Kind = "revote"
	entryAnswer    Kind = "answer"
	entryVote      Kind = "vote"
	entryStopped   Kind = "stopped"   // the agent's part is complete or blocked
	entryRefused   Kind = "refused"   // the step ended without an accepted action
	entrySuspended Kind = "suspended" // the step was cancelled to go on later
	entryRestarted Kind = "restarted" // the step ended itself for news
	entryFailed    Kind = "failed"
	entryRetried   Kind = "retried"
	entrySaid      Kind = "said" // a person's message
	entryPaused    Kind = "paused"
	entryResumed   Kind = "resumed"
	entryAsked     Kind = "asked"
	entryPresented Kind = "presented"
	entryJudged    Kind = "judged"
	entryDecided   Kind = "decided"
	entryIgnored   Kind = "ignored" // a stale or impossible event, which changed nothing
)

const (
	keptEntries    = 50  // bounds the payload of continue-as-new
	keptCharacters = 280 // of an agent's text
)

// Timeline returns the last 50 entries, oldest first.
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

// truncate keeps the first 280 characters of an agent's text.
func truncate(s string) string { return text.HeadRunes(s, keptCharacters) }
