package callers

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// Session is a simulated session, controlled by a test.
type Session struct {
	ID    string
	Kind  string // the type of its workflow
	Input sessionflow.Input

	server *Temporal
	memo   *commonpb.Memo
	ended  chan struct{} // closed at its end

	mu      sync.Mutex
	state   acts.State
	events  []coordination.Entry
	updates []Update
	refusal error
	silent  bool
	result  sessionflow.Result
	err     error
}

// Update is an update that a session has received.
type Update struct {
	Name string
	Args []any
}

// Report adds events to the timeline.
func (s *Session) Report(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		s.events = append(s.events, coordination.Entry{Seq: len(s.events) + 1, Kind: "answer", Text: text})
	}
}

// Change changes the state that the session shows.
func (s *Session) Change(change func(*acts.State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.state)
}

// Ask makes the session wait for calls of its caller's tools.
func (s *Session) Ask(used llm.Usage, calls ...coordination.Call) {
	s.Change(func(state *acts.State) {
		state.Phase, state.Calls, state.Cost = coordination.PhaseWaitingForTools, calls, used
	})
}

// Refuse makes the session refuse every update with an error.
func (s *Session) Refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = err
}

// Silence simulates a session without a worker: queries fail.
func (s *Session) Silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = true
}

// End ends the session with a result.
func (s *Session) End(r sessionflow.Result) {
	s.finishWith(r, nil)
}

// Fail ends the session with the error that a client sees if its workflow fails.
func (s *Session) Fail(err error) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment() // the SDK alone makes these errors
	env.ExecuteWorkflow(func(workflow.Context) error { return err })
	s.finishWith(sessionflow.Result{}, env.GetWorkflowError())
}

// Decide ends the session with an answer of agent_a that got two votes.
func (s *Session) Decide(answer string, used llm.Usage) {
	s.End(sessionflow.Result{
		SessionID: s.ID, Status: string(coordination.Consensus), Winner: "agent_a", WinnerLabel: "agent1.1",
		Answer: answer, Votes: map[string]int{"agent_a": 2}, Cost: used,
	})
}

func (s *Session) finishWith(r sessionflow.Result, err error) {
	s.mu.Lock()
	s.result, s.err = r, err
	s.state.Status = r.Status
	payload, encodeErr := converter.GetDefaultDataConverter().ToPayload(r.Status)
	s.mu.Unlock()
	if encodeErr == nil {
		s.server.mu.Lock()
		s.memo.Fields[workflows.MemoStatus] = payload
		s.server.mu.Unlock()
	}
	close(s.ended)
}

// Reopen continues an ended session, as a retry does.
func (s *Session) Reopen() { s.ended = make(chan struct{}) }

// Updates returns the updates that the session has received.
func (s *Session) Updates() []Update {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Update{}, s.updates...)
}

func (s *Session) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

func (s *Session) answerQuery(query string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.silent:
		return nil, serviceerror.NewQueryFailed("no worker answers")
	case query == workflows.StateQuery:
		return json.Marshal(s.state)
	case query == workflows.TimelineQuery:
		return json.Marshal(s.events)
	}
	return nil, fmt.Errorf("a session has no query %s", query)
}

func (s *Session) acceptUpdate(o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if s.hasEnded() {
		return nil, serviceerror.NewNotFound("workflow execution already completed")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = append(s.updates, Update{o.UpdateName, o.Args})
	return handle{err: s.refusal}, nil
}

type handle struct {
	client.WorkflowUpdateHandle
	err error
}

func (h handle) Get(context.Context, any) error { return h.err }

func (s *Session) asRun() workflowRun { return workflowRun{id: s.ID, session: s} }

// workflowRun waits for the end of a session.
type workflowRun struct {
	client.WorkflowRun
	id      string
	session *Session
	err     error // error for a session that the server does not know
}

func (r workflowRun) GetID() string { return r.id }

func (r workflowRun) Get(ctx context.Context, into any) error {
	if r.err != nil {
		return r.err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.session.server.leavingChannel():
		return serviceerror.NewUnavailable("connection reset")
	case <-r.session.ended:
	}
	r.session.mu.Lock()
	defer r.session.mu.Unlock()
	if r.session.err != nil {
		return r.session.err
	}
	data, err := json.Marshal(r.session.result)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
