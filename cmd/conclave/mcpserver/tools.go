package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/activities"
	"conclave/cmd/conclave/desk"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

// ask is the input of ask_team.
type ask struct {
	Question    string             `json:"question" jsonschema:"the question, with everything that the team needs to know"`
	Team        string             `json:"team,omitempty" jsonschema:"the team to ask; left out for the default team"`
	Base        string             `json:"base,omitempty" jsonschema:"the files that the team works on: a single dot for the client's root, or the sha256 reference that conclave upload prints; left out for none"`
	Context     []artifact.Context `json:"context,omitempty" jsonschema:"directories that the team may only read, each with a name; a manifest has the form of base"`
	WaitSeconds *int               `json:"wait_seconds,omitempty" jsonschema:"how long to wait for the answer before the session_id is returned: 45 if left out, 0 to return at once"`
}

// handle is the ID of a session, as input or output.
type handle struct {
	SessionID string `json:"session_id" jsonschema:"the session_id that ask_team returned"`
}

// fetch is the input of session_result.
type fetch struct {
	handle
	WaitSeconds *int `json:"wait_seconds,omitempty" jsonschema:"how long to wait for the answer: 45 if left out, 0 to look once"`
}

// words is the input of say.
type words struct {
	handle
	Text  string `json:"text" jsonschema:"the message"`
	Agent string `json:"agent,omitempty" jsonschema:"the agent that it is for; left out for all"`
}

// change is the input of session_diff.
type change struct {
	handle
	Label string `json:"label,omitempty" jsonschema:"the label of an answer, such as agent2.1; left out for the decision"`
}

func (s server) addTools(to *mcp.Server, readOnly bool) {
	reads, no := &mcp.ToolAnnotations{ReadOnlyHint: true}, false
	steers := &mcp.ToolAnnotations{DestructiveHint: &no}
	if !readOnly {
		mcp.AddTool(to, &mcp.Tool{Name: "ask_team", Annotations: steers, Description: "Ask a team of agents a question. Returns its answer, or after wait_seconds the session_id of the session that goes on; " + s.teamNames()}, s.ask)
		mcp.AddTool(to, &mcp.Tool{Name: "say", Annotations: steers, Description: "Send a message to the agents of a running session."}, s.say)
		mcp.AddTool(to, &mcp.Tool{Name: "decide_now", Annotations: steers, Description: "Have a running session decide now, with the present answers and votes."}, s.decideNow)
	}
	mcp.AddTool(to, &mcp.Tool{Name: "session_status", Annotations: reads, Description: "Where a session stands: who has answered, the fresh votes, the cost."}, s.status)
	mcp.AddTool(to, &mcp.Tool{Name: "session_result", Annotations: reads, Description: "The answer of a session, for which the call waits up to wait_seconds."}, s.result)
	mcp.AddTool(to, &mcp.Tool{Name: "session_diff", Annotations: reads, Description: "The change of an answer's files as a patch for git apply."}, s.diff)
}

// teamNames returns the list of teams for the description of ask_team.
func (s server) teamNames() string {
	var names []string
	for _, t := range s.desk.Teams(s.by) {
		names = append(names, t.Name)
	}
	return "teams: " + strings.Join(names, ", ") + "."
}

func (s server) ask(ctx context.Context, req *mcp.CallToolRequest, in ask) (*mcp.CallToolResult, outcome, error) {
	if strings.TrimSpace(in.Question) == "" {
		return nil, outcome{}, errors.New("the question is empty")
	}
	if len(in.Question) > drive.MaxInput {
		return nil, outcome{}, fmt.Errorf("the question has %d bytes, at most %d are accepted", len(in.Question), drive.MaxInput)
	}
	until, err := waitOf(in.WaitSeconds)
	if err != nil {
		return nil, outcome{}, err
	}
	t, err := s.desk.Team(s.by, cmp.Or(in.Team, activities.DefaultTeam))
	if err != nil {
		return nil, outcome{}, err
	}
	m, dir, asks, err := s.material(ctx, req, in)
	if err != nil || asks != nil {
		return asks, outcome{}, err
	}
	ticket, err := s.desk.Start(ctx, s.by, desk.Question{Team: t, Input: sessionflow.Input{Query: in.Question, Material: m}})
	if err != nil {
		return nil, outcome{}, err
	}
	s.desk.Remember(ticket.ID, dir)
	report := progress(ctx, req)
	if report != nil { // so that a client that gives up early knows the ID
		report("session_id " + ticket.ID)
	}
	return s.await(ctx, ticket.ID, until, report)
}

func (s server) result(ctx context.Context, req *mcp.CallToolRequest, in fetch) (*mcp.CallToolResult, outcome, error) {
	until, err := waitOf(in.WaitSeconds)
	if err != nil {
		return nil, outcome{}, err
	}
	if _, err := s.desk.Find(ctx, s.by, in.SessionID); err != nil {
		return nil, outcome{}, err
	}
	return s.await(ctx, in.SessionID, until, progress(ctx, req))
}

// standing is the result of session_status.
type standing struct {
	SessionID string   `json:"session_id"`
	Status    string   `json:"status"`
	Phase     string   `json:"phase"`
	Round     int      `json:"round"`
	Parked    *string  `json:"parked,omitempty"` // the reason why it waits
	Agents    []member `json:"agents"`
	Tokens    int64    `json:"tokens"`
	TotalUSD  *float64 `json:"total_usd,omitempty"`
	WaitsFor  []string `json:"waits_for,omitempty"` // names of the caller's tools
}

type member struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Running bool   `json:"running"`
	Answer  string `json:"answer,omitempty"` // label of its latest one
	Vote    string `json:"vote,omitempty"`   // label; of a fresh vote
}

func (s server) status(ctx context.Context, _ *mcp.CallToolRequest, in handle) (*mcp.CallToolResult, standing, error) {
	state, err := s.desk.State(ctx, s.by, in.SessionID)
	if err != nil {
		return nil, standing{}, err
	}
	out := standing{
		SessionID: in.SessionID, Status: state.Status, Phase: string(state.Phase), Round: state.Round, Parked: state.Parked,
		Agents: []member{}, Tokens: state.Cost.InputTokens + state.Cost.OutputTokens, TotalUSD: state.Cost.TotalUSD,
		WaitsFor: called(state),
	}
	for _, a := range state.Agents {
		m := member{ID: a.ID, Status: a.Status, Running: a.Running, Answer: a.LatestLabel}
		if a.Vote != nil && !a.Vote.Stale {
			m.Vote = a.Vote.TargetLabel
		}
		out.Agents = append(out.Agents, m)
	}
	return nil, out, nil
}

// done is the result of a tool that steers a session.
type done struct {
	SessionID string `json:"session_id"`
	Accepted  bool   `json:"accepted"`
}

func (s server) say(ctx context.Context, _ *mcp.CallToolRequest, in words) (*mcp.CallToolResult, done, error) {
	return s.steer(ctx, in.SessionID, drive.SaySignal, drive.Request{Text: in.Text, Agent: in.Agent})
}

func (s server) decideNow(ctx context.Context, _ *mcp.CallToolRequest, in handle) (*mcp.CallToolResult, done, error) {
	state, err := s.desk.State(ctx, s.by, in.SessionID)
	if err != nil {
		return nil, done{}, err
	}
	answered := slices.ContainsFunc(state.Agents, func(a coordination.AgentView) bool { return a.LatestLabel != "" })
	if state.Status == drive.Running && !answered {
		return nil, done{}, fmt.Errorf("no agent of session %s has an answer yet, so there is nothing to decide; session_result waits for the decision", in.SessionID)
	}
	return s.steer(ctx, in.SessionID, drive.FinishSignal, nil)
}

func (s server) steer(ctx context.Context, id, verb string, payload any) (*mcp.CallToolResult, done, error) {
	if err := s.desk.Steer(ctx, s.by, id, verb, payload); err != nil {
		return nil, done{}, err
	}
	return nil, done{SessionID: id, Accepted: true}, nil
}

// patched is the result of session_diff.
type patched struct {
	SessionID string `json:"session_id"`
	Label     string `json:"label"`
	Stat      string `json:"stat"`
	Patch     string `json:"patch"`
}

func (s server) diff(ctx context.Context, _ *mcp.CallToolRequest, in change) (*mcp.CallToolResult, patched, error) {
	a, err := s.desk.Answer(ctx, s.by, in.SessionID, in.Label)
	if err != nil {
		return nil, patched{}, err
	}
	p, stat, err := a.Patch(ctx)
	if err != nil {
		return nil, patched{}, err
	}
	if p == "" {
		return text("The answer " + a.Label + " changes no files."), patched{SessionID: a.Session, Label: a.Label}, nil
	}
	return text(p), patched{SessionID: a.Session, Label: a.Label, Stat: stat, Patch: p}, nil
}
