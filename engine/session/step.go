package session

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session/quality"
	"conclave/engine/step"
)

// Step is one launch of an agent's step.
type Step struct {
	Layout artifact.Layout
	Launch coordination.Launch
	Token  string   // execution token
	Agents []string // IDs of the whole team, in any order; an agent's number is its position in byte order, from 1
	Open   bool     // other agents can join at any time, as in a directory; the agent is then never a team of one
	Query  string
	// Pictures are shown with the query.
	Pictures []Picture
	Turns    []artifact.Turn // earlier turns of the conversation, the oldest first

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

	// Recorded leaves last_action.json to the record of the session.
	Recorded bool

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
	if err := o.loadTask(ctx); err != nil {
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
	spec.Shown, spec.Open, spec.Witnessed, spec.Seal = shown, o.openRules, o.witnessedSteps, o.sealAction
	spec.Documents = func(number int, c artifact.Commit) ([]step.Document, error) {
		return m.Documents(context.WithoutCancel(ctx), store, number, c)
	}
	return spec, nil
}

// Place returns the part of the Spec that locates the step's records. It needs Layout,
// Launch and Token.
func (m Step) Place() step.Spec {
	return step.Spec{
		Layout: m.Layout, Token: m.Token, Agent: m.Launch.Agent, Dir: m.stepDir, After: m.Launch.After, Abandoned: m.abandonedDocuments, Updated: answersOf,
	}
}

func (m Step) isDivided() bool {
	return m.Team.Orchestrator.CoordinationMode == coordination.Decomposition
}

// subtaskOf returns an agent's part of divided work, or "" in voting.
func (m Step) subtaskOf(id string) string {
	if !m.isDivided() {
		return ""
	}
	a, _ := m.Team.Agent(id)
	return a.Subtask
}

// stepDir returns the directory of the step with the given number. The first evaluation of an
// answer has the directory evaluator/ below the answer's directory; later ones have numbered
// directories in it.
func (m Step) stepDir(number int) string {
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

// Picture is a picture of the query. The opening refers to it; a model call has its data.
type Picture struct {
	Name  string // file name
	Image llm.Image
}

// planTask builds the task, as far as it follows from the launch and the configuration.
func (o *opening) planTask() task {
	l, c := o.Launch, o.Team.Orchestrator
	t := task{
		Query:         o.Query,
		Pictures:      o.Pictures,
		Turns:         o.Turns,
		Wishes:        o.Instructions,
		Offered:       l.Offered,
		Purpose:       l.Purpose,
		SystemMessage: o.SystemMessage,
		Persona:       o.shownPersona(),
		Sensitivity:   c.VotingSensitivity,
		Novelty:       c.AnswerNoveltyRequirement,
		Criteria:      o.Criteria,
		Revote:        l.Revote,
		TextAnswers:   c.TextAnswers,
		Think:         o.Team.ThinksFirst(l.Agent),
		Agree:         o.Team.Agreement(),
		ShowAgreement: c.ShowAgreement,
		Confidence:    c.BallotConfidence,
		HandsIn:       c.RunsChecks() && o.Files,
		ownership:     ownership{Alone: len(o.numbers) == 1 && !o.Open, Subtask: o.subtaskOf(l.Agent)},
		shown:         shown{Brief: l.Brief},
		equipment:     o.describeEquipment(),
		limits:        limits{Allowance: l.Allowance, Updates: l.Updates},
	}
	if !o.isDivided() || t.Alone || l.Purpose == coordination.Present { // parts of divided work are texts
		t.Schema = o.Team.AnswerSchema
	}
	if len(t.Criteria) == 0 {
		t.Criteria = o.Team.Criteria()
	}
	if o.isDivided() {
		for i, id := range o.numbers {
			t.Parts = append(t.Parts, part{Number: i + 1, Subtask: o.subtaskOf(id)})
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
		t.Checklist = o.checklistPolicy(t)
	}
	return t
}

// shownPersona returns the agent's persona for the prompt: in full until the agent is shown an
// answer of another agent.
func (o *opening) shownPersona() string {
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

// checklistPolicy returns the policy of a gated step. Answers of earlier attempts of the team do
// not count.
func (o *opening) checklistPolicy(t task) *quality.Policy {
	c := o.Team.Orchestrator
	p := &quality.Policy{
		Criteria:      t.Criteria,
		CallsPerRound: c.MaxChecklistCallsPerRound,
		FirstAnswer:   c.ChecklistFirstAnswer,
		Decomposition: o.isDivided() && !t.Alone,
		Subtask:       t.Subtask,
	}
	if c.MaxNewAnswersPerAgent != nil {
		p.AnswerLimit = *c.MaxNewAnswersPerAgent
	}
	if o.isDivided() {
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

// stopDocument is stop.json.
type stopDocument struct {
	AgentID   string                  `json:"agent_id"`
	Summary   string                  `json:"summary"`
	Status    coordination.StopStatus `json:"status"`
	SeenSteps map[string]int          `json:"seen_steps"`
	Timestamp time.Time               `json:"timestamp"`
}

// Documents lists the documents of a commit: answer.json, vote.json or stop.json, and last_action.json
// unless it is Recorded. The commit of an evaluation has neither.
func (m Step) Documents(ctx context.Context, store artifact.Store, number int, c artifact.Commit) ([]step.Document, error) {
	last := c.LastAction(m.Launch.Agent, number)
	var document step.Document
	switch coordination.Action(c.Kind) {
	case coordination.NewAnswer:
		a, err := decodePayload[Answer](c.Kind, c.Payload)
		if err != nil {
			return nil, err
		}
		if a.Answer, err = m.textFor(ctx, store, number, c, a.Answer); err != nil {
			return nil, err
		}
		last.AnswerText = &a.Answer
		if c.Manifest != "" {
			path := step.FilesPath(store, m.stepDir(number)+"workspace")
			last.WorkspacePath = &path
		}
		document = step.Document{Key: m.stepDir(number) + "answer.json", Body: artifact.Answer{
			AgentID: m.Launch.Agent, Answer: a.Answer, Timestamp: c.Timestamp, Label: a.Label, Data: a.Data,
		}}
	case coordination.Vote:
		v, err := decodePayload[coordination.Choice](c.Kind, c.Payload)
		if err != nil {
			return nil, err
		}
		last.VoteTarget, last.VoteReason = &v.Target, &v.Reason
		document = step.Document{Key: m.stepDir(number) + "vote.json", Body: artifact.Vote{
			Voter: m.Launch.Agent, Target: v.Target, Reason: v.Reason, SeenSteps: c.SeenSteps,
			Timestamp: c.Timestamp, TargetLabel: v.TargetLabel, Confidence: v.Confidence,
		}}
	case coordination.Stop:
		s, err := decodePayload[stop](c.Kind, c.Payload)
		if err != nil {
			return nil, err
		}
		document = step.Document{Key: m.stepDir(number) + "stop.json", Body: stopDocument{
			AgentID: m.Launch.Agent, Summary: s.Summary, Status: s.Status, SeenSteps: c.SeenSteps, Timestamp: c.Timestamp,
		}}
	case coordination.SubmitEvaluation:
		return m.evaluationDocuments(c)
	default:
		return nil, nil
	}
	if m.Recorded {
		return []step.Document{document}, nil
	}
	return []step.Document{document, m.lastAction(last)}, nil
}

// textFor returns an answer's text for people and other programs. It replaces the path of the
// workspace with the path of the step's files, and the paths of peers/agent<N> with those of
// the answers shown. In a directory the new paths are absolute; in a bucket they are relative
// to the workspace and to the session.
func (m Step) textFor(ctx context.Context, store artifact.Store, number int, c artifact.Commit, text string) (string, error) {
	if !step.HasPaths(text) {
		return text, nil
	}
	files, err := artifact.LoadManifest(ctx, store, m.Layout, c.Manifest)
	if err != nil {
		return "", fmt.Errorf("read the files of step %d: %w", number, err)
	}
	paths := step.Paths{Files: files, Scratch: m.Scratch, Peers: map[int]string{}}
	_, local := store.(*artifact.Dir)
	if local {
		paths.Own = filepath.ToSlash(store.URL(m.stepDir(number) + "workspace"))
	}
	for i, id := range slices.Sorted(slices.Values(m.Agents)) {
		shown := c.SeenSteps[id]
		switch {
		case shown == 0:
		case local:
			dir := filepath.Join(store.URL(m.Layout.File("agents")), id, fmt.Sprintf("%03d", shown), "workspace")
			paths.Peers[i+1] = filepath.ToSlash(dir) // the directory has the agent's ID, which another program may have chosen
		default:
			paths.Peers[i+1] = artifact.Layout{}.Step(id, shown, "workspace")
		}
	}
	return paths.Rewrite(text), nil
}

// abandonedDocuments returns the last_action.json of a step without an action, so that readers do not
// mistake an older action for that of this step.
func (m Step) abandonedDocuments(last artifact.LastAction) []step.Document {
	if m.Launch.Purpose == coordination.Evaluate || m.Launch.Purpose == coordination.Evaluation {
		return nil
	}
	return []step.Document{m.lastAction(last)}
}

// lastAction returns last_action.json. It never replaces that of a later step, and if the
// step failed, it does not replace the document of another attempt's commit.
func (m Step) lastAction(last artifact.LastAction) step.Document {
	return step.Document{
		Key: m.Layout.Agent(m.Launch.Agent, "last_action.json"), Body: last, Replace: true,
		Newer: func(existing []byte) bool {
			var stored artifact.LastAction
			if json.Unmarshal(existing, &stored) != nil {
				return false
			}
			if stored.StepNumber == last.StepNumber {
				return last.Error != nil && stored.Error == nil
			}
			// A step without a number comes after the steps before its launch.
			return stored.StepNumber > max(last.StepNumber, m.Launch.After)
		},
	}
}
