package team

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/check"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/engine/text"
)

// opening is a step with its material loaded. It alone converts between anonymous numbers and
// agent IDs.
type opening struct {
	Step
	store   artifact.Store
	numbers []string // the team's IDs by number - 1

	task      task // the task without Tools and Inbox
	peers     []step.Peer
	papers    []step.Paper
	witnesses []witness
	rules     *rules // nil until the step opens
}

// id returns the agent with an anonymous number.
func (o *opening) id(number int) (string, bool) {
	if number < 1 || number > len(o.numbers) {
		return "", false
	}
	return o.numbers[number-1], true
}

// open builds the rules and the first messages.
func (o *opening) open(access step.Access) (loop.Rules, []llm.Message, error) {
	t := o.task
	t.Manifest = access.Manifest
	if t.Checklist != nil && o.Files {
		t.Checklist.Read = access.Read
	}
	for _, tool := range access.Tools {
		t.Tools = append(t.Tools, tool.Name)
	}
	if o.Bell != nil {
		t.Inbox = doorbell{opening: o, mount: access.Mount}
	}
	o.rules = newRules(t)
	messages, err := o.rules.Opening()
	return o.rules, messages, err
}

// witnessed returns the material that the agent has been shown so far, by agent ID.
func (o *opening) witnessed() (seen map[string]int, heard int) {
	seen = make(map[string]int)
	if o.rules == nil {
		return seen, 0
	}
	numbers, heard := o.rules.witnessed()
	for number, at := range numbers {
		if id, ok := o.id(number); ok {
			seen[id] = at
		}
	}
	return seen, heard
}

// load fills in the task and reads everything that the launch shows.
func (o *opening) load(ctx context.Context) error {
	o.task = o.plan()
	for _, shown := range o.Launch.Shown {
		a, peer, err := o.read(ctx, shown)
		if err != nil {
			return err
		}
		o.place(peer)
		o.task.Answers = append(o.task.Answers, a)
	}
	var err error
	if o.task.Checks, err = o.loadChecks(ctx); err != nil {
		return err
	}
	if o.Launch.Final != nil {
		a, peer, err := o.read(ctx, *o.Launch.Final)
		if err != nil {
			return err
		}
		o.place(peer)
		o.task.Final = &a
	}
	for _, load := range []func(context.Context) error{o.loadPrevious, o.loadReview, o.loadPast, o.mergeMemos} {
		if err := load(ctx); err != nil {
			return err
		}
	}
	var numbers []int
	for _, m := range o.Launch.Messages {
		numbers = append(numbers, m.Number)
	}
	o.task.Messages, err = o.messages(ctx, numbers)
	o.task.marks = o.marks()
	return err
}

// loadPrevious reads the final answer of the team's previous attempt and its evaluation. It
// mounts the answer's files unless the author has a newer answer.
func (o *opening) loadPrevious(ctx context.Context) error {
	p := o.Launch.Previous
	if p == nil {
		return nil
	}
	a, peer, err := o.read(ctx, p.Answer)
	if err != nil {
		return err
	}
	if o.placed(peer.Number) {
		a.Kept, a.Replaced = false, true
		if !o.task.Based {
			a.Files = 0
		}
	} else {
		o.place(peer)
	}
	key := o.Layout.Step(p.Agent, p.Step, "action.json")
	commit, err := artifact.ReadJSON[artifact.Commit](ctx, o.store, key)
	if err != nil {
		return fmt.Errorf("reading the evaluation that restarts the team: %w", err)
	}
	evaluation, err := decode[restart](commit.Kind, commit.Payload)
	if err != nil {
		return fmt.Errorf("reading the evaluation that restarts the team in %s: %w", key, err)
	}
	o.task.Previous = &previous{restart: evaluation, Answer: a}
	return nil
}

// place adds a peer to mount, which replaces an older one of the same agent.
func (o *opening) place(peer step.Peer) {
	if i := o.mounted(peer.Number); i >= 0 {
		o.peers[i] = peer
	} else if peer.Manifest != "" || peer.Text != "" {
		o.peers = append(o.peers, peer)
	}
}

// mounted returns the index of the agent's peer, or -1.
func (o *opening) mounted(number int) int {
	return slices.IndexFunc(o.peers, func(p step.Peer) bool { return p.Number == number })
}

// placed reports whether an answer of the agent is shown or mounted.
func (o *opening) placed(number int) bool {
	return o.mounted(number) >= 0 ||
		slices.ContainsFunc(o.Launch.Shown, func(s coordination.Shown) bool { return s.Number == number })
}

// checks are the verdicts of checks on the answers shown. The descriptions were written by
// agents or by the user.
type checks struct {
	Descriptions []string
	Rows         []checkRow
}

// checkRow has the verdicts of all checks on one answer.
type checkRow struct {
	Label    string
	Outcomes []string
}

// maxDescription bounds the description of a check, in bytes.
const maxDescription = 400

// loadChecks reads the definitions of the checks that the launch shows.
func (o *opening) loadChecks(ctx context.Context) (*checks, error) {
	table := o.Launch.Checks
	if table == nil {
		return nil, nil
	}
	c := &checks{}
	for _, id := range table.Checks {
		d, err := artifact.ReadJSON[check.Definition](ctx, o.store, check.Key(o.Layout, id))
		if err != nil {
			return nil, fmt.Errorf("reading the check %s: %w", id, err)
		}
		description := d.Name + ": " + d.Command
		c.Descriptions = append(c.Descriptions, text.Truncate(strings.Join(strings.Fields(description), " "), maxDescription))
	}
	for _, row := range table.Rows {
		r := checkRow{Label: row.Label}
		for _, verdict := range row.Verdicts {
			r.Outcomes = append(r.Outcomes, verdictWords[verdict])
		}
		c.Rows = append(c.Rows, r)
	}
	return c, nil
}

// verdictWords are the words for the verdicts of coordination.CheckRow.
var verdictWords = map[rune]string{'1': "passed", '0': "failed", '?': "not run", '.': "not run"}

// within returns the checks with the step's marks removed from their descriptions.
func (c *checks) within(marks ...string) *checks {
	if c == nil {
		return nil
	}
	shown := &checks{Rows: c.Rows}
	for _, description := range c.Descriptions {
		shown.Descriptions = append(shown.Descriptions, text.Within(description, marks...))
	}
	return shown
}
