package pull

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/team"
	"conclave/workflows/drive"
)

// numbered identifies a step of a session by agent and number.
type numbered struct {
	agent string
	step  int
}

// ledger compares the ledger with the steps: the entries have no gaps, every entry has its
// step, and every counted step has its entry.
func (v *verifier) ledger(ctx context.Context) {
	for _, e := range v.entries {
		if !v.counted[numbered{e.Agent, e.Step}] {
			continue
		}
		name := artifact.Layout{}.Step(e.Agent, e.Step, "action.json")
		data := v.read(ctx, name)
		var c artifact.Commit
		switch {
		case data == nil:
			v.report(name, "is missing, and entry %d of the ledger counts it", e.Seq)
		case json.Unmarshal(data, &c) != nil: // reported when the step was verified
		case c.Kind != string(e.Action):
			v.report(name, "is a %s; entry %d of the ledger says %s", c.Kind, e.Seq, e.Action)
		}
	}
	newest := ""
	if len(v.entries) > 0 {
		newest = v.entries[len(v.entries)-1].Run
		v.configured(ctx)
	}
	v.recorded(ctx, v.counted, newest)
}

// readLedger reads all entries, including those that a reset workflow replaced, and the steps that
// they count. It reports gaps and entries that cannot follow the previous ones.
func (v *verifier) readLedger(ctx context.Context) {
	last := 0
	names, err := fs.ReadDir(v.root.FS(), "ledger")
	for _, e := range names {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "%d.json", &n); err == nil {
			last = max(last, n)
		}
	}
	if err != nil && len(names) == 0 {
		return // a session without entries has no directory
	}
	var followed []team.Entry
	broken := false
	for n := 1; n <= last; n++ {
		name := artifact.Layout{}.Ledger(n)
		data := v.read(ctx, name)
		var e team.Entry
		if data == nil {
			v.report(name, "is missing, and there is a later entry")
		}
		if data == nil || !v.decode(name, data, &e) {
			broken = true
			continue
		}
		v.entries = append(v.entries, e)
		if e.Step > 0 && e.Action != coordination.Say {
			v.counted[numbered{e.Agent, e.Step}] = true
		}
		if broken {
			continue
		}
		if followed, err = team.Follow(followed, e); err != nil {
			v.report(name, "cannot be followed: it %v", err)
			broken = true
		}
	}
}

// accepted maps the kinds of events that have a ledger entry to the names of their actions.
var accepted = map[string]string{"answer": "answer", "vote": "vote", "stopped": "stop", "presented": "final answer"}

// recorded compares the ledger and the steps with the events and the status of the session.
// The session writes the entry, the event and the status in this order. status.json counts
// ended steps only, so steps with higher numbers may have commits that do not count yet.
func (v *verifier) recorded(ctx context.Context, counted map[numbered]bool, newest string) {
	events := v.read(ctx, "events.jsonl")
	told := v.told(events, counted)
	var s struct {
		Status string
		Events int
		Agents []struct {
			ID   string
			Step int
		}
	}
	data := v.read(ctx, "status.json")
	if data == nil {
		if len(counted) > 0 {
			v.report("status.json", "is missing, and the ledger has entries")
			v.members(ctx)
		}
		return
	}
	if !v.decode("status.json", data, &s) {
		return
	}
	if s.Events > 0 && events == nil {
		v.report("events.jsonl", "is missing, and status.json counts %d events", s.Events)
	}
	if s.Status != drive.Running { // a running step writes them after its commit
		v.lastActions(ctx)
	}
	for _, a := range s.Agents {
		v.agentSteps(a.ID, a.Step)
		for n := 1; n <= a.Step; n++ {
			at := numbered{a.ID, n}
			c, committed := v.commits[at]
			if !committed || counted[at] || !ledgered[c.Kind] || newest != "" && !strings.HasPrefix(c.Token, newest+"-") {
				continue
			}
			if !slices.Contains(told[a.ID], n) && !told.excuse(a.ID, n) {
				v.report(artifact.Layout{}.Step(a.ID, n, "action.json"), "commits a %s that the ledger lacks", c.Kind)
			}
		}
	}
}

// told has, for each agent, the numbers of its steps that ended according to the
// events, in order. A step that ended without a number is 0.
type told map[string][]int

// told returns the ends of steps in the events. It reports each accepted action that the
// ledger lacks.
func (v *verifier) told(events []byte, counted map[numbered]bool) told {
	t := told{}
	for line := range bytes.Lines(events) {
		var e coordination.Entry
		if json.Unmarshal(line, &e) != nil || e.Agent == "" {
			continue
		}
		if e.Step > 0 || e.Kind == "failed" || e.Kind == "suspended" || e.Kind == "refused" {
			t[e.Agent] = append(t[e.Agent], e.Step)
		}
		at := numbered{e.Agent, e.Step}
		if what := accepted[e.Kind]; what != "" && e.Step > 0 && !counted[at] {
			counted[at] = true // one report is enough
			v.report("ledger", "lacks the %s of %s's step %d, which events.jsonl has", what, e.Agent, e.Step)
		}
	}
	return t
}

// excuse reports whether the events have an end without a number that may belong to a
// committed step: it lies between ends with lower and higher numbers. Each such end
// excuses one step and is removed.
func (t told) excuse(agent string, step int) bool {
	lowest := 0
	for i, number := range t[agent] {
		lowest = max(lowest, number)
		if number > 0 || lowest > step {
			continue
		}
		later := slices.IndexFunc(t[agent][i:], func(n int) bool { return n > 0 })
		if later < 0 || t[agent][i+later] > step {
			t[agent] = slices.Delete(t[agent], i, i+1)
			return true
		}
	}
	return false
}

// configured reports a missing config.json of a session that has started.
func (v *verifier) configured(ctx context.Context) {
	var s artifact.Session
	data := v.read(ctx, "session.json")
	if data != nil && v.decode("session.json", data, &s) && s.ConfigHash != "" && v.read(ctx, "config.json") == nil {
		v.report("config.json", "is missing, and session.json has its hash")
	}
}

// members reports agents of the team without a directory. It is used if there is no status
// with the number of their steps.
func (v *verifier) members(ctx context.Context) {
	var team struct{ Agents []struct{ ID string } }
	data := v.read(ctx, "config.json")
	if data == nil || !v.decode("config.json", data, &team) {
		return
	}
	for _, a := range team.Agents {
		if _, err := v.root.Lstat("agents/" + a.ID); err != nil {
			v.report("agents/"+a.ID, "is missing, and config.json names the agent")
		}
	}
}

// lastActions reports missing documents that should have been derived from commits.
func (v *verifier) lastActions(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(v.replaced)) {
		if v.read(ctx, name) == nil {
			v.report(name, "is missing, and there is a committed step")
		}
	}
}

// decisions are the statuses of sessions that ended with a decision.
var decisions = map[coordination.Status]bool{
	coordination.Consensus: true, coordination.Plurality: true, coordination.Finished: true, coordination.Limit: true,
	coordination.Presented: true, coordination.OverSpent: true, coordination.Timeout: true, coordination.Undecided: true,
}

// ledgered are the kinds of commits that the ledger counts. Judgements are not actions.
var ledgered = map[string]bool{string(coordination.NewAnswer): true, string(coordination.Vote): true, string(coordination.Stop): true}

// agentSteps reports missing steps of an agent that the status counts.
func (v *verifier) agentSteps(agent string, steps int) {
	if steps == 0 {
		return // it has finished none
	}
	if _, err := v.root.Lstat("agents/" + agent); err != nil {
		v.report("agents/"+agent, "is missing, and status.json counts %d of its steps", steps)
		return
	}
	for n := 1; n <= steps; n++ {
		dir := strings.TrimSuffix(artifact.Layout{}.Step(agent, n, ""), "/")
		if _, err := v.root.Lstat(dir); err != nil {
			v.report(dir, "is missing, and status.json counts %d steps of %s", steps, agent)
		}
	}
}
