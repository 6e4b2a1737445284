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
