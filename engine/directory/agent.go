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

	"conclave/engine/artifact"
	"conclave/engine/coordination"
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

	// At most one of Vote and Stop is set: the action in force. Seen is in byte order of the
	// IDs.
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

func (a agent) answered() bool { return len(a.Answers) > a.Earlier }

// ended is a step with its action.
type ended struct {
	number int
	action *action
}

// readAgent reads the steps of an agent and reports whether it has any.
func readAgent(root *os.Root, id string, l ledger, w *warnings) (a agent, found bool, err error) {
	dir := "agents/" + id
	entries, err := list(root, dir)
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
			w.add(dir+"/"+entry.Name(), "is %s, not a directory; there is no step in it", kind(entry.Type()))
		}
	}
	slices.Sort(numbers) // 1000 comes before 999 by name
	return numbers
}

// readStep adds the agent's next step.
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
	attempt, counts := l.counts(a.ID, number, act, w)
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

// parseStepName parses the name of a step's directory and warns about other names
// of digits.
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
		w.add(dir+"/"+name, "is not a step number: they are decimal, from 001 to %d; it is ignored", maxStep)
	case n == 0:
		w.add(dir+"/"+name, "is not a step number: they begin with 001; it is ignored")
	default:
		w.add(dir+"/"+name, "is not a step number: step %d is called %03d; it is ignored", n, n)
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
		c.Token, err = d.text("token")
	}
	if err != nil {
		w.add(dir+"step.json", "%v; the step cannot be resumed", err)
		return nil
	}
	for _, n := range readSeen(d, dir+"step.json", w) {
		c.SeenSteps[n.Agent] = n.Step
	}
	_ = json.Unmarshal(d["labels"], &c.Labels)
	c.Agents = parseAgents(d["agents"])
	if at, err := d.optional("started_at"); err == nil {
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

// isLitter reports whether an entry has a name that file systems and tools leave behind.
func isLitter(entry fs.DirEntry) bool { return strings.HasPrefix(entry.Name(), ".") }
