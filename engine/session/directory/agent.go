package directory

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
)

// maxStep is the highest step number.
const maxStep = 999_999

// agent is the record of one agent.
type agent struct {
	ID     string
	Number int // anonymous number, from 1

	Steps    int       // highest taken number, including files and links
	Last     int       // number of the last step that ended, also with an unreadable action
	Finished int       // number of steps with an action
	Usage    llm.Usage // usage of the steps with an action.json

	// Answers are the answers that count, in order; the M-th is agent<Number>.<M>. The first
	// Earlier ones precede a restart of the team and count for labels only.
	Answers []answer
	Earlier int

	// At most one of Vote and Stop is set: the action in force. Seen is in byte order of the IDs.
	Vote *coordination.Voted
	Stop *coordination.Stopped

	// Unfinished are the steps without an action, in order: running or interrupted.
	Unfinished []Unfinished
	// Uncleared are the steps with an action and a journal: their process died before
	// it had written the derived documents.
	Uncleared []Unfinished

	ends []ended // votes and stops since the latest answer
}

// answer is one answer of an agent.
type answer struct {
	Step  int
	Label string
	Text  string // text as in the directory; empty except in the agent's latest answer
	Files bool   // its workspace is not empty
}

// Unfinished is a step with its claim, to be resumed or cleared.
type Unfinished struct {
	Step int
	artifact.Claim
}

func (a agent) hasAnswered() bool { return len(a.Answers) > a.Earlier }

// ended is a step with its action.
type ended struct {
	number int
	action *action
}

func readAgent(root *os.Root, id string, l ledger, w *warnings) (a agent, found bool, err error) {
	dir := "agents/" + id
	entries, err := listEntries(root, dir)
	if err != nil {
		return agent{}, false, err
	}
	a.ID = id
	for _, number := range stepNumbers(dir, entries, &a, w) {
		found = true
		a.readStep(root, fmt.Sprintf("%s/%03d/", dir, number), number, l, w)
	}
	return a, found, nil
}

// stepNumbers returns the numbers of an agent's steps, in order. A file or link whose name is
// a number occupies that number, too.
func stepNumbers(dir string, entries []fs.DirEntry, a *agent, w *warnings) []int {
	var numbers []int
	for _, entry := range entries {
		number, ok := parseStepName(dir, entry.Name(), w)
		if !ok {
			continue
		}
		a.Steps = max(a.Steps, number)
		if entry.IsDir() {
			numbers = append(numbers, number)
		} else {
			w.addWarning(dir+"/"+entry.Name(), "is %s, not a directory; there is no step in it", kindName(entry.Type()))
		}
	}
	slices.Sort(numbers) // 1000 comes before 999 by name
	return numbers
}

func (a *agent) readStep(root *os.Root, dir string, number int, l ledger, w *warnings) {
	act, over := readAction(root, dir, w)
	if !over {
		if claim := readClaim(root, dir, w); claim != nil {
			a.Unfinished = append(a.Unfinished, Unfinished{Step: number, Claim: *claim})
		}
		return
	}
	a.Last = number
	if act == nil {
		return
	}
	if act.committed && HasJournal(root, act.token) {
		if claim := readClaim(root, dir, new(warnings)); claim != nil && claim.Token == act.token {
			a.Uncleared = append(a.Uncleared, Unfinished{Step: number, Claim: *claim})
		}
	}
	a.Finished++
	a.Usage = a.Usage.Add(act.usage)
	attempt, counts := l.countsAction(a.ID, number, act, w)
	earlier := attempt < l.attempt
	switch {
	case !counts:
	case act.kind == coordination.NewAnswer:
		if n := len(a.Answers); n > 0 {
			a.Answers[n-1].Text = "" // saves memory
		}
		files := act.manifest != "" || hasFiles(root, dir+"workspace", w)
		a.Answers = append(a.Answers, answer{Step: number, Text: act.text, Files: files})
		if a.ends = nil; earlier {
			a.Earlier = len(a.Answers)
		}
	case !earlier:
		a.ends = append(a.ends, ended{number: number, action: act})
	}
}

// HasJournal reports whether the execution with the given token has a journal.
func HasJournal(root *os.Root, token string) bool {
	key := artifact.Layout{}.Journal(token, 1)
	if artifact.CheckKey(key) != nil {
		return false
	}
	info, err := root.Lstat(key)
	return err == nil && info.Mode().IsRegular()
}

// parseStepName parses the name of a step's directory and warns about other names of digits.
func parseStepName(dir, name string, w *warnings) (int, bool) {
	for _, r := range name {
		if !unicode.IsDigit(r) {
			return 0, false
		}
	}
	n, err := strconv.Atoi(name)
	switch {
	case err == nil && n >= 1 && n <= maxStep && name == fmt.Sprintf("%03d", n):
		return n, true
	case err != nil || n > maxStep:
		w.addWarning(dir+"/"+name, "is not a step number: they are decimal, from 001 to %d; it is ignored", maxStep)
	case n == 0:
		w.addWarning(dir+"/"+name, "is not a step number: they begin with 001; it is ignored")
	default:
		w.addWarning(dir+"/"+name, "is not a step number: step %d is called %03d; it is ignored", n, n)
	}
	return 0, false
}

// readClaim reads the claim of a step. It returns nil if the claim is missing or, with a
// warning, if it is unreadable.
func readClaim(root *os.Root, dir string, w *warnings) *artifact.Claim {
	d, err := readDocument(root, dir+"step.json")
	if d == nil && err == nil {
		return nil
	}
	c := &artifact.Claim{SeenSteps: map[string]int{}}
	if err == nil {
		c.Token, err = d.textUnder("token")
	}
	if err != nil {
		w.addWarning(dir+"step.json", "%v; the step cannot be resumed", err)
		return nil
	}
	for _, n := range readSeen(d, dir+"step.json", w) {
		c.SeenSteps[n.Agent] = n.Step
	}
	_ = json.Unmarshal(d["labels"], &c.Labels)
	c.Agents = parseAgents(d["agents"])
	if at, err := d.optionalText("started_at"); err == nil {
		c.StartedAt, _ = time.Parse(time.RFC3339, at)
	}
	return c
}

// parseAgents reads the agents behind the numbers of a step. It returns nil if they are not
// safe IDs in byte order.
func parseAgents(raw json.RawMessage) []string {
	var agents []string
	if json.Unmarshal(raw, &agents) != nil || len(agents) > maxSeen {
		return nil
	}
	for i, id := range agents {
		if !isSafeName(id) || i > 0 && id <= agents[i-1] {
			return nil
		}
	}
	return agents
}

// Directory is the record of a session directory.
type Directory struct {
	Agents   []agent                // agents with a step, in byte order of their IDs
	Messages []coordination.Message // messages from people, if there is a ledger

	unusable map[string]string // problem by ID, for agents whose directory cannot be read
	taken    map[string]int    // highest taken number by ID, for agents without a step
}

// Read reads the session directory at root, which may be empty. Malformed files give warnings: first those of
// the ledger, then those of the agents in the order of their names. The error is an *UnusableError.
func Read(root *os.Root) (Directory, []warning, error) {
	d := Directory{unusable: map[string]string{}, taken: map[string]int{}}
	entries, err := listEntries(root, "agents")
	if err != nil {
		return Directory{}, nil, unreadableError("agents", err.Error())
	}
	var w warnings
	l := readLedger(root, &w)
	d.Messages = l.messages
	for _, entry := range entries {
		id := entry.Name()
		switch {
		case strings.HasPrefix(entry.Name(), "."):
			continue
		case !isSafeName(id):
			w.addWarning("agents/"+id, "has a character in its name that cannot be shown on one line, or a backslash; it is ignored: rename it")
			continue
		}
		a, found, err := readAgent(root, id, l, &w)
		switch {
		case err != nil:
			d.unusable[id] = err.Error()
			w.addWarning("agents/"+id, "%v; it is ignored", err)
		case found:
			d.Agents = append(d.Agents, a)
		case a.Steps > 0:
			d.taken[id] = a.Steps
		}
	}
	d.numberAgents()
	for i := range d.Agents {
		d.resolveEnd(&d.Agents[i], &w)
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

func (d *Directory) numberAgents() {
	slices.SortFunc(d.Agents, func(a, b agent) int { return strings.Compare(a.ID, b.ID) })
	for i := range d.Agents {
		a := &d.Agents[i]
		a.Number = i + 1
		for m := range a.Answers {
			a.Answers[m].Label = coordination.Label(a.Number, m+1)
		}
	}
}

// resolveEnd sets the vote or stop of an agent that is in force: the last one since its latest
// answer. It ignores a vote for an agent without an answer.
func (d *Directory) resolveEnd(a *agent, w *warnings) {
	defer func() { a.ends = nil }()
	for _, s := range slices.Backward(a.ends) {
		act, name := s.action, fmt.Sprintf("agents/%s/%03d", a.ID, s.number)
		if act.kind == coordination.Stop {
			a.Stop = &act.stop
			a.Stop.Step, a.Stop.Seen, a.Stop.Heard = s.number, d.dropImpossible(act.seen, name, w), act.heard
			return
		}
		if target, _ := d.Agent(act.vote.Target); !target.hasAnswered() {
			w.addWarning(name, "is a vote for %q, who has no answer; it is ignored", truncateForeign(act.vote.Target))
			continue
		}
		a.Vote = &act.vote
		a.Vote.Step, a.Vote.Seen, a.Vote.Heard = s.number, d.dropImpossible(act.seen, name, w), act.heard
		return
	}
}

// dropImpossible drops the entries of seen whose step does not exist yet. They would keep a vote
// fresh against future answers.
func (d *Directory) dropImpossible(seen []coordination.Seen, name string, w *warnings) []coordination.Seen {
	var kept []coordination.Seen
	for _, n := range seen {
		if a, ok := d.Agent(n.Agent); ok && n.Step > a.Steps {
			w.addWarning(name, "claims to have seen step %d of %s, which has %d; it counts as not seen", n.Step, n.Agent, a.Steps)
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
	d.numberAgents()
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

func (w *warnings) addWarning(path, format string, args ...any) {
	*w = append(*w, warning{Path: validText(path), Problem: validText(fmt.Sprintf(format, args...))})
}

func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
