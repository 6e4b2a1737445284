// The timeline, for people, and the ledger.

package coordination

import (
	"slices"
	"strconv"
	"time"

	"conclave/engine/text"
)

// timeline has the newest entries for people.
type timeline struct {
	Events int     `json:"events"` // number of entries written
	Recent []Entry `json:"recent"` // the last of them
}

// Entry is one line of the timeline.
type Entry struct {
	Seq    int    `json:"seq"`   // number of the entry, from 1
	Round  int    `json:"round"` // wave it happened in, 0 before the first
	Kind   string `json:"kind"`
	Agent  string `json:"agent,omitempty"`
	Step   int    `json:"step,omitempty"`
	Label  string `json:"label,omitempty"`  // label of the answer or of the vote's target; of update_injected the labels of all answers, with spaces between
	Target string `json:"target,omitempty"` // target of a vote
	Reason string `json:"reason,omitempty"` // reason of the vote, stop or failure, or the message; truncated to 280 characters
	Text   string `json:"text"`             // text for people, without the reason

	Question string `json:"question,omitempty"` // ID of the question that was asked or closed

	Time time.Time `json:"time,omitzero"` // set by State.Stamp
}

// Revote reports whether the entry begins a round that repeats a split vote.
func (e Entry) Revote() bool { return e.Kind == EntryRevote }

// Closes reports whether the entry closes a question to a person.
func (e Entry) Closes() bool {
	return e.Question != "" && slices.Contains([]string{EntryReplied, EntryApproved, EntryDenied, EntryWithdrawn}, e.Kind)
}

// Ignored reports whether the entry describes an event that changed nothing.
func (e Entry) Ignored() bool { return e.Kind == EntryIgnored }

// The kinds of timeline entries.
const (
	EntryRound     = "round"
	EntryRevote    = "revote"
	EntryInjected  = "update_injected" // answers reached the step while it worked
	EntryAnswer    = "answer"
	EntryVote      = "vote"
	EntryStopped   = "stopped"   // the agent's part is complete or blocked
	EntryRefused   = "refused"   // the step ended without an accepted action
	EntrySuspended = "suspended" // the step was cancelled and can be resumed
	EntryRestarted = "restarted" // the step ended itself for news
	EntryFailed    = "failed"
	EntryRetried   = "retried"
	EntryWaiting   = "waiting"  // every model server is away
	EntryAway      = "away"     // the others go on without the agent, whose model does not reply
	EntryBack      = "back"     // its model replies, or too few others are left
	EntryRevealed  = "revealed" // secluded agents are shown all answers
	entrySaid      = "said"     // a person's message
	EntryPaused    = "paused"
	EntryResumed   = "resumed"
	entryAsked     = "asked"          // a question to a person, or a request to decide
	EntryReplied   = "replied"        // a person has answered a question
	EntryApproved  = "approved"       // a person allows a call
	EntryDenied    = "denied"         // a person, or nobody in time, refuses a call
	EntryUnknown   = "effect_unknown" // a call may have happened; a person is asked
	EntryWithdrawn = "withdrawn"      // a question that is no longer of interest
	entryDrafted   = "drafted"        // criteria, personas or subtasks were made
	EntryCritiqued = "critiqued"      // the evaluation of an answer
	EntryPresented = "presented"
	EntryJudged    = "judged"
	EntryDecided   = "decided"
	EntryCancelled = "cancelled"
	EntryReopened  = "reopened"
	EntryChecked   = "checked"
	EntryJoined    = "joined"  // the agent joins the staged team
	EntryIgnored   = "ignored" // a stale or impossible event, which changed nothing
)

// The timeline keeps its newest entries, and older ones for as long as a polling client may
// need them. mostEntries bounds the payload of continue-as-new.
const (
	keptEntries    = 50
	keptFor        = 15 * time.Second
	mostEntries    = 500
	keptCharacters = 280 // longest text of an agent, in characters
)

func (t *timeline) addEntry(round int, e Entry) {
	t.Events++
	e.Seq, e.Round = t.Events, round
	if len(t.Recent) == mostEntries {
		t.Recent = slices.Delete(t.Recent, 0, 1)
	}
	t.Recent = append(t.Recent, e)
}

func (t *timeline) stampEntries(now time.Time) {
	for i := range t.Recent {
		if t.Recent[i].Time.IsZero() {
			t.Recent[i].Time = now
		}
	}
	old := slices.IndexFunc(t.Recent, func(e Entry) bool { return now.Sub(e.Time) < keptFor })
	if old < 0 {
		old = len(t.Recent)
	}
	t.Recent = slices.Delete(t.Recent, 0, max(0, min(old, len(t.Recent)-keptEntries)))
}

// DecidedAt returns the time of the last decision, or zero if the timeline has none.
func (t *timeline) DecidedAt() time.Time {
	for _, e := range slices.Backward(t.Timeline()) {
		if e.Kind == EntryDecided {
			return e.Time
		}
	}
	return time.Time{}
}

// Timeline returns the newest entries, oldest first: the last 50, and all of the last 15
// seconds, but at most 500.
func (t *timeline) Timeline() []Entry {
	return append([]Entry{}, t.Recent...)
}

func ignoredEntry(text string) Entry { return Entry{Kind: EntryIgnored, Text: text} }

func quoteText(text string) string { return strconv.Quote(truncate(text)) }

// truncate keeps the first 280 characters of an agent's text.
func truncate(s string) string { return text.HeadRunes(s, keptCharacters) }

// ledger counts the accepted actions, and has those that the next Drain hands out.
type ledger struct {
	Accepted int        `json:"accepted"` // number of ledger entries written
	Pending  []Accepted `json:"pending"`
}

func (l *ledger) addAccepted(attempt int, entry Accepted) int {
	l.Accepted++
	entry.Seq = l.Accepted
	if attempt > 1 {
		entry.Attempt = attempt
	}
	l.Pending = append(l.Pending, entry)
	return entry.Seq
}

func (l *ledger) stampAccepted(now time.Time) {
	for i := range l.Pending {
		if l.Pending[i].Time.IsZero() {
			l.Pending[i].Time = now
		}
	}
}

// TakeAccepted returns the entries that are not handed out yet. Drain returns them as commands.
func (l *ledger) TakeAccepted() []Accepted {
	taken := l.Pending
	l.Pending = nil
	return taken
}

func (l *ledger) handOut() (commands []Command) {
	for _, entry := range l.TakeAccepted() {
		commands = append(commands, Record{Entry: entry})
	}
	return commands
}
