package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/page"
	"conclave/cmd/conclave/record"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/eval"
	"conclave/engine/llm"
	"conclave/engine/text"
	"conclave/workflows/drive"
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

// hand passes a definition to the workers: by name on a local stack, or else in the input.
func (r *runner) hand(d definition) (name string, inline json.RawMessage, err error) {
	if r.conn.Cluster {
		inline, err = d.Canonical()
	} else {
		name, err = team.Registry(r.conn.Target).Register(d)
	}
	if err != nil {
		return "", nil, fmt.Errorf("hand the team to the workers: %w", err)
	}
	return name, inline, nil
}

// ask runs the session of a question, or joins the one that an earlier evaluation started,
// and reads its record.
func (r *runner) ask(ctx context.Context, id string, q eval.Question, of config.Team) (*endedSession, error) {
	in := sessionflow.Input{Query: q.Prompt()}
	var err error
	if in.Team, in.Config, err = r.hand(of); err != nil {
		return nil, err
	}
	if in.Base, err = r.material.base(ctx, q); err != nil {
		return nil, err
	}
	if of.Orchestrator.RunsChecks() && q.ScoredBy(r.plan.scorer) != eval.Checks {
		if in.Checks, err = r.material.checks(ctx, q); err != nil {
			return nil, err
		}
	}
	ended, err := r.await(ctx, r.kinds.session, id, q.Input, in)
	if err != nil {
		return nil, err
	}
	result, ok := ended.(sessionflow.Result)
	if !ok {
		return nil, fmt.Errorf("session %s has a result of another kind", id)
	}
	o := &endedSession{result: result, layout: artifact.InBucket(id)}
	reader := record.NewReader(r.conn.Store, o.layout, nil)
	if o.session, err = reader.Read(ctx); errors.Is(err, record.ErrNone) {
		o.session, err = &record.Session{ID: id}, nil // refused before it was prepared
	} else if err == nil {
		o.firsts = firsts(o.session)
		err = r.draw(ctx, id, reader)
	}
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", id, err)
	}
	if in.Base != "" {
		o.layout, err = r.material.on(ctx, o.layout, in.Base)
	}
	return o, err
}

// draw writes the page of a session.
func (r *runner) draw(ctx context.Context, id string, reader *record.Reader) error {
	var html bytes.Buffer
	if err := page.Write(ctx, &html, reader, time.Now()); err != nil {
		return err
	}
	return r.out.write(filepath.Join(pagesDir, id+".html"), html.Bytes())
}

// await starts a run, unless an earlier evaluation has started it, and waits for its end.
func (r *runner) await(ctx context.Context, kind *runs.Kind, id, query string, input any) (any, error) {
	memo := map[string]any{kind.MemoID: id, drive.MemoQuery: text.HeadRunes(query, maxMemoQuery)}
	options := runs.Options(r.conn, id, query, memo, r.offline)
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	starting, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	_, err := r.conn.Client.ExecuteWorkflow(starting, options, kind.Type, input)
	if _, taken := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); taken {
		err = r.release(ctx, kind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s %s: %w", kind.Noun, id, err)
	}
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go r.watchParked(waiting, stop, kind, id)
	ended, _, err := kind.Await(waiting, r.conn, runs.Run{Kind: kind, ID: id, Workflow: id})
	if err != nil {
		if cause := context.Cause(waiting); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("wait for %s %s: %w", kind.Noun, id, err)
	}
	return ended, nil
}

const (
	maxMemoQuery = 200             // characters of the query in the memo
	parkedPoll   = 5 * time.Second // how often a run is asked whether it waits for a person
)

// parked returns why a run waits for a person, or "" if it does not.
func (r *runner) parked(ctx context.Context, id string) (why string, err error) {
	described, err := r.conn.Client.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return "", err
	}
	info := described.GetWorkflowExecutionInfo()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return "", nil
	}
	return runs.Memo(info.GetMemo(), drive.MemoParked, ""), nil
}

// release retries the failed steps of a run that an earlier evaluation has left parked.
func (r *runner) release(ctx context.Context, kind *runs.Kind, id string) error {
	why, err := r.parked(ctx, id)
	if err == nil && why != "" {
		_, err = runs.Steer(ctx, r.conn, []*runs.Kind{kind}, id, runs.Request{Verb: drive.RetrySignal})
	}
	return err
}

// watchParked cancels the wait if the run is parked until a person acts.
func (r *runner) watchParked(ctx context.Context, stop context.CancelCauseFunc, kind *runs.Kind, id string) {
	poll := time.NewTicker(parkedPoll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		}
		why, err := r.parked(ctx, id)
		if err != nil {
			continue // the next poll may succeed
		}
		if why != "" {
			stop(hall.Exitf(hall.ExitNoAnswer, "%s %s is parked: %s; mend it, then run the same command again: it goes on", kind.Noun, id, why))
			return
		}
	}
}

// firsts returns the first answer of each agent, in the order of the agents, if it was
// made without seeing another answer.
func firsts(s *record.Session) []*record.Step {
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

// decision returns the answer of an ended session.
func (o *endedSession) decision() reply {
	d := reply{session: o.result.SessionID, cost: o.result.Cost, seconds: o.result.DurationSeconds, layout: o.layout, step: o.session.Final()}
	d.text = o.result.Answer
	if d.step != nil && d.step.Answer != nil {
		d.text = d.step.Answer.Text
	}
	switch {
	case o.result.Winner == "":
		d.failed = o.result.Status
		if o.result.Error != nil {
			d.failed += ": " + o.result.Error.Message
		}
	case o.result.Status == string(coordination.Undecided):
		d.failed = o.result.Status
	}
	return d
}

// first returns a step's first answer as the reply of an arm.
func (o *endedSession) first(p *record.Step) reply {
	return reply{
		text: p.Answer.Text, session: o.session.ID, cost: p.Usage, seconds: p.Ended.Sub(p.Started).Seconds(),
		layout: o.layout, step: p,
	}
}

// sampling returns a team that gives k first answers and takes no decision. Its agents
// are those of the team in turn, under new names, so that their samples are independent
// of the team's.
func sampling(of config.Team, from, k int) config.Team {
	agents := of.Agents
	of.Agents = nil
	for i := from; i < from+k; i++ {
		a := agents[i%len(agents)]
		a.ID, a.Subtask = fmt.Sprintf("sample_%d", i+1), ""
		if seed, ok := a.Backend.Params["seed"]; ok && a.Backend.Type != config.Offline {
			a.Backend = reseeded(a.Backend, seed, i/len(agents))
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

// reseeded returns a backend with another seed for each further round of the agents, so
// that it does not repeat the team's samples.
func reseeded(b config.Backend, seed any, round int) config.Backend {
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
