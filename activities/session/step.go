package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	team "conclave/engine/session"
	"conclave/engine/step"
	"conclave/engine/text"
)

// RunStep runs one step of an agent, or returns the result of its commit. An error is either final,
// with an attempt.Failure in its details, or is retried on any worker. The step's number, claim and
// usage are kept between attempts.
func (a *Activities) RunStep(ctx context.Context, in StepInput) (StepResult, error) {
	return attempt.Run(ctx, a.Process, string(in.Launch.ID), func(ctx context.Context, run *attempt.Attempt) (r StepResult, err error) {
		defer func() { r.LongestCall = run.Failure().LongestCall }()
		ended, err := run.Perform(ctx, func(ctx context.Context) error { return a.assembleStep(ctx, run, in) })
		switch {
		case err != nil:
			return StepResult{}, err
		case ended != nil && ended.Calls != nil:
			return a.awaitingResult(ctx, run, in, ended.Calls)
		case ended != nil:
			run.Leave(ctx)
			return StepResult{
				Token: run.Token, Step: run.Result.Step, Ended: ended.Why, Usage: run.Result.Usage, Outcome: team.Outcome{Seen: run.Seen()},
			}, nil
		}
		return a.stepResult(ctx, run, in)
	})
}

// assembleStep reads documents through the cache, because one process runs many steps of a session.
func (a *Activities) assembleStep(ctx context.Context, run *attempt.Attempt, in StepInput) error {
	layout := artifact.InBucket(in.Session)
	store := a.memory.rememberingStore(ctx, run.Ports.Store)
	run.Ports.Store = store
	t, err := a.Teams.ByHash(ctx, store, layout, in.ConfigHash)
	if err != nil {
		return err
	}
	session, err := artifact.ReadJSON[artifact.Session](ctx, store, layout.File("session.json"))
	if err != nil {
		return err
	}
	if t, err = t.WithSchema(session.AnswerSchema); err != nil {
		return activities.Invalid(err)
	}
	criteria, err := readCriteria(ctx, store, layout, t, session)
	if err != nil {
		return err
	}
	turns, err := team.ReadTurns(ctx, store, layout, session)
	if err != nil {
		return err
	}
	t, drafts, err := team.ReadDrafts(ctx, store, layout, t, in.Launch.Agent)
	if err != nil {
		return err
	}
	agent, err := a.agentOf(ctx, store, t, in)
	if err != nil {
		return err
	}
	if len(drafts.Criteria) > 0 && len(criteria) == 0 {
		criteria = drafts.Criteria
	}
	run.Depth = session.Depth
	run.Parks = true
	// An evaluation does not meet caches that were filled while its answer was made.
	run.Agent = strings.Join([]string{session.FirstRunID, agent.ID, string(in.Launch.Purpose)}, "/")
	run.LimitOutages(time.Duration(t.Timeouts.OutageSeconds)*time.Second, in.Launch.AwaySince)
	run.ReportOutages(in.Launch, time.Duration(t.Timeouts.AwaySeconds)*time.Second)
	if err := run.Equip(ctx, agent); err != nil {
		return err
	}
	run.SetRules(t.Orchestrator.Approvals)
	if run.Ports.Caller, err = callerTools(store, in, session.Caller); err != nil {
		return err
	}
	addPerson(&run.Ports, store, in, run.Token, t.Orchestrator.AskPerson)
	m := newStep(run, in, t, agent)
	if err := a.showMaterial(ctx, run, &m, session.Material); err != nil {
		return err
	}
	m.Query, m.Secret, m.Criteria, m.Turns, m.Persona = session.Query, session.FirstRunID, criteria, turns, drafts.Persona
	m.Instructions = session.Instructions
	run.Spec, err = m.Spec(ctx, store)
	run.Spec.KeepsJournal = true // Record deletes all of the session
	return err
}

// agentOf returns the agent of a launch, with or without the shell as the session's first worker has decided.
func (a *Activities) agentOf(ctx context.Context, store artifact.Store, t config.Team, in StepInput) (config.Agent, error) {
	agent, ok := t.Agent(in.Launch.Agent)
	if !ok {
		return agent, activities.Invalid(fmt.Errorf("the team has no agent %s", in.Launch.Agent))
	}
	settled, _, err := activities.SettleShell(ctx, a.Confined, store, artifact.InBucket(in.Session), agent)
	if err != nil {
		return agent, err
	}
	if in.Launch.Purpose == coordination.Evaluation {
		return t.EvaluatorOf(settled[0]), nil
	}
	return settled[0], nil
}

// showMaterial gives a step the base, the context and the pictures of its session.
func (a *Activities) showMaterial(ctx context.Context, run *attempt.Attempt, m *team.Step, shown artifact.Material) (err error) {
	if m.Layout, err = activities.Start(ctx, a.Bases(), m.Layout, shown); err != nil {
		return err
	}
	if m.Contexts, err = activities.Contexts(ctx, a.Bases(), shown); err != nil {
		return err
	}
	pictures, err := activities.Pictures(ctx, a.Bases(), shown)
	run.Ports.Model = withPictures(run.Ports.Model, pictures)
	for i, p := range pictures {
		m.Pictures = append(m.Pictures, team.Picture{Name: path.Base(shown.Images[i].Path), Image: llm.Image{MediaType: p.MediaType, Ref: p.Ref}})
	}
	return err
}

// withPictures returns a model whose calls have the data of the pictures that messages refer to.
func withPictures(model loop.Model, pictures []llm.Image) loop.Model {
	if len(pictures) == 0 {
		return model
	}
	byRef := map[string][]byte{}
	for _, p := range pictures {
		byRef[p.Ref] = p.Data
	}
	return illustrated{Model: model, data: byRef}
}

// illustrated is a loop.Model. No journal and no transcript has the data.
type illustrated struct {
	loop.Model
	data map[string][]byte // by llm.Image.Ref
}

func (m illustrated) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	req.Messages = slices.Clone(req.Messages)
	for i, message := range req.Messages {
		images := slices.Clone(message.Images)
		for j, image := range images {
			if image.Ref != "" {
				images[j].Data = m.data[image.Ref]
			}
		}
		req.Messages[i].Images = images
	}
	return m.Model.Generate(ctx, req)
}

// criteriaFile contains the evaluation criteria of a session.
const criteriaFile = "eval_criteria.json"

// readCriteria reads the session's evaluation criteria, if any. They were given with the query or
// made by a model.
func readCriteria(ctx context.Context, store artifact.Store, layout artifact.Layout, t config.Team, session artifact.Session) (config.Criteria, error) {
	given := session.Criteria == nil || *session.Criteria
	if !given && !t.Orchestrator.Coordination.EvaluationCriteriaGenerator.Enabled {
		return nil, nil
	}
	data, err := store.Get(ctx, layout.File(criteriaFile))
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parsed, err := config.ParseCriteria(criteriaFile, data)
	if err != nil {
		return nil, activities.Invalid(err)
	}
	return parsed, nil
}

// newStep returns the step of a launch. It receives human messages even if updates from peers are
// disabled.
func newStep(run *attempt.Attempt, in StepInput, t config.Team, agent config.Agent) team.Step {
	return team.Step{
		Layout: artifact.InBucket(in.Session), Launch: in.Launch, Token: run.Token, Attempt: run.Number, Spent: run.Result.Usage, Agents: agentsOf(t),
		SystemMessage: agent.SystemMessage,
		Files:         agent.Tools.Files || agent.Tools.Shell.On(), Window: run.Ports.Window, Team: t, Bell: run.Look,
		Scratch: run.Ports.Scratch, Recorded: true,
	}
}

func agentsOf(t config.Team) (ids []string) {
	for _, a := range t.Agents {
		ids = append(ids, a.ID)
	}
	return ids
}

func (a *Activities) stepResult(ctx context.Context, run *attempt.Attempt, in StepInput) (StepResult, error) {
	outcome, err := team.ReadOutcome(run.Result.Commit)
	if err != nil {
		return StepResult{}, activities.Invalid(err)
	}
	r := StepResult{
		Token: run.Token, Step: run.Result.Step, Outcome: outcome, Files: run.Result.Files, Usage: run.Result.Usage,
	}
	if err := a.examineAnswer(ctx, in, run.Result.Commit, &r); err != nil {
		return StepResult{}, run.Error(err)
	}
	return r, nil
}

func (a *Activities) examineAnswer(ctx context.Context, in StepInput, c artifact.Commit, r *StepResult) error {
	if r.Action != coordination.NewAnswer {
		return nil
	}
	if in.Checks {
		if err := a.keepChecks(ctx, in.Session, c, r); err != nil {
			return err
		}
	}
	if in.Launch.Purpose != coordination.Coordinate {
		return nil
	}
	return a.findEqual(ctx, in, c, r)
}

// awaitingResult returns the result of a step that waits for the caller or for people. The step's journal is kept.
func (a *Activities) awaitingResult(ctx context.Context, run *attempt.Attempt, in StepInput, awaited []loop.AwaitedCall) (StepResult, error) {
	calls, err := a.callsOf(ctx, in, awaited)
	if err != nil {
		return StepResult{}, run.Error(err)
	}
	run.Leave(ctx)
	return StepResult{Token: run.Token, Step: run.Result.Step, Ended: loop.EndAwaiting, Calls: calls, Usage: run.Result.Usage}, nil
}

// Event converts the result to the event that ends a launch.
func (r StepResult) Event(id coordination.LaunchID) coordination.Event {
	end := coordination.End{Launch: id, Step: r.Step, Usage: r.Usage, LongestCall: r.LongestCall}
	if r.Ended != "" {
		end.Told = r.Seen
	}
	switch r.Ended {
	case loop.EndAwaiting:
		return coordination.Awaiting{End: end, Token: r.Token, Calls: r.Calls}
	case loop.EndRestart:
		return coordination.Restarted{End: end, Token: r.Token}
	case loop.EndAllowance:
		return coordination.Exhausted{End: end, Token: r.Token}
	}
	switch r.Action {
	case coordination.Vote:
		return coordination.Voted{End: end, Choice: r.Choice, Seen: r.Seen, Heard: r.Heard}
	case coordination.Stop:
		return coordination.Stopped{End: end, Status: r.Status, Summary: r.Summary, Seen: r.Seen, Heard: r.Heard}
	case coordination.SubmitEvaluation:
		c := r.Critique
		return coordination.Critiqued{End: end, Verdict: c.Verdict, Scores: c.Scores, Ceiling: c.Ceiling, Tasks: c.Tasks}
	case coordination.Submit, coordination.RestartTeam:
		return coordination.Evaluated{End: end, Again: r.Action == coordination.RestartTeam, Reason: r.Reason}
	default:
		return coordination.Answered{End: end, Seen: r.Seen, Heard: r.Heard, Digest: r.Digest, Checks: r.Checks}
	}
}

// clientPrefix is the prefix with which the names of the caller's tools are offered to agents.
const clientPrefix = "client__"

// maxInline bounds the arguments of a call in the session's state, in bytes. Longer arguments are
// in the store.
const maxInline = 4 << 10

func callerTools(store artifact.Store, in StepInput, c artifact.Caller) (loop.Caller, error) {
	tools, err := c.Tools()
	purpose := in.Launch.Purpose
	switch {
	case err != nil:
		return loop.Caller{}, activities.Invalid(err)
	case len(tools) == 0, purpose != coordination.Coordinate && purpose != coordination.Present,
		c.ClientToolsFor == artifact.ForPresenter && purpose != coordination.Present:
		return loop.Caller{}, nil
	}
	layout, own := artifact.InBucket(in.Session), "_"+string(in.Launch.ID)+"_"
	out := loop.Caller{
		ID: func(n int) string { return fmt.Sprintf("c%s%s%d", artifact.SessionHash(in.Session), own, n) },
		Result: func(ctx context.Context, id string) (string, bool, error) {
			// Only calls of an earlier launch can already have results.
			r, ok, err := readResult[artifact.CallResult](ctx, store, layout.CallResult(id), id, in.Launch.Answered && !strings.Contains(id, own))
			return r.Content, ok, err
		},
	}
	for _, t := range tools {
		out.Tools = append(out.Tools, llm.Tool{Name: clientPrefix + t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return out, nil
}

// addPerson lets a step ask people, where it can wait for them and the team has ask_person or rules.
func addPerson(p *step.Ports, store artifact.Store, in StepInput, token string, asks bool) {
	if purpose := in.Launch.Purpose; purpose != coordination.Coordinate && purpose != coordination.Present || !asks && !p.Gate.HasRules() {
		return
	}
	layout, own := artifact.InBucket(in.Session), "_"+string(in.Launch.ID)+"_"
	// The token makes the IDs of a step that begins again different.
	hash := artifact.SessionHash(in.Session + "\x00" + token)
	p.Caller.Person = loop.Person{
		ID: func(n int) string { return fmt.Sprintf("q%s%s%d", hash, own, n) },
		Answer: func(ctx context.Context, id string) (loop.Answer, bool, error) {
			r, ok, err := readResult[coordination.Reply](ctx, store, layout.QuestionAnswer(id), id, in.Launch.Answered && !strings.Contains(id, hash+own))
			return loop.Answer{Text: r.Text, Allow: r.Allow != nil && *r.Allow, Look: r.Look, By: r.By}, ok, err
		},
	}
	if asks {
		p.Caller.Tools = append(p.Caller.Tools, loop.AskTool())
	}
}

// Limits of the wait for a result that is being recorded.
const (
	resultPatience = 10 * time.Second
	resultPoll     = 100 * time.Millisecond
)

// readResult reads the result of a call, or the answer to a question. If it was announced, readResult waits for it.
func readResult[T any](ctx context.Context, store artifact.Store, key, id string, announced bool) (result T, ok bool, err error) {
	for deadline := time.Now().Add(resultPatience); ; {
		result, err = artifact.ReadJSON[T](ctx, store, key)
		switch {
		case err == nil:
			return result, true, nil
		case !errors.Is(err, artifact.ErrNotFound):
			return result, false, err
		case !announced:
			return result, false, nil
		case time.Now().After(deadline):
			return result, false, &step.UnwrittenError{Call: id}
		}
		select {
		case <-ctx.Done():
			return result, false, context.Cause(ctx)
		case <-time.After(resultPoll):
		}
	}
}

// callsOf converts calls for the session's state, and stores questions and long arguments.
func (a *Activities) callsOf(ctx context.Context, in StepInput, awaited []loop.AwaitedCall) ([]coordination.Call, error) {
	layout, store := artifact.InBucket(in.Session), a.Store
	var calls []coordination.Call
	for _, call := range awaited {
		if call.Question != nil {
			q := a.questionOf(in.Launch.Agent, call)
			if err := activities.CreateOnce(ctx, store, layout.Question(q.ID), q); err != nil {
				return nil, err
			}
			calls = append(calls, askOf(q, store.URL(layout.Question(q.ID))))
			continue
		}
		c := coordination.Call{ID: call.ID, Name: strings.TrimPrefix(call.Name, clientPrefix), Arguments: call.Arguments, Digest: callDigest(call)}
		if len(call.Arguments) > maxInline {
			key := layout.CallArguments(call.ID)
			if err := activities.CreateOnce(ctx, store, key, artifact.CallArguments{Arguments: call.Arguments}); err != nil {
				return nil, err
			}
			c.Arguments, c.ArgumentsPath = "", store.URL(key)
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// questionOf returns a question as people see it, without secrets.
func (a *Activities) questionOf(agent string, call loop.AwaitedCall) artifact.Question {
	clean := func(s string) string {
		if a.Redact == nil {
			return s
		}
		return string(a.Redact([]byte(s)))
	}
	asked := call.Question
	q := artifact.Question{ID: call.ID, Kind: asked.Kind, Agent: agent, Text: clean(asked.Text), Why: clean(asked.Why), Effect: asked.Effect}
	for _, o := range asked.Options {
		q.Options = append(q.Options, clean(o))
	}
	if call.Name != loop.AskPerson {
		q.Tool, q.Arguments = call.Name, text.EscapeHidden(clean(call.Arguments)) // what is approved is what is shown
	}
	return q
}

// askOf returns the call of a question for the session's state. The question as a whole is at a URL.
func askOf(q artifact.Question, url string) coordination.Call {
	c := coordination.Call{
		ID: q.ID, Name: q.Tool, Arguments: q.Arguments, Digest: cmp.Or(q.Effect, artifact.SessionHash(q.Text+"\x00"+strings.Join(q.Options, "\x00"))),
		Ask: &coordination.Ask{Kind: coordination.AskKind(q.Kind), Text: q.Text, Why: q.Why, Options: q.Options},
	}
	if len(q.Arguments) > maxInline {
		c.Arguments, c.ArgumentsPath = "", url
	}
	return c
}

// callDigest returns a digest of a call's tool and arguments, which does not depend on the order of
// their keys.
func callDigest(c loop.AwaitedCall) string {
	canonical := c.Arguments
	if d, err := llm.ReadData([]byte(canonical)); err == nil {
		canonical = d.Canonical
	}
	return artifact.SessionHash(c.Name + "\x00" + canonical)
}

func (a *Activities) writeResults(ctx context.Context, layout artifact.Layout, results []coordination.ToolResult) error {
	for _, r := range results {
		if err := activities.CreateOnce(ctx, a.Store, layout.CallResult(r.ID), artifact.CallResult{Content: r.Content}); err != nil {
			return err
		}
	}
	return nil
}
