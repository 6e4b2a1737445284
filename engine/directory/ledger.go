package directory

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
	"conclave/engine/team"
)

// ledger holds the actions that the workflow of a session accepted. It is zero for
// a directory without a ledger.
type ledger struct {
	entries  map[string]team.Entry // entries by agent and step
	runs     []string              // runs of the workflow
	attempt  int                   // number of the team's last attempt; 0 without a ledger
	messages []coordination.Message
}

// readLedger reads ledger/. It ignores a malformed ledger as a whole, because part of it
// would be a different history.
func readLedger(root *os.Root, w *warnings) ledger {
	if _, err := list(root, "ledger"); err != nil {
		w.add("ledger", "%v; the ledger is ignored, and all actions count", err)
		return ledger{}
	}
	var entries []team.Entry
	var resumed []string
	for file := 1; ; file++ {
		name := artifact.Layout{}.Ledger(file)
		var e team.Entry
		found, err := readInto(root, name, &e)
		if err == nil && found {
			entries, err = team.Follow(entries, e)
		}
		if e.Action == team.Resumed {
			resumed = append(resumed, e.Run)
		}
		switch {
		case err != nil:
			w.add(name, "%v; the ledger is ignored, and all actions count", err)
			return ledger{}
		case !found:
			l := newLedger(entries)
			l.runs = append(l.runs, resumed...)
			l.checkMessages(root, w)
			return l
		}
	}
}

func newLedger(entries []team.Entry) ledger {
	l := ledger{entries: map[string]team.Entry{}}
	for _, e := range entries {
		l.attempt = max(l.attempt, e.Attempt, 1)
		if !slices.Contains(l.runs, e.Run) {
			l.runs = append(l.runs, e.Run)
		}
		switch {
		case e.Action == coordination.Say:
			l.messages = append(l.messages, coordination.Message{Number: e.Message, Agent: e.Agent})
		case coordination.IsFinal(e.Label):
		default:
			l.entries[entryKey(e.Agent, e.Step)] = e
		}
	}
	return l
}

// checkMessages drops all human messages if the text of one is missing: no step could read
// that one, so votes would stay stale forever.
func (l *ledger) checkMessages(root *os.Root, w *warnings) {
	for i, m := range l.messages {
		name := artifact.Layout{}.Message(m.Number)
		found, err := readInto(root, name, &step.Message{}) // read as the step will read it
		switch {
		case err != nil:
		case !found:
			err = errors.New("is missing")
		case m.Number != i+1:
			err = fmt.Errorf("is message %d of the ledger", i+1)
		}
		if err != nil {
			w.add(name, "%v; the messages of people are ignored", err)
			l.messages = nil
			return
		}
	}
}

// counts reports whether a step's action counts, and for which attempt of the team. A step of
// the workflow counts if it is in the ledger; a step of another program always counts.
// Presenting and evaluating never count.
func (l ledger) counts(agent string, number int, a *action, w *warnings) (attempt int, ok bool) {
	if a.isFinale() {
		return 0, false
	}
	name := fmt.Sprintf("agents/%s/%03d", agent, number)
	e, found := l.entries[entryKey(agent, number)]
	switch {
	case found && e.Action == a.kind:
		return max(e.Attempt, 1), true
	case found:
		w.add(name, "ended with %s, and the ledger says %s; the step is ignored", a.kind, truncate(string(e.Action)))
		return 0, false
	}
	for _, run := range l.runs {
		if run != "" && strings.HasPrefix(a.token, run+"-") {
			w.add(name, "is not on the ledger: the session has not accepted it; the step is ignored")
			return 0, false
		}
	}
	return l.attempt, true
}

func entryKey(agent string, step int) string { return fmt.Sprintf("%s/%d", agent, step) }
