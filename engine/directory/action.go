package directory

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/team"
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

	text string // text of an answer
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
		w.add(strings.TrimSuffix(dir, "/"), "has %s, and a step has one action; the step is ignored", fileNames(existing))
		return nil, true
	default:
		name, a = dir+existing[0].name, &action{kind: existing[0].kind}
		if d, err = readDocument(root, name); err == nil {
			err = existing[0].read(a, d)
		}
	}
	if err != nil {
		w.add(name, "%v; the step is ignored", err)
		return nil, true
	}
	a.seen = readSeen(d, name, w)
	for _, f := range existing {
		if f.kind != a.kind {
			w.add(dir+f.name, "is ignored: action.json says that the step ended with %s", a.kind)
		}
	}
	return a, true
}

func fileNames(files []actionFile) string {
	var names []string
	for _, f := range files {
		names = append(names, f.name)
	}
	return strings.Join(names, " and ")
}

// isFinale reports whether the action presents or evaluates an answer, which is not part of the
// team's coordination.
func (a *action) isFinale() bool {
	return a.final || a.kind == coordination.Submit || a.kind == coordination.RestartTeam
}

func (a *action) readCommit(d document) error {
	kind, err := d.text("kind")
	if err != nil {
		return err
	}
	if a.token, err = d.text("token"); err != nil {
		return err
	}
	if a.manifest, err = d.optional("manifest"); err != nil {
		return err
	}
	a.heard, _ = parseNumber(d["heard"])
	a.usage = parseUsage(d["usage"])
	a.kind = coordination.Action(kind)
	if a.isFinale() {
		return nil
	}
	payload, err := decode(d["payload"])
	if err != nil {
		return fmt.Errorf("has a payload that %w", err)
	}
	for _, f := range actionFiles {
		if f.kind == a.kind {
			return f.read(a, payload)
		}
	}
	return fmt.Errorf("has the unknown kind %q", truncate(kind))
}

func (a *action) readAnswer(d document) (err error) {
	if a.text, err = d.text("answer"); err != nil {
		return err
	}
	if label, err := d.optional("label"); err == nil {
		a.final = a.committed && coordination.IsFinal(label)
	}
	return nil
}

func (a *action) readVote(d document) (err error) {
	if a.vote.Target, err = d.text("target"); err != nil {
		return err
	}
	if a.vote.Reason, err = d.optional("reason"); err != nil {
		return err
	}
	a.vote.Reason = text.Truncate(a.vote.Reason, team.MaxReason)
	// The label is only shown: decisions use the target and seen_steps.
	a.vote.TargetLabel, _ = d.optional("target_label")
	return nil
}

func (a *action) readStop(d document) (err error) {
	if a.stop.Summary, err = d.optional("summary"); err != nil {
		return err
	}
	a.stop.Summary = text.Truncate(a.stop.Summary, team.MaxReason)
	status, err := d.text("status")
	if err != nil {
		return err
	}
	a.stop.Status = coordination.StopStatus(status)
	if a.stop.Status != coordination.Complete && a.stop.Status != coordination.Blocked {
		return fmt.Errorf("has the unknown status %q", truncate(status))
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
		w.add(name, "has %s under \"seen_steps\", not an object; it counts as having seen nothing", typeOf(raw))
		return nil
	}
	if len(entries) > maxSeen {
		w.add(name, "has more than %d agents under \"seen_steps\"; it counts as having seen nothing", maxSeen)
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		n, ok := parseNumber(entries[id])
		if !ok {
			w.add(name, "has seen_steps of %q that is not a step number; it counts as not seen", truncate(id))
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
