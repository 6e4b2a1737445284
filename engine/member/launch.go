package member

import (
	"context"
	"slices"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/engine/team"
)

// Step is one launch of a team member's step.
type Step struct {
	Layout artifact.Layout
	Launch coordination.Launch
	Token  string

	// Attempt counts the executions of the launch, and Spent is what the earlier
	// ones used.
	Attempt int
	Spent   llm.Usage

	// Agents are the IDs of the whole team, in any order. An agent's anonymous
	// number is the position of its ID among them in byte order, from 1.
	Agents []string

	Query         string
	SystemMessage string
	Criteria      []team.Criterion // the session's; those of Settings if there are none
	Files         bool
	Window        int // of the agent's model, in tokens; 0 if it is not known
	Settings      Settings

	// Commits finds the commit of an answer that is shown where it is not
	// action.json of its step, as in a directory that other programs write to; nil
	// for where it is. The manifest that it names is to be in the store.
	Commits func(ctx context.Context, shown coordination.Shown) (artifact.Commit, error)

	// Bell reads the session's doorbell; nil where nothing reaches a running
	// step. Its error ends the attempt.
	Bell func(ctx context.Context) (step.Bell, error)
}

// Spec reads what the launch shows and builds the step from it. What is shown is
// fixed by the launch, never by what else the store holds; what comes later is
// announced by the doorbell and counts when the step's rules have told it.
//
// The error is an *step.UnwrittenError while a message of the launch is not stored.
func (m Step) Spec(ctx context.Context, store artifact.Store) (step.Spec, error) {
	o := &opened{Step: m, store: store, numbers: slices.Sorted(slices.Values(m.Agents))}
	if err := o.load(ctx); err != nil {
		return step.Spec{}, err
	}
	s := step.Spec{
		Layout:     m.Layout,
		Token:      m.Token,
		Dir:        m.dir,
		Attempt:    m.Attempt,
		ResumeFrom: m.Launch.ResumeFrom,
		After:      m.Launch.After,
		Seen:       make(map[string]int, len(m.Launch.Shown)),
		Agents:     o.numbers,
		Peers:      o.peers,
		Spent:      m.Spent,
		Open:       o.open,
		Seal:       o.seal,
		Witnessed:  o.witnessed,
		Project: func(number int, c artifact.Commit) ([]step.Document, error) {
			return m.project(store, number, c)
		},
		Abandoned: m.abandoned,
	}
	for _, shown := range m.Launch.Shown {
		s.Seen[shown.Agent] = shown.Step
		s.Labels = append(s.Labels, shown.Label)
	}
	return s, nil
}

func (m Step) dir(number int) string { return m.Layout.Step(m.Launch.Agent, number, "") }

// opened is a step with the texts that it begins with.
type opened struct {
	Step
	store   artifact.Store
	numbers []string // the team's IDs; an agent's number is 1 + its position

	task  team.Task // all but what is known when the step opens
	peers []step.Peer
	rules *team.Rules // once the step is open
}

// open makes the rules. What earlier attempts did, and spent of the allowance,
// the rules learn from the journal.
func (o *opened) open(ordinary []llm.Tool, mount func(context.Context, step.Peer) error) (loop.Rules, []llm.Message, error) {
	task := o.task
	for _, tool := range ordinary {
		task.Tools = append(task.Tools, tool.Name)
	}
	if o.Bell != nil {
		p := post{opened: o, mount: mount}
		task.Look, task.Fetch, task.Hear = p.look, p.fetch, p.hear
	}
	o.rules = team.New(task)
	opening, err := o.rules.Opening()
	return o.rules, opening, err
}

// witnessed is what the step's agent was told, by agent ID: what an action of it
// is committed with.
func (o *opened) witnessed() (seen map[string]int, heard int) {
	seen = make(map[string]int)
	if o.rules == nil {
		return seen, 0
	}
	numbers, heard := o.rules.Witnessed()
	for number, at := range numbers {
		if id, ok := o.id(number); ok {
			seen[id] = at
		}
	}
	return seen, heard
}

// id is the agent with an anonymous number.
func (o *opened) id(number int) (string, bool) {
	if number < 1 || number > len(o.numbers) {
		return "", false
	}
	return o.numbers[number-1], true
}
