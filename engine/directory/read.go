package directory

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
)

// Directory is what is on record in a session directory.
type Directory struct {
	Agents   []Agent                // that have a step, in byte order of their IDs
	Messages []coordination.Message // what people have said, where there is a ledger

	unusable map[string]string // IDs whose directory is none, and what it is
	taken    map[string]int    // of agents that have no step: the highest number that is taken
}

// UnreadableError says that a path of the directory cannot be what it should be,
// so that nothing can be read or written below it.
type UnreadableError struct{ Path, Problem string }

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("%s %s: make it a directory that can be read, or name another session directory", e.Path, e.Problem)
}

// Read reads the session directory at root, which may be empty. It never fails
// for what a file holds: that gives warnings, of the ledger first, then of the
// agents in the order of their names. The error is an *UnreadableError.
func Read(root *os.Root) (Directory, []Warning, error) {
	d := Directory{unusable: map[string]string{}, taken: map[string]int{}}
	entries, err := list(root, "agents")
	if err != nil {
		return Directory{}, nil, &UnreadableError{Path: "agents", Problem: err.Error()}
	}
	var w warnings
	l := readLedger(root, &w)
	d.Messages = l.messages
	for _, entry := range entries {
		id := entry.Name()
		switch {
		case isLitter(entry):
			continue
		case artifact.CheckAgentID(id) != nil:
			w.add("agents/"+id, "is no agent: IDs are a lower-case letter and up to 31 lower-case letters, digits, '_' or '-'; it is ignored")
			continue
		}
		a, found, err := readAgent(root, id, l, &w)
		switch {
		case err != nil:
			d.unusable[id] = err.Error()
			w.add("agents/"+id, "%v; it is ignored", err)
		case found:
			d.Agents = append(d.Agents, a)
		case a.Steps > 0:
			d.taken[id] = a.Steps
		}
	}
	d.number()
	for i := range d.Agents {
		d.end(&d.Agents[i], &w)
	}
	return d, w, nil
}

// number gives the agents their anonymous numbers, and the answers their labels.
func (d *Directory) number() {
	slices.SortFunc(d.Agents, func(a, b Agent) int { return strings.Compare(a.ID, b.ID) })
	for i := range d.Agents {
		a := &d.Agents[i]
		a.Number = i + 1
		for m := range a.Answers {
			a.Answers[m].Label = label(a.Number, m+1)
		}
	}
}

// label is that of an agent's answer.
func label(number, revision int) string {
	return "agent" + strconv.Itoa(number) + "." + strconv.Itoa(revision)
}

// end settles which vote or stop of an agent stands: the last one since its
// latest answer. A vote for nobody's answer is none.
func (d *Directory) end(a *Agent, w *warnings) {
	defer func() { a.ends = nil }()
	for _, s := range slices.Backward(a.ends) {
		act, name := s.action, fmt.Sprintf("agents/%s/%03d", a.ID, s.number)
		if act.kind == coordination.Stop {
			a.Stop = &Stop{
				Step: s.number, Status: act.status, Summary: act.summary, Seen: d.possible(act.seen, name, w), Heard: act.heard,
			}
			return
		}
		if target, _ := d.Agent(act.target); !target.answered() {
			w.add(name, "is a vote for %q, who has no answer; it is ignored", truncate(act.target))
			continue
		}
		a.Vote = &Vote{
			Step: s.number, Target: act.target, TargetLabel: act.targetLabel, Reason: act.reason,
			Seen: d.possible(act.seen, name, w), Heard: act.heard,
		}
		return
	}
}

// possible is what of seen can have been seen: a step that is still to come
// cannot, and would keep a vote fresh against answers to come.
func (d *Directory) possible(seen []coordination.Seen, name string, w *warnings) []coordination.Seen {
	var kept []coordination.Seen
	for _, n := range seen {
		if a, ok := d.Agent(n.Agent); ok && n.Step > a.Steps {
			w.add(name, "claims to have seen step %d of %s, which has %d; it counts as not seen", n.Step, n.Agent, a.Steps)
			continue
		}
		kept = append(kept, n)
	}
	return kept
}

// Agent finds an agent by its ID.
func (d *Directory) Agent(id string) (Agent, bool) {
	i := slices.IndexFunc(d.Agents, func(a Agent) bool { return a.ID == id })
	if i < 0 {
		return Agent{}, false
	}
	return d.Agents[i], true
}

// With is the directory with agents that have no step in it yet: the one that is
// about to run, or the rest of a team.
func (d Directory) With(ids ...string) Directory {
	d.Agents = slices.Clone(d.Agents)
	for i := range d.Agents {
		d.Agents[i].Answers = slices.Clone(d.Agents[i].Answers)
	}
	for _, id := range ids {
		if _, ok := d.Agent(id); !ok {
			d.Agents = append(d.Agents, Agent{ID: id, Steps: d.taken[id]})
		}
	}
	d.number()
	return d
}

// IDs are those of the agents, in byte order.
func (d Directory) IDs() []string {
	ids := make([]string, len(d.Agents))
	for i := range d.Agents {
		ids[i] = d.Agents[i].ID
	}
	return ids
}

// Warning is something in a directory that is not what it should be, and what
// came of it.
type Warning struct {
	Path    string `json:"path"` // slash-separated, below the session directory; valid UTF-8
	Problem string `json:"problem"`
}

func (w Warning) String() string { return w.Path + ": " + w.Problem }

// warnings are collected in the order in which they were found.
type warnings []Warning

func (w *warnings) add(path, format string, args ...any) {
	*w = append(*w, Warning{Path: valid(path), Problem: valid(fmt.Sprintf(format, args...))})
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
