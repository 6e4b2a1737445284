package directory

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session"
	"conclave/engine/step"
	"conclave/engine/text"
)

// action is the action that ended a step.
type action struct {
	kind coordination.Action

	// The fields that only action.json has.
	committed bool
	token     string
	manifest  string
	usage     llm.Usage
	heard     int
	final     bool // an answer by a presenter

	text string          // text of an answer
	data json.RawMessage // its data, if any
	vote coordination.Voted
	stop coordination.Stopped
	seen []coordination.Seen
}

// actionFile is a document derived from action.json. In a step without action.json, its only
// actionFile is the action.
type actionFile struct {
	kind coordination.Action
	name string
	read func(*action, document) error
}

var actionFiles = []actionFile{
	{coordination.NewAnswer, "answer.json", (*action).readAnswer},
	{coordination.Vote, "vote.json", (*action).readVote},
	{coordination.Stop, "stop.json", (*action).readStop},
}

// readAction reads the action of the step in dir. It returns nil, with a warning, if the
// action cannot be read. It reports whether the step has ended.
func readAction(root *os.Root, dir string, w *warnings) (a *action, ended bool) {
	existing := slices.DeleteFunc(slices.Clone(actionFiles), func(f actionFile) bool {
		_, err := root.Lstat(dir + f.name)
		return err != nil
	})
	name := dir + "action.json"
	d, err := readDocument(root, name)
	switch {
	case err != nil:
	case d != nil:
		a = &action{committed: true}
		err = a.readCommit(d)
	case len(existing) == 0:
		return nil, false
	case len(existing) > 1:
		w.addWarning(strings.TrimSuffix(dir, "/"), "has %s, and a step has one action; the step is ignored", fileNames(existing))
		return nil, true
	default:
		name, a = dir+existing[0].name, &action{kind: existing[0].kind}
		if d, err = readDocument(root, name); err == nil {
			err = existing[0].read(a, d)
		}
	}
	if err != nil {
		w.addWarning(name, "%v; the step is ignored", err)
		return nil, true
	}
	a.seen = readSeen(d, name, w)
	for _, f := range existing {
		if f.kind != a.kind {
			w.addWarning(dir+f.name, "is ignored: action.json says that the step ended with %s", a.kind)
		}
	}
	return a, true
}

func fileNames(files []actionFile) string {
	names := text.Each(files, func(f actionFile) string { return f.name })
	return strings.Join(names, " and ")
}

// isFinale reports whether the action presents or evaluates an answer, which is not part of the
// team's coordination.
func (a *action) isFinale() bool {
	return a.final || a.kind == coordination.Submit || a.kind == coordination.RestartTeam
}

func (a *action) readCommit(d document) error {
	kind, err := d.textUnder("kind")
	if err != nil {
		return err
	}
	if a.token, err = d.textUnder("token"); err != nil {
		return err
	}
	if a.manifest, err = d.optionalText("manifest"); err != nil {
		return err
	}
	a.heard, _ = parseNumber(d["heard"])
	a.usage = parseUsage(d["usage"])
	a.kind = coordination.Action(kind)
	if a.isFinale() {
		return nil
	}
	payload, err := decodeObject(d["payload"])
	if err != nil {
		return fmt.Errorf("has a payload that %w", err)
	}
	for _, f := range actionFiles {
		if f.kind == a.kind {
			return f.read(a, payload)
		}
	}
	return fmt.Errorf("has the unknown kind %q", truncateForeign(kind))
}

func (a *action) readAnswer(d document) (err error) {
	if a.text, err = d.textUnder("answer"); err != nil {
		return err
	}
	a.data = d["data"]
	if label, err := d.optionalText("label"); err == nil {
		a.final = a.committed && coordination.IsFinal(label)
	}
	return nil
}

func (a *action) readVote(d document) (err error) {
	if a.vote.Target, err = d.textUnder("target"); err != nil {
		return err
	}
	if a.vote.Reason, err = d.optionalText("reason"); err != nil {
		return err
	}
	a.vote.Reason = text.Truncate(a.vote.Reason, session.MaxReason)
	// The label is only shown: decisions use the target and seen_steps.
	a.vote.TargetLabel, _ = d.optionalText("target_label")
	return nil
}

func (a *action) readStop(d document) (err error) {
	if a.stop.Summary, err = d.optionalText("summary"); err != nil {
		return err
	}
	a.stop.Summary = text.Truncate(a.stop.Summary, session.MaxReason)
	status, err := d.textUnder("status")
	if err != nil {
		return err
	}
	a.stop.Status = coordination.StopStatus(status)
	if a.stop.Status != coordination.Complete && a.stop.Status != coordination.Blocked {
		return fmt.Errorf("has the unknown status %q", truncateForeign(status))
	}
	return nil
}

// maxSeen limits the agents in one document.
const maxSeen = 1000

// readSeen reads seen_steps. Invalid step numbers count as unseen, which makes the vote
// stale. If the vote were ignored instead, an older one would count.
func readSeen(d document, name string, w *warnings) (seen []coordination.Seen) {
	raw, ok := d["seen_steps"]
	if !ok || string(raw) == "null" {
		return nil
	}
	var entries map[string]json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		w.addWarning(name, "has %s under \"seen_steps\", not an object; it counts as having seen nothing", typeOf(raw))
		return nil
	}
	if len(entries) > maxSeen {
		w.addWarning(name, "has more than %d agents under \"seen_steps\"; it counts as having seen nothing", maxSeen)
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		n, ok := parseNumber(entries[id])
		if !ok {
			w.addWarning(name, "has seen_steps of %q that is not a step number; it counts as not seen", truncateForeign(id))
			continue
		}
		if n > 0 {
			seen = append(seen, coordination.Seen{Agent: id, Step: n})
		}
	}
	return seen
}

// parseUsage reads the usage of a step. Impossible usage counts as zero: negative numbers
// would extend the budget.
func parseUsage(raw json.RawMessage) llm.Usage {
	var u llm.Usage
	if json.Unmarshal(raw, &u) != nil || u.ModelCalls < 0 || u.InputTokens < 0 || u.OutputTokens < 0 || u.AtLeastUSD() < 0 {
		return llm.Usage{}
	}
	return u
}

// parseNumber reads a step number, or 0, from JSON.
func parseNumber(raw json.RawMessage) (int, bool) {
	n, err := strconv.Atoi(string(raw))
	return n, err == nil && n >= 0 && n <= maxStep
}

// ledger holds the actions that the workflow of a session accepted. It is zero for
// a directory without a ledger.
type ledger struct {
	entries  map[string]session.Entry // entries by agent and step
	runs     []string                 // runs of the workflow
	attempt  int                      // number of the team's last attempt; 0 without a ledger
	messages []coordination.Message
}

// readLedger reads ledger/. It ignores a malformed ledger as a whole, because part of it
// would be a different history.
func readLedger(root *os.Root, w *warnings) ledger {
	if _, err := listEntries(root, "ledger"); err != nil {
		w.addWarning("ledger", "%v; the ledger is ignored, and all actions count", err)
		return ledger{}
	}
	var entries []session.Entry
	var resumed []string
	for file := 1; ; file++ {
		name := artifact.Layout{}.Ledger(file)
		var e session.Entry
		found, err := readInto(root, name, &e)
		if err == nil && found {
			entries, err = session.Follow(entries, e)
		}
		if e.Action == session.Resumed {
			resumed = append(resumed, e.Run)
		}
		switch {
		case err != nil:
			w.addWarning(name, "%v; the ledger is ignored, and all actions count", err)
			return ledger{}
		case !found:
			l := newLedger(entries)
			l.runs = append(l.runs, resumed...)
			l.checkMessages(root, w)
			return l
		}
	}
}

func newLedger(entries []session.Entry) ledger {
	l := ledger{entries: map[string]session.Entry{}}
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
			w.addWarning(name, "%v; the messages of people are ignored", err)
			l.messages = nil
			return
		}
	}
}

// countsAction reports whether a step's action counts, and for which attempt of the team. A step of
// the workflow counts if it is in the ledger; a step of another program always counts.
// Presenting and evaluating never count.
func (l ledger) countsAction(agent string, number int, a *action, w *warnings) (attempt int, ok bool) {
	if a.isFinale() {
		return 0, false
	}
	name := fmt.Sprintf("agents/%s/%03d", agent, number)
	e, found := l.entries[entryKey(agent, number)]
	switch {
	case found && e.Action == a.kind:
		return max(e.Attempt, 1), true
	case found:
		w.addWarning(name, "ended with %s, and the ledger says %s; the step is ignored", a.kind, truncateForeign(string(e.Action)))
		return 0, false
	}
	for _, run := range l.runs {
		if run != "" && strings.HasPrefix(a.token, run+"-") {
			w.addWarning(name, "is not on the ledger: the session has not accepted it; the step is ignored")
			return 0, false
		}
	}
	return l.attempt, true
}

func entryKey(agent string, step int) string { return fmt.Sprintf("%s/%d", agent, step) }
