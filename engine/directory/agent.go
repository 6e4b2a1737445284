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

// maxStep is the highest step number. What is called by a higher one leaves no
// numbers for those after it.
const maxStep = 999_999

// Agent is what is on record of one agent.
type Agent struct {
	ID     string
	Number int // anonymous number, from 1

	Steps    int // the highest number that is taken, by whatever; a new step comes after it
	Finished int // how many steps ended with an action

	// Usage is what the steps that ended with an action cost, as far as action.json
	// says so.
	Usage llm.Usage

	// Answers are those that count, in order; the M-th is agent<Number>.<M>. The
	// first Earlier of them are of attempts of the team that it began again
	// after: they count for labels only.
	Answers []Answer
	Earlier int

	// Vote and Stop are what stands: its latest action, or neither.
	Vote *Vote
	Stop *Stop

	// Unfinished are the claims of steps that have no action, in order: a step is
	// at work, or was interrupted.
	Unfinished []Unfinished

	// Unsettled are steps that have an action, and a journal still: whoever took the
	// action ended before all was made of it.
	Unsettled []Unfinished

	// Last is the number of the last step that ended, with an action or with what
	// cannot be read as one; 0 before the first.
	Last int

	ends []ended // votes and stops since the latest answer
}

// Answer is one answer of an agent.
type Answer struct {
	Step  int
	Label string
	Text  string // as it is in the directory; of the agent's latest answer only
	Files bool   // it has a workspace with something in it
}

// Vote is a vote that stands.
type Vote struct {
	Step        int
	Target      string
	TargetLabel string              // as it is in the directory
	Reason      string              // cut at member.MaxReason
	Seen        []coordination.Seen // in byte order of the IDs
	Heard       int
}

// Stop is a stop that stands.
type Stop struct {
	Step    int
	Status  coordination.StopStatus
	Summary string // cut at member.MaxReason
	Seen    []coordination.Seen
	Heard   int
}

// Unfinished is a step that was claimed and has no action.
type Unfinished struct {
	Step int
	artifact.Claim
}

// Latest is the agent's latest answer in the present attempt of the team.
func (a Agent) Latest() (Answer, bool) {
	if !a.answered() {
		return Answer{}, false
	}
	return a.Answers[len(a.Answers)-1], true
}

func (a Agent) answered() bool { return len(a.Answers) > a.Earlier }

// ended is a step with its action.
type ended struct {
	number int
	action *action
}

// readAgent reads the steps of an agent. It reports false for an agent that has
// none yet.
func readAgent(root *os.Root, id string, l ledger, w *warnings) (a Agent, found bool, err error) {
	dir := "agents/" + id
	entries, err := list(root, dir)
	if err != nil {
		return Agent{}, false, err
	}
	a.ID = id
	for _, number := range numbered(dir, entries, &a, w) {
		found = true
		a.read(root, fmt.Sprintf("%s/%03d/", dir, number), number, l, w)
	}
	return a, found, nil
}

// numbered are the numbers of an agent's steps, in order. What else is called by
// a number takes it.
func numbered(dir string, entries []fs.DirEntry, a *Agent, w *warnings) []int {
	var numbers []int
	for _, entry := range entries {
		number, ok := stepNumber(dir, entry.Name(), w)
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

// read takes the agent's next step.
func (a *Agent) read(root *os.Root, dir string, number int, l ledger, w *warnings) {
	act, over := readAction(root, dir, w)
	switch {
	case !over:
		if claim := readClaim(root, dir, w); claim != nil {
			a.Unfinished = append(a.Unfinished, Unfinished{Step: number, Claim: *claim})
		}
		return
	case act == nil:
		a.Last = number
		return
	}
	a.Last = number
	a.unsettled(root, dir, number, act)
	a.Finished++
	a.Usage = a.Usage.Add(act.usage)
	attempt, counts := l.counts(a.ID, number, act, w)
	earlier := attempt < l.attempt
	switch {
	case !counts:
	case act.kind == coordination.NewAnswer:
		if n := len(a.Answers); n > 0 {
			a.Answers[n-1].Text = "" // a long directory is not to fill the memory
		}
		files := act.manifest != "" || hasFiles(root, dir+"workspace", w)
		a.Answers = append(a.Answers, Answer{Step: number, Text: act.text, Files: files})
		if a.ends = nil; earlier {
			a.Earlier = len(a.Answers)
		}
	case !earlier:
		a.ends = append(a.ends, ended{number: number, action: act})
	}
}

// unsettled looks for the journal of a step that has its action.
func (a *Agent) unsettled(root *os.Root, dir string, number int, act *action) {
	if !act.committed || !Journaled(root, act.token) {
		return
	}
	if claim := readClaim(root, dir, new(warnings)); claim != nil && claim.Token == act.token {
		a.Unsettled = append(a.Unsettled, Unfinished{Step: number, Claim: *claim})
	}
}

// Journaled reports whether there is a journal under a token.
func Journaled(root *os.Root, token string) bool {
	key := artifact.InDir().Journal(token, 1)
	if artifact.CheckKey(key) != nil {
		return false
	}
	info, err := root.Lstat(key)
	return err == nil && info.Mode().IsRegular()
}

// stepNumber is the number that an entry of an agent's directory is called by.
func stepNumber(dir, name string, w *warnings) (int, bool) {
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
		w.add(dir+"/"+name, "is no step number: they are decimal, from 001 to %d; it is ignored", maxStep)
	case n == 0:
		w.add(dir+"/"+name, "is no step number: they begin with 001; it is ignored")
	default:
		w.add(dir+"/"+name, "is no step number: step %d is called %03d; it is ignored", n, n)
	}
	return 0, false
}

// readClaim reads who has taken the number of a step; nil if nobody says.
func readClaim(root *os.Root, dir string, w *warnings) *artifact.Claim {
	data, err := readFile(root, dir+"step.json")
	if data == nil && err == nil {
		return nil
	}
	var d document
	if err == nil {
		d, err = decode(data)
	}
	c := &artifact.Claim{SeenSteps: map[string]int{}}
	if err == nil {
		c.Token, err = d.text("token")
	}
	if err != nil {
		w.add(dir+"step.json", "%v; the step cannot be gone on with", err)
		return nil
	}
	a := &action{}
	a.saw(d, dir+"step.json", w)
	for _, n := range a.seen {
		c.SeenSteps[n.Agent] = n.Step
	}
	_ = json.Unmarshal(d["labels"], &c.Labels)
	c.Agents = numberedAgents(d["agents"])
	if at, err := d.optional("started_at"); err == nil {
		c.StartedAt, _ = time.Parse(time.RFC3339, at)
	}
	return c
}

// numberedAgents are the agents that the numbers of a step stand for, nil if that
// cannot be told.
func numberedAgents(raw json.RawMessage) []string {
	var agents []string
	if json.Unmarshal(raw, &agents) != nil || len(agents) > maxSeen {
		return nil
	}
	for i, id := range agents {
		if artifact.CheckAgentID(id) != nil || i > 0 && id <= agents[i-1] {
			return nil
		}
	}
	return agents
}

// isLitter reports names that file systems and tools leave behind.
func isLitter(entry fs.DirEntry) bool { return strings.HasPrefix(entry.Name(), ".") }
