package directory

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"conclave/engine/coordination"
)

// Directory is the record of a session directory.
type Directory struct {
	Agents   []agent                // agents with a step, in byte order of their IDs
	Messages []coordination.Message // messages from people, if there is a ledger

	unusable map[string]string // problem by ID, for agents whose directory cannot be read
	taken    map[string]int    // highest taken number by ID, for agents without a step
}

// Read reads the session directory at root, which may be empty. Malformed files give
// warnings: first those of the ledger, then those of the agents in the order of their names.
// The error is an *UnusableError.
func Read(root *os.Root) (Directory, []warning, error) {
	d := Directory{unusable: map[string]string{}, taken: map[string]int{}}
	entries, err := list(root, "agents")
	if err != nil {
		return Directory{}, nil, unreadable("agents", err.Error())
	}
	var w warnings
	l := readLedger(root, &w)
	d.Messages = l.messages
	for _, entry := range entries {
		id := entry.Name()
		switch {
		case isLitter(entry):
			continue
		case !isSafeName(id):
			w.add("agents/"+id, "has a character in its name that cannot be shown on one line, or a backslash; it is ignored: rename it")
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
		d.resolve(&d.Agents[i], &w)
	}
	return d, w, nil
}

// isSafeName reports whether the name of a directory under agents/ can be an agent's ID. It
// accepts more names than a configuration does, because other programs may use them.
func isSafeName(id string) bool {
	return id != "" && id[0] != '.' && utf8.ValidString(id) && !strings.ContainsFunc(id, func(r rune) bool {
		return r == '/' || r == '\\' || !unicode.IsPrint(r)
	})
}

// number sets the agents' anonymous numbers and the answers' labels.
func (d *Directory) number() {
	slices.SortFunc(d.Agents, func(a, b agent) int { return strings.Compare(a.ID, b.ID) })
	for i := range d.Agents {
		a := &d.Agents[i]
		a.Number = i + 1
		for m := range a.Answers {
			a.Answers[m].Label = coordination.Label(a.Number, m+1)
		}
	}
}

// resolve sets the vote or stop of an agent that is in force: the last one since its latest
// answer. It ignores a vote for an agent without an answer.
func (d *Directory) resolve(a *agent, w *warnings) {
	defer func() { a.ends = nil }()
	for _, s := range slices.Backward(a.ends) {
		act, name := s.action, fmt.Sprintf("agents/%s/%03d", a.ID, s.number)
		if act.kind == coordination.Stop {
			a.Stop = &act.stop
			a.Stop.Step, a.Stop.Seen, a.Stop.Heard = s.number, d.possible(act.seen, name, w), act.heard
			return
		}
		if target, _ := d.Agent(act.vote.Target); !target.answered() {
			w.add(name, "is a vote for %q, who has no answer; it is ignored", truncate(act.vote.Target))
			continue
		}
		a.Vote = &act.vote
		a.Vote.Step, a.Vote.Seen, a.Vote.Heard = s.number, d.possible(act.seen, name, w), act.heard
		return
	}
}

// possible drops the entries of seen whose step does not exist yet. They would keep a vote
// fresh against future answers.
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

// Agent returns the agent with the given ID.
func (d *Directory) Agent(id string) (agent, bool) {
	i := slices.IndexFunc(d.Agents, func(a agent) bool { return a.ID == id })
	if i < 0 {
		return agent{}, false
	}
	return d.Agents[i], true
}

// With returns the directory with agents that have no step yet, such as the one
// about to run or the rest of a team.
func (d Directory) With(ids ...string) Directory {
	d.Agents = slices.Clone(d.Agents)
	for i := range d.Agents {
		d.Agents[i].Answers = slices.Clone(d.Agents[i].Answers)
	}
	for _, id := range ids {
		if _, ok := d.Agent(id); !ok {
			d.Agents = append(d.Agents, agent{ID: id, Steps: d.taken[id]})
		}
	}
	d.number()
	return d
}

// IDs returns the IDs of the agents in byte order.
func (d Directory) IDs() []string {
	ids := make([]string, len(d.Agents))
	for i := range d.Agents {
		ids[i] = d.Agents[i].ID
	}
	return ids
}

// warning reports a problem in a directory and its consequence.
type warning struct {
	Path    string `json:"path"` // slash-separated, below the session directory; valid UTF-8
	Problem string `json:"problem"`
}

func (w warning) String() string { return w.Path + ": " + w.Problem }

// warnings collects warnings in the order of detection.
type warnings []warning

func (w *warnings) add(path, format string, args ...any) {
	*w = append(*w, warning{Path: valid(path), Problem: valid(fmt.Sprintf(format, args...))})
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
