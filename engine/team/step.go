package team

import (
	"context"
	"fmt"
	"slices"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/engine/team/checklist"
)

// Step is one launch of an agent's step.
type Step struct {
	Layout artifact.Layout
	Launch coordination.Launch
	Token  string   // execution token
	Agents []string // IDs of the whole team, in any order; an agent's number is its position in byte order, from 1
	Open   bool     // other agents can join at any time, as in a directory; the agent is then never a team of one
	Query  string
	Turns  []artifact.Turn // earlier turns of the conversation, the oldest first

	// Secret is the session's secret, which no agent sees. If it is empty, the step's own
	// token is used.
	Secret string

	Instructions  string          // instructions of the caller; may be empty
	Team          config.Team     // the configuration of the whole team
	SystemMessage string          // the agent's own; may be empty
	Persona       string          // the agent's; may be empty
	Criteria      config.Criteria // the session's; if empty, those of Team
	Files         bool            // the agent has file tools or a shell
	Contexts      []step.Context  // further material, by name
	Window        int             // context window of the agent's model in tokens; 0 if unknown

	// Scratch is the directory of workspaces; if empty, the system's temporary directory is
	// used.
	Scratch string

	Attempt int       // counts the executions of the launch
	Spent   llm.Usage // usage of earlier attempts

	// Commits returns the commit of a shown answer in a directory to which other programs
	// write. Its manifest must be in the store. If Commits is nil, the commit is read from
	// action.json.
	Commits func(ctx context.Context, shown coordination.Shown) (artifact.Commit, error)

	// Bell reads the session's doorbell at safe points. An error ends the attempt. If Bell is
	// nil, no news reaches the running step.
	Bell func(ctx context.Context) (coordination.Ring, error)
}

// Spec reads the material that the launch shows and builds the step. It fails with a
// *step.UnwrittenError if a message of the launch is not stored yet.
func (m Step) Spec(ctx context.Context, store artifact.Store) (step.Spec, error) {
	o := &opening{Step: m, store: store, numbers: slices.Sorted(slices.Values(m.Agents))}
	if err := o.load(ctx); err != nil {
		return step.Spec{}, err
	}
	shown := step.Shown{Seen: make(map[string]int), Agents: o.numbers, Peers: o.peers, Context: m.Contexts, Papers: o.papers}
	for _, s := range m.Launch.Shown {
		shown.Seen[s.Agent] = s.Step
		shown.Labels = append(shown.Labels, s.Label)
	}
	spec := m.Place()
	spec.Attempt = step.Attempt{Number: m.Attempt, Spent: m.Spent, ResumeFrom: m.Launch.ResumeFrom, FilesFrom: m.Launch.FilesFrom, Uncounted: m.Launch.Uncounted}
	spec.MaxModelCalls = m.Team.Orchestrator.MaxModelCallsPerStep
	spec.Adopts = m.Files && m.Launch.Purpose != coordination.Evaluate && m.Launch.Purpose != coordination.Evaluation
	spec.Shown, spec.Open, spec.Witnessed, spec.Seal = shown, o.open, o.witnessed, o.seal
	spec.Documents = func(number int, c artifact.Commit) ([]step.Document, error) {
		return m.documents(context.WithoutCancel(ctx), store, number, c)
	}
	return spec, nil
}

// Place returns the part of the Spec that locates the step's records. It needs Layout,
// Launch and Token.
func (m Step) Place() step.Spec {
	return step.Spec{
		Layout: m.Layout, Token: m.Token, Agent: m.Launch.Agent, Dir: m.dir, After: m.Launch.After, Abandoned: m.abandoned, Updated: answersOf,
	}
}

// divided reports whether every agent of the team owns a part of the work.
func (m Step) divided() bool {
	return m.Team.Orchestrator.CoordinationMode == coordination.Decomposition
}

// subtask returns an agent's part of divided work, or "" in voting.
func (m Step) subtask(id string) string {
	if !m.divided() {
		return ""
	}
	a, _ := m.Team.Agent(id)
	return a.Subtask
}

// dir returns the directory of the step with the given number. The first evaluation of an
// answer has the directory evaluator/ below the answer's directory; later ones have numbered
// directories in it.
func (m Step) dir(number int) string {
	if m.Launch.Purpose != coordination.Evaluation {
		return m.Layout.Step(m.Launch.Agent, number, "")
	}
	if n := number - m.Launch.After; n != 1 {
		return m.evaluatorFile(m.Launch.After, fmt.Sprintf("%03d/", n))
	}
	return m.evaluatorFile(m.Launch.After, "")
}

// evaluatorFile returns the key of a file of the evaluation of an answer, which is given by
// its step.
func (m Step) evaluatorFile(answer int, name string) string {
	return m.Layout.Step(m.Launch.Agent, answer, "evaluator/"+name)
}

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

// plan builds the task, as far as it follows from the launch and the configuration.
func (o *opening) plan() task {
	l, c := o.Launch, o.Team.Orchestrator
	t := task{
		Query:         o.Query,
		Turns:         o.Turns,
		Wishes:        o.Instructions,
		Offered:       l.Offered,
		Purpose:       l.Purpose,
		SystemMessage: o.SystemMessage,
		Persona:       o.persona(),
		Sensitivity:   c.VotingSensitivity,
		Novelty:       c.AnswerNoveltyRequirement,
		Criteria:      o.Criteria,
		Revote:        l.Revote,
		TextAnswers:   c.TextAnswers,
		Think:         o.Team.ThinksFirst(l.Agent),
		Agree:         c.Agree,
		ShowAgreement: c.ShowAgreement,
		Confidence:    c.BallotConfidence,
		HandsIn:       c.RunsChecks() && o.Files,
		ownership:     ownership{Alone: len(o.numbers) == 1 && !o.Open, Subtask: o.subtask(l.Agent)},
		shown:         shown{Brief: l.Brief},
		equipment:     o.equipment(),
		limits:        limits{Allowance: l.Allowance, Updates: l.Updates},
	}
	if len(t.Criteria) == 0 {
		t.Criteria = o.Team.Criteria()
	}
	if o.divided() {
		for i, id := range o.numbers {
			t.Parts = append(t.Parts, part{Number: i + 1, Subtask: o.subtask(id)})
		}
	}
	soft := o.Team.Timeouts.SubsequentRoundTimeoutSeconds
	if l.Round <= 1 {
		soft = o.Team.Timeouts.InitialRoundTimeoutSeconds
	}
	if soft != nil {
		t.Soft = time.Duration(*soft) * time.Second
		t.Grace = time.Duration(o.Team.Timeouts.RoundTimeoutGraceSeconds) * time.Second
	}
	if t.Sensitivity == ChecklistGated && l.Purpose == coordination.Coordinate {
		t.Checklist = o.checklist(t)
	}
	return t
}

// persona returns the agent's persona for the prompt: in full until the agent is shown an
// answer of another agent.
func (o *opening) persona() string {
	if o.Persona == "" || o.Launch.Purpose != coordination.Coordinate {
		return ""
	}
	peers := slices.ContainsFunc(o.Launch.Shown, func(s coordination.Shown) bool { return s.Number != o.Launch.Number })
	switch after := o.Team.Orchestrator.Coordination.PersonaGenerator.AfterFirstAnswer; {
	case !peers || after == "keep":
		return o.Persona
	case after == "soften":
		return "Keep this in mind, without being bound to it now that other answers are at hand: " + o.Persona
	}
	return ""
}

// checklist returns the policy of a gated step. Answers of earlier attempts of the team do
// not count.
func (o *opening) checklist(t task) *checklist.Policy {
	c := o.Team.Orchestrator
	p := &checklist.Policy{
		Criteria:      t.Criteria,
		CallsPerRound: c.MaxChecklistCallsPerRound,
		FirstAnswer:   c.ChecklistFirstAnswer,
		Decomposition: o.divided() && !t.Alone,
		Subtask:       t.Subtask,
	}
	if c.MaxNewAnswersPerAgent != nil {
		p.AnswerLimit = *c.MaxNewAnswersPerAgent
	}
	if o.divided() {
		p.Terminal = coordination.Stop
	}
	for _, shown := range o.Launch.Shown {
		p.Labels = append(p.Labels, shown.Label)
		if shown.Number == o.Launch.Number {
			p.Own, p.Answers = shown.Label, o.Launch.Given
		}
	}
	return p
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
