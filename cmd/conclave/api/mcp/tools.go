package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/activities"
	acts "conclave/activities/session"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/text"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// ask is the input of ask_team.
type ask struct {
	Question    string             `json:"question" jsonschema:"the question, with everything that the team needs to know"`
	Team        string             `json:"team,omitempty" jsonschema:"the team to ask; left out for the default team"`
	Base        string             `json:"base,omitempty" jsonschema:"the files that the team works on: a single dot for the client's root, or the sha256 reference that conclave upload prints; left out for none"`
	Context     []artifact.Context `json:"context,omitempty" jsonschema:"directories that the team may only read, each with a name; a manifest has the form of base"`
	Images      []string           `json:"images,omitempty" jsonschema:"pictures that are shown with the question, up to 20: paths of files in the client's root, or data URLs"`
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
		mcp.AddTool(to, &mcp.Tool{Name: "ask_team", Annotations: steers, Description: "Ask a team of agents a question. Returns its answer, or after wait_seconds the session_id of the session that goes on; " + s.teamNames()}, s.askTeam)
		mcp.AddTool(to, &mcp.Tool{Name: "say", Annotations: steers, Description: "Send a message to the agents of a running session."}, s.say)
		mcp.AddTool(to, &mcp.Tool{Name: "decide_now", Annotations: steers, Description: "Have a running session decide now, with the present answers and votes."}, s.decideNow)
	}
	mcp.AddTool(to, &mcp.Tool{Name: "session_status", Annotations: reads, Description: "Where a session stands: who has answered, the fresh votes, the cost."}, s.sessionStatus)
	mcp.AddTool(to, &mcp.Tool{Name: "session_result", Annotations: reads, Description: "The answer of a session, for which the call waits up to wait_seconds."}, s.sessionResult)
	mcp.AddTool(to, &mcp.Tool{Name: "session_diff", Annotations: reads, Description: "The change of an answer's files as a patch for git apply."}, s.sessionDiff)
}

func (s server) teamNames() string {
	names := text.Each(s.desk.Teams(s.by), func(t gateway.Team) string { return t.Name })
	return "teams: " + strings.Join(names, ", ") + "."
}

func (s server) askTeam(ctx context.Context, req *mcp.CallToolRequest, in ask) (*mcp.CallToolResult, outcome, error) {
	if strings.TrimSpace(in.Question) == "" {
		return nil, outcome{}, errors.New("the question is empty")
	}
	if len(in.Question) > workflows.MaxInput {
		return nil, outcome{}, fmt.Errorf("the question has %d bytes, at most %d are accepted", len(in.Question), workflows.MaxInput)
	}
	until, err := waitOf(in.WaitSeconds)
	if err != nil {
		return nil, outcome{}, err
	}
	t, err := s.desk.Team(s.by, cmp.Or(in.Team, activities.DefaultTeam))
	if err != nil {
		return nil, outcome{}, err
	}
	m, dir, asks, err := s.resolveMaterial(ctx, req, in)
	if err != nil || asks != nil {
		return asks, outcome{}, err
	}
	ticket, err := s.desk.Start(ctx, s.by, gateway.Question{Team: t, Input: sessionflow.Input{Query: in.Question, Material: m}})
	if err != nil {
		return nil, outcome{}, err
	}
	s.desk.Remember(ticket.ID, dir)
	report := progressReporter(ctx, req)
	if report != nil { // so that a client that gives up early knows the ID
		report("session_id " + ticket.ID)
	}
	return s.awaitAnswer(ctx, ticket.ID, until, req.Session, report)
}

func (s server) sessionResult(ctx context.Context, req *mcp.CallToolRequest, in fetch) (*mcp.CallToolResult, outcome, error) {
	until, err := waitOf(in.WaitSeconds)
	if err != nil {
		return nil, outcome{}, err
	}
	if _, err := s.desk.Find(ctx, s.by, in.SessionID); err != nil {
		return nil, outcome{}, err
	}
	return s.awaitAnswer(ctx, in.SessionID, until, req.Session, progressReporter(ctx, req))
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

	Questions []coordination.Question `json:"questions,omitempty"` // to people
}

type member struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Running bool   `json:"running"`
	Answer  string `json:"answer,omitempty"` // label of its latest one
	Vote    string `json:"vote,omitempty"`   // label; of a fresh vote
}

func (s server) sessionStatus(ctx context.Context, _ *mcp.CallToolRequest, in handle) (*mcp.CallToolResult, standing, error) {
	state, err := s.desk.State(ctx, s.by, in.SessionID)
	if err != nil {
		return nil, standing{}, err
	}
	out := standing{
		SessionID: in.SessionID, Status: state.Status, Phase: string(state.Phase), Round: state.Round, Parked: state.Parked,
		Agents: []member{}, Tokens: state.Cost.InputTokens + state.Cost.OutputTokens, TotalUSD: state.Cost.TotalUSD,
		WaitsFor: calledTools(state), Questions: state.Questions,
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
	return s.steerSession(ctx, in.SessionID, workflows.SaySignal, workflows.Request{Text: in.Text, Agent: in.Agent})
}

func (s server) decideNow(ctx context.Context, _ *mcp.CallToolRequest, in handle) (*mcp.CallToolResult, done, error) {
	state, err := s.desk.State(ctx, s.by, in.SessionID)
	if err != nil {
		return nil, done{}, err
	}
	answered := slices.ContainsFunc(state.Agents, func(a coordination.AgentView) bool { return a.LatestLabel != "" })
	if state.Status == workflows.Running && !answered {
		return nil, done{}, fmt.Errorf("no agent of session %s has an answer yet, so there is nothing to decide; session_result waits for the decision", in.SessionID)
	}
	return s.steerSession(ctx, in.SessionID, workflows.FinishSignal, nil)
}

func (s server) steerSession(ctx context.Context, id, verb string, payload any) (*mcp.CallToolResult, done, error) {
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

func (s server) sessionDiff(ctx context.Context, _ *mcp.CallToolRequest, in change) (*mcp.CallToolResult, patched, error) {
	a, err := s.desk.Answer(ctx, s.by, in.SessionID, in.Label)
	if err != nil {
		return nil, patched{}, err
	}
	p, stat, err := a.Patch(ctx)
	if err != nil {
		return nil, patched{}, err
	}
	if p == "" {
		return textResult("The answer " + a.Label + " changes no files."), patched{SessionID: a.ID, Label: a.Label}, nil
	}
	return textResult(p), patched{SessionID: a.ID, Label: a.Label, Stat: stat, Patch: p}, nil
}

// How long a call waits for an answer, in seconds. Clients give up after 60 s.
const (
	defaultWait = 45
	maxWait     = 3600
)

// outcome is the result of a session so far.
type outcome struct {
	SessionID string   `json:"session_id"`
	Status    string   `json:"status"`          // running, or how it ended
	Phase     string   `json:"phase,omitempty"` // phase of a session that is not over
	Answer    string   `json:"answer,omitempty"`
	Winner    string   `json:"winner,omitempty"` // label of an answer
	Votes     int      `json:"votes,omitempty"`  // number of votes for the answer
	Tokens    int64    `json:"tokens,omitempty"`
	TotalUSD  *float64 `json:"total_usd,omitempty"`
}

// waitOf returns the end of the wait of a call that starts now.
func waitOf(seconds *int) (time.Time, error) {
	wait := defaultWait
	if seconds != nil {
		wait = *seconds
	}
	if wait < 0 || wait > maxWait {
		return time.Time{}, fmt.Errorf("wait_seconds is %d; give 0 to %d", wait, maxWait)
	}
	return time.Now().Add(time.Duration(wait) * time.Second), nil
}

// awaitAnswer waits for the answer of a session. It reports progress unless report is nil.
// If the answer is late, or a person has to reply whom the client cannot ask, the result has only the session's ID.
func (s server) awaitAnswer(ctx context.Context, id string, until time.Time, client *mcp.ServerSession, report func(string)) (*mcp.CallToolResult, outcome, error) {
	// A call without a wait also returns an answer that already exists.
	const least = 500 * time.Millisecond
	waiting, stop := context.WithTimeout(ctx, max(time.Until(until), least))
	defer stop()
	go s.attendPerson(waiting, id, client, stop)
	reply, err := s.desk.Follow(waiting, id, false, report)
	switch {
	case ctx.Err() != nil:
		return nil, outcome{}, ctx.Err()
	case waiting.Err() != nil:
		result, out := s.lateResult(ctx, id)
		return result, out, nil
	case err != nil:
		return nil, outcome{}, err
	}
	r := reply.Result
	out := outcome{
		SessionID: id, Status: r.Status, Answer: reply.Answer, Winner: r.WinnerLabel, Votes: r.Votes[r.Winner],
		Tokens: reply.Usage.InputTokens + reply.Usage.OutputTokens, TotalUSD: reply.Usage.TotalUSD,
	}
	result := textResult(reply.Answer)
	result.Content = append(result.Content, &mcp.ResourceLink{
		URI: answerURI(id), Name: "answer", Title: fmt.Sprintf("Answer of session %s (%s)", id, r.Status), MIMEType: "text/markdown",
	})
	return result, out, nil
}

// lateResult returns the result of a call that has waited long enough. It gives the reason if the
// session is not at work.
func (s server) lateResult(ctx context.Context, id string) (*mcp.CallToolResult, outcome) {
	const patience = 2 * time.Second // clients allow little more than the wait
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	why, out := "The team is still at work in session "+id, outcome{SessionID: id, Status: workflows.Running}
	if state, err := s.desk.State(ctx, s.by, id); err == nil {
		out.Phase = string(state.Phase)
		switch {
		case state.Phase == coordination.PhaseWaitingForTools:
			why = fmt.Sprintf("Session %s waits for the results of tools (%s) from the program that started it", id, strings.Join(calledTools(state), ", "))
		case state.Phase == coordination.PhaseWaitingForPerson && len(state.Questions) > 0:
			q := state.Questions[0]
			why = fmt.Sprintf("Session %s waits for a person: %s asks: %s %s The person replies on its page or with `conclave inbox`", id, q.Agent, q.Text, q.Arguments)
		case state.Parked != nil:
			why = fmt.Sprintf("Session %s is parked: %s", id, *state.Parked)
		}
	}
	return textResult(why + ". Call session_result with this session_id to wait for the answer; nothing is lost or paid twice."), out
}

// personPoll is the time between two looks for questions to a person.
const personPoll = 2 * time.Second

// attendPerson has the client ask its person the questions of the session when nothing else runs. If the client
// cannot, it ends the wait for the answer.
func (s server) attendPerson(ctx context.Context, id string, client *mcp.ServerSession, stop func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(personPoll):
		}
		state, err := s.desk.State(ctx, s.by, id)
		if err != nil || state.Phase != coordination.PhaseWaitingForPerson || len(state.Questions) == 0 {
			continue
		}
		if client == nil || s.readOnly || s.askClient(ctx, id, client, state.Questions[0]) != nil {
			stop()
			return
		}
	}
}

// askClient asks the client's person a question, and sends the reply.
func (s server) askClient(ctx context.Context, id string, client *mcp.ServerSession, q coordination.Question) error {
	if q.Path != "" { // a person approves only a call that is shown whole
		return errors.New("the question is too long to be shown")
	}
	answer := map[string]any{"type": "string", "title": "Your reply"}
	if len(q.Options) > 0 {
		answer["enum"] = q.Options
	}
	if q.QuestionKind == coordination.AskApproval {
		answer = map[string]any{"type": "boolean", "title": "Allow this call"}
	}
	asked, err := client.Elicit(ctx, &mcp.ElicitParams{
		Message:         text.Terminal(strings.Join([]string{q.Agent + " asks: " + q.Text, q.Why, q.Arguments}, "\n")),
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"reply": answer}, "required": []string{"reply"}},
	})
	switch {
	case err != nil:
		return err
	case asked.Action != "accept":
		return errors.New("the person did not reply")
	}
	reply, verb := workflows.Request{Question: q.QuestionID, By: s.by.Name}, workflows.ReplySignal
	switch said := asked.Content["reply"].(type) {
	case bool:
		reply.Allow, verb = &said, workflows.ApproveSignal
	case string:
		if reply.Option = 1 + slices.Index(q.Options, said); reply.Option == 0 {
			reply.Text = said
		}
	}
	return s.desk.Steer(ctx, s.by, id, verb, reply)
}

func calledTools(state acts.State) []string {
	var names []string
	for _, c := range state.Calls {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

func textResult(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// progressReporter returns the function that reports a session's events, or nil if the client did
// not ask for progress.
func progressReporter(ctx context.Context, req *mcp.CallToolRequest) func(string) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	reported := 0
	return func(line string) {
		reported++
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // the result does not depend on it
			ProgressToken: token, Progress: float64(reported), Message: line,
		})
	}
}

// instructions tell a client's model when to use the tools.
const instructions = `A team of agents answers a question, sees each other's answers, votes and decides. ` +
	`Ask it for what is worth several opinions: designs, reviews, hard bugs. An answer takes minutes: ` +
	`ask_team returns it, or after a while the session_id, with which session_result waits for it again.`

// Options configure a server.
type Options struct {
	Version  string
	ReadOnly bool // no tool starts or steers a session
	Local    bool // the client has this machine's files: its root may be a base
}

// server offers the sessions of a desk to one caller.
type server struct {
	desk     *gateway.Desk
	by       access.Caller
	local    bool
	readOnly bool
}

// schemas are shared by the servers of all requests.
var schemas = mcp.NewSchemaCache()

// New returns a server for a caller.
func New(d *gateway.Desk, by access.Caller, o Options) *mcp.Server {
	s := server{desk: d, by: by, local: o.Local, readOnly: o.ReadOnly}
	out := mcp.NewServer(&mcp.Implementation{Name: "conclave", Title: "Conclave", Version: o.Version}, &mcp.ServerOptions{
		Instructions: instructions, Capabilities: &mcp.ServerCapabilities{}, SchemaCache: schemas,
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" }, // each caller has its own sessions
	})
	s.addTools(out, o.ReadOnly)
	s.addResources(out)
	return out
}

// Handler serves MCP over HTTP to callers admitted by an access.Gate. It keeps no protocol
// sessions, so several processes may serve one address.
func Handler(d *gateway.Desk, o Options) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		return New(d, access.From(r.Context()), o)
	}, &mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true}) // the gate checks the host
}

// Run serves one client over standard input and output until its input ends.
func Run(ctx context.Context, d *gateway.Desk, o Options, transport mcp.Transport) error {
	return New(d, access.Caller{}, o).Run(ctx, transport)
}
