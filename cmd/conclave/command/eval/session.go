package eval

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/view/page"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/eval"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/engine/session/check"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	sessionflow "conclave/workflows/session"
)

// endedSession is a session with its decision.
type endedSession struct {
	result  sessionflow.Result
	session *record.Session
	layout  artifact.Layout
	firsts  []*record.Step // first answers of the agents, made without seeing another answer
}

// reply is an answer of an arm with its cost.
type reply struct {
	text    string
	session string
	failed  string // the reason why there is no answer
	cost    llm.Usage
	seconds float64
	layout  artifact.Layout
	step    *record.Step // nil for a bare completion
}

// definition is a team or a pipeline that can be passed to workers.
type definition interface {
	Canonical() ([]byte, error)
	Hash() string
}

// handDefinition passes a definition to the workers: by name on a local stack, or else in the input.
func (r *runner) handDefinition(d definition) (name string, inline json.RawMessage, err error) {
	if r.conn.Cluster {
		inline, err = d.Canonical()
	} else {
		name, err = teams.Registry(r.conn.Target).Register(d)
	}
	if err != nil {
		return "", nil, fmt.Errorf("hand the team to the workers: %w", err)
	}
	return name, inline, nil
}

// askSession runs the session of a question, or joins the one that an earlier evaluation started,
// and reads its record.
func (r *runner) askSession(ctx context.Context, id string, q eval.Question, of config.Team) (*endedSession, error) {
	in := sessionflow.Input{Query: q.Prompt()}
	var err error
	if in.Team, in.Config, err = r.handDefinition(of); err != nil {
		return nil, err
	}
	if in.Base, err = r.material.baseReference(ctx, q); err != nil {
		return nil, err
	}
	if of.Orchestrator.RunsChecks() && q.ScoredBy(r.plan.scorer) != eval.Checks {
		if in.Checks, err = r.material.checksReference(ctx, q); err != nil {
			return nil, err
		}
	}
	result, err := awaitRun(ctx, r, r.kinds.Session, id, q.Input, in)
	if err != nil {
		return nil, err
	}
	o := &endedSession{result: result, layout: artifact.InBucket(id)}
	reader := record.NewReader(r.conn.Store, o.layout, nil)
	if o.session, err = reader.Read(ctx); errors.Is(err, record.ErrNone) {
		o.session, err = &record.Session{ID: id}, nil // refused before it was prepared
	} else if err == nil {
		o.firsts = firstAnswers(o.session)
		err = r.drawSession(ctx, id, reader)
	}
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", id, err)
	}
	if in.Base != "" {
		o.layout, err = r.material.layoutOn(ctx, o.layout, in.Base)
	}
	return o, err
}

func (r *runner) drawSession(ctx context.Context, id string, reader *record.Reader) error {
	var html bytes.Buffer
	if err := page.Write(ctx, &html, reader, "../"+pageFile, time.Now()); err != nil {
		return err
	}
	return r.out.writeFile(filepath.Join(pagesDir, id+".html"), html.Bytes())
}

// parkedPoll is how often a run is asked whether it waits for a person.
const parkedPoll = 5 * time.Second

// awaitRun starts a run, unless an earlier evaluation has started it, and waits for its end. It fails
// for a run that is parked until a person acts.
func awaitRun[R any](ctx context.Context, r *runner, kind Kind[R], id, query string, input any) (R, error) {
	o := runs.Order{Kind: kind.Kind, ID: id, Query: query, Input: input, Offline: r.offline}
	run := o.Run()
	err := runs.Execute(ctx, r.conn, o)
	if runs.IsTaken(err) {
		err = r.retryParked(ctx, run)
	}
	if err != nil {
		var none R
		return none, fmt.Errorf("start %s: %w", run, err)
	}
	result, err := runs.Poll(ctx, parkedPoll, nil, func(ctx context.Context) (R, error) { return kind.Await(ctx, r.conn, run) }, func(ctx context.Context) (time.Duration, error) {
		if why := parkedReason(runs.Refreshed(ctx, r.conn, run)); why != "" {
			return 0, cli.Exitf(cli.ExitNoAnswer, "%s is parked: %s; mend it, then run the same command again: it goes on", run, why)
		}
		return parkedPoll, nil
	})
	if err != nil {
		return result, fmt.Errorf("wait for %s: %w", run, err)
	}
	return result, nil
}

// parkedReason returns why a run waits for a person, or "" if it does not.
func parkedReason(run runs.Run) string {
	if !run.Running() {
		return ""
	}
	return runs.Memo(run.Memo, workflows.MemoParked, "")
}

// retryParked retries the failed steps of a run that an earlier evaluation has left parked.
func (r *runner) retryParked(ctx context.Context, run runs.Run) error {
	now, err := runs.Describe(ctx, r.conn, run)
	if err == nil && parkedReason(now) != "" {
		_, err = runs.Steer(ctx, r.conn, []*runs.Kind{run.Kind}, run.ID, runs.Request{Verb: workflows.RetrySignal})
	}
	return err
}

// firstAnswers returns the first answer of each agent, in the order of the agents, if it was
// made without seeing another answer.
func firstAnswers(s *record.Session) []*record.Step {
	var found []*record.Step
	for _, agent := range s.Agents {
		at := slices.IndexFunc(agent.Steps, func(p *record.Step) bool { return p.Answer != nil })
		if at < 0 {
			continue
		}
		if p := agent.Steps[at]; len(p.Shown)+len(p.Received) == 0 && !p.Answer.Final {
			found = append(found, p)
		}
	}
	return found
}

// failureReason returns why the first failed agent has failed, or else the session; empty if neither has.
func (o *endedSession) failureReason() string {
	switch {
	case len(o.result.Failed) > 0:
		return o.result.Failed[0].Error.Type + ": " + o.result.Failed[0].Error.Message
	case o.result.Error != nil:
		return o.result.Status + ": " + o.result.Error.Message
	}
	return ""
}

func (o *endedSession) decisionReply() reply {
	d := reply{session: o.result.SessionID, cost: o.result.Cost, seconds: o.result.DurationSeconds, layout: o.layout, step: o.session.Final()}
	d.text = o.result.Answer
	if d.step != nil && d.step.Answer != nil {
		d.text = d.step.Answer.Text
	}
	switch {
	case o.result.Winner == "":
		d.failed = cmp.Or(o.failureReason(), o.result.Status)
	case o.result.Status == string(coordination.Undecided):
		d.failed = o.result.Status
	}
	return d
}

func (o *endedSession) firstReply(p *record.Step) reply {
	return reply{
		text: p.Answer.Text, session: o.session.ID, cost: p.Usage, seconds: p.Ended.Sub(p.Started).Seconds(),
		layout: o.layout, step: p,
	}
}

// samplingTeam returns a team that gives k first answers and takes no decision. Its agents
// are those of the team in turn, under new names, so that their samples are independent
// of the team's.
func samplingTeam(of config.Team, from, k int) config.Team {
	agents := of.Agents
	of.Agents = nil
	for i := from; i < from+k; i++ {
		a := agents[i%len(agents)]
		a.ID, a.Subtask = fmt.Sprintf("sample_%d", i+1), ""
		if seed, ok := a.Backend.Params["seed"]; ok && !a.Backend.IsOffline() {
			a.Backend = reseedBackend(a.Backend, seed, i/len(agents))
		}
		of.Agents = append(of.Agents, a)
	}
	standard := config.Defaults[config.Orchestrator]()
	o := of.Orchestrator
	standard.TextAnswers, standard.ThinkFirst = o.TextAnswers, o.ThinkFirst
	standard.MaxModelCallsPerStep, standard.Budget = o.MaxModelCallsPerStep, o.Budget
	standard.SkipVoting, standard.SkipFinalPresentation = true, true
	of.Orchestrator = standard
	return of
}

// reseedBackend returns a backend with another seed for each further round of the agents, so
// that it does not repeat the team's samples.
func reseedBackend(b config.Backend, seed any, round int) config.Backend {
	const apart = 1_000_003 // seeds of agents are close to each other
	params := map[string]any{}
	for name, value := range b.Params {
		params[name] = value
	}
	switch n := seed.(type) {
	case int:
		params["seed"] = n + round*apart
	case int64:
		params["seed"] = n + int64(round*apart)
	case float64:
		params["seed"] = n + float64(round*apart)
	}
	b.Params = params
	return b
}

// runCompletion asks an agent's model without any tools or instructions. It is a pipeline run
// with one step and thus as durable as a session.
func (r *runner) runCompletion(ctx context.Context, id, request string, agent config.Agent) (reply, error) {
	agent.ID, agent.SystemMessage, agent.Subtask, agent.MCPServers = "agent_a", "", "", nil
	agent.Tools.Files, agent.Tools.Shell = false, false
	step := config.Defaults[config.PipelineStep]()
	step.Name, step.Agent = "answer", agent.ID
	p := config.Defaults[config.Pipeline]()
	p.Agents, p.Start, p.Steps = []config.Agent{agent}, step.Name, []config.PipelineStep{step}

	in := pipelineflow.Input{Request: request}
	var err error
	if in.Pipeline, in.Config, err = r.handDefinition(p); err != nil {
		return reply{}, err
	}
	result, err := awaitRun(ctx, r, r.kinds.Pipeline, id, request, in)
	if err != nil {
		return reply{}, err
	}
	a := reply{session: id, cost: result.Usage, layout: artifact.InPipeline(id)}
	if result.Status != pipeline.Completed {
		a.failed = string(result.Status)
		if result.Error != nil {
			a.failed += ": " + result.Error.Message
		}
		return a, nil
	}
	a.text, err = runs.WholeText(ctx, r.conn, a.layout, runs.Text{Content: result.Final, Truncated: result.FinalTruncated, Path: result.FinalPath})
	a.seconds = r.runSeconds(ctx, id)
	return a, err
}

// drawPipeline writes the page of a pipeline run, if it was prepared.
func (r *runner) drawPipeline(ctx context.Context, id string) error {
	run, err := record.ReadPipeline(ctx, r.conn.Store, artifact.InPipeline(id))
	if errors.Is(err, record.ErrNone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pipeline run %s: %w", id, err)
	}
	html, err := page.Pipeline(ctx, run, "../"+pageFile, time.Now())
	if err != nil {
		return err
	}
	return r.out.writeFile(filepath.Join(pagesDir, id+".html"), html)
}

// runSeconds returns the duration of a run in seconds, or 0 if the server does not report it.
func (r *runner) runSeconds(ctx context.Context, id string) float64 {
	run, err := runs.Describe(ctx, r.conn, runs.Order{Kind: r.kinds.Pipeline.Kind, ID: id}.Run())
	if err != nil || run.Running() {
		return 0
	}
	return run.Seconds()
}

// gradeAnswer asks the grader whether an answer is correct. It returns nil if the reply says
// neither. Equal answers are graded once.
func (u *unit) gradeAnswer(ctx context.Context, a reply) (*bool, error) {
	if strings.TrimSpace(a.text) == "" {
		return nil, nil
	}
	sum := sha256.Sum256([]byte(a.text))
	id := fmt.Sprintf("eval-%s-%s-grade-%s", u.plan.id, u.q.ID, hex.EncodeToString(sum[:6]))
	said, err := u.completeBare(ctx, id, eval.GradePrompt(u.q, a.text), *u.plan.grader)
	if err != nil || said.failed != "" {
		return nil, err
	}
	return eval.Grade(said.text), nil
}

// scoreAnswer returns whether an answer is correct, and the extracted part that was compared. It
// scores an answer once, because commands may take long.
func (u *unit) scoreAnswer(ctx context.Context, a reply) (extracted string, correct *bool, err error) {
	scorer := u.q.ScoredBy(u.plan.scorer)
	if extracted, correct = u.q.Score(u.plan.scorer, a.text); correct != nil {
		return extracted, correct, nil
	}
	key := a.session
	if a.step != nil {
		key += " " + a.step.Dir
	}
	correct, known := u.scores[key]
	switch {
	case known:
	case scorer == eval.Command || scorer == eval.Checks:
		correct, err = u.tryAnswer(ctx, scorer, a)
	case scorer == eval.Graded:
		correct, err = u.gradeAnswer(ctx, a)
	}
	if err == nil {
		u.scores[key] = correct
	}
	return extracted, correct, err
}

// tryAnswer runs the commands or checks of a question on an answer, each in a fresh copy of its
// files. It returns nil for an empty answer.
func (u *unit) tryAnswer(ctx context.Context, scorer string, a reply) (*bool, error) {
	if a.step == nil && strings.TrimSpace(a.text) == "" {
		return nil, nil
	}
	answer := check.Answer{Text: a.text}
	if a.step != nil {
		commit, err := artifact.ReadJSON[artifact.Commit](ctx, u.conn.Store, a.layout.Step(a.step.Agent, a.step.Number, "action.json"))
		if err != nil {
			return nil, fmt.Errorf("read the answer of session %s: %w", a.session, err)
		}
		if answer.Files, err = artifact.LoadManifest(ctx, u.conn.Store, a.layout, commit.Manifest); err != nil {
			return nil, fmt.Errorf("read the files of session %s: %w", a.session, err)
		}
	}
	var definitions []check.Definition
	if scorer == eval.Command {
		for i, command := range u.q.Target {
			definitions = append(definitions, check.Definition{ID: fmt.Sprintf("target %d", i+1), Name: "command", Command: command, User: true})
		}
	} else {
		var err error
		if definitions, err = u.material.checkDefinitions(ctx, u.q, a.layout); err != nil {
			return nil, err
		}
	}
	runner := check.Runner{Store: u.conn.Store, Layout: a.layout, Confine: u.worker.Tools.Confine}
	passed := true
	for _, d := range definitions {
		result, err := runner.Run(ctx, answer, d)
		if err != nil {
			return nil, err
		}
		passed = passed && result.Passed
	}
	return &passed, nil
}
