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

// action is what a step ended with.
type action struct {
	kind coordination.Action

	// Of action.json alone.
	committed bool
	token     string
	manifest  string
	usage     llm.Usage
	heard     int
	final     bool // the answer of a presenter, which is none of a team member

	text                        string // of an answer
	target, targetLabel, reason string // of a vote
	status                      coordination.StopStatus
	summary                     string
	seen                        []coordination.Seen
}

// projections are the documents that are the action of a step without
// action.json, and are made of it where there is one.
var projections = []struct {
	kind coordination.Action
	name string
	read func(*action, document) error
}{
	{coordination.NewAnswer, "answer.json", (*action).answer},
	{coordination.Vote, "vote.json", (*action).vote},
	{coordination.Stop, "stop.json", (*action).stop},
}

// readAction reads what the step in dir ended with; nil if that cannot be told,
// which is warned about. ended is false of a step that has not ended.
func readAction(root *os.Root, dir string, w *warnings) (a *action, ended bool) {
	there := presentProjections(root, dir)
	data, err := readFile(root, dir+"action.json")
	switch {
	case err != nil:
		w.add(dir+"action.json", "%v; the step is ignored", err)
		return nil, true
	case data != nil:
		return readCommit(dir, data, there, w), true
	case len(there) > 1:
		w.add(strings.TrimSuffix(dir, "/"), "has %s, and a step has one action; the step is ignored", strings.Join(there, " and "))
		return nil, true
	}
	for _, p := range projections {
		if !slices.Contains(there, p.name) {
			continue
		}
		a := &action{kind: p.kind}
		if err := a.project(root, dir+p.name, p.read, w); err != nil {
			w.add(dir+p.name, "%v; the step is ignored", err)
			return nil, true
		}
		return a, true
	}
	return nil, false
}

// aside reports what is no action of an agent as a member of the team: a
// presented answer, or the judgement of one.
func (a *action) aside() bool {
	return a.final || a.kind == coordination.Submit || a.kind == coordination.RestartTeam
}

func presentProjections(root *os.Root, dir string) []string {
	var there []string
	for _, p := range projections {
		if _, err := root.Lstat(dir + p.name); err == nil {
			there = append(there, p.name)
		}
	}
	return there
}

func (a *action) project(root *os.Root, name string, read func(*action, document) error, w *warnings) error {
	data, err := readFile(root, name)
	if err != nil {
		return err
	}
	d, err := decode(data)
	if err != nil {
		return err
	}
	if err := read(a, d); err != nil {
		return err
	}
	a.saw(d, name, w)
	return nil
}

// readCommit reads action.json. Projections of another action are not made of it.
func readCommit(dir string, data []byte, there []string, w *warnings) *action {
	name := dir + "action.json"
	a := &action{committed: true}
	d, err := decode(data)
	if err == nil {
		err = a.commit(d)
	}
	if err != nil {
		w.add(name, "%v; the step is ignored", err)
		return nil
	}
	a.saw(d, name, w)
	for _, p := range projections {
		if p.kind != a.kind && slices.Contains(there, p.name) {
			w.add(dir+p.name, "is ignored: action.json says that the step ended with %s", a.kind)
		}
	}
	return a
}

func (a *action) commit(d document) error {
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
	a.heard, _ = number(d["heard"])
	a.usage = usage(d["usage"])
	a.kind = coordination.Action(kind)
	if a.aside() {
		return nil
	}
	payload, err := decode(d["payload"])
	if err != nil {
		return fmt.Errorf("has a payload that %w", err)
	}
	for _, p := range projections {
		if p.kind == a.kind {
			return p.read(a, payload)
		}
	}
	return fmt.Errorf("has the unknown kind %q", truncate(kind))
}

func (a *action) answer(d document) (err error) {
	if a.text, err = d.text("answer"); err != nil {
		return err
	}
	if label, err := d.optional("label"); err == nil {
		a.final = a.committed && strings.HasSuffix(label, ".final")
	}
	return nil
}

func (a *action) vote(d document) (err error) {
	if a.target, err = d.text("target"); err != nil {
		return err
	}
	if a.reason, err = d.optional("reason"); err != nil {
		return err
	}
	a.reason = text.Truncate(a.reason, team.MaxReason)
	// Nothing is decided from it: what it names is derived from what was seen.
	a.targetLabel, _ = d.optional("target_label")
	return nil
}

func (a *action) stop(d document) (err error) {
	if a.summary, err = d.optional("summary"); err != nil {
		return err
	}
	a.summary = text.Truncate(a.summary, team.MaxReason)
	status, err := d.text("status")
	if err != nil {
		return err
	}
	a.status = coordination.StopStatus(status)
	if a.status != coordination.Complete && a.status != coordination.Blocked {
		return fmt.Errorf("has the unknown status %q", truncate(status))
	}
	return nil
}

// maxSeen bounds the agents that one action may have seen answers of.
const maxSeen = 1000

// saw reads seen_steps. What is no number of a step was not seen: a vote that
// claims too little is asked for again, one that is ignored lets an older one
// stand.
func (a *action) saw(d document, name string, w *warnings) {
	raw, ok := d["seen_steps"]
	if !ok || string(raw) == "null" {
		return
	}
	var entries map[string]json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		w.add(name, "has %s under \"seen_steps\", not an object; it counts as having seen nothing", typeOf(raw))
		return
	}
	if len(entries) > maxSeen {
		w.add(name, "has more than %d agents under \"seen_steps\"; it counts as having seen nothing", maxSeen)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		n, ok := number(entries[id])
		if !ok {
			w.add(name, "has seen_steps of %q that is no step number; it counts as not seen", truncate(id))
			continue
		}
		if n > 0 {
			a.seen = append(a.seen, coordination.Seen{Agent: id, Step: n})
		}
	}
}

// usage reads what a step has cost. What cannot have been is nothing: a number
// below zero would be more to spend.
func usage(raw json.RawMessage) llm.Usage {
	var u llm.Usage
	if json.Unmarshal(raw, &u) != nil || u.ModelCalls < 0 || u.InputTokens < 0 || u.OutputTokens < 0 || u.AtLeastUSD() < 0 {
		return llm.Usage{}
	}
	return u
}

// number reads a JSON integer that can be the number of a step, 0 for none.
func number(raw json.RawMessage) (int, bool) {
	n, err := strconv.Atoi(string(raw))
	return n, err == nil && n >= 0 && n <= maxStep
}
