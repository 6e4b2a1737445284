package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	acts "conclave/activities/session"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/outputs"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/text"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// Question is a request for an answer.
type Question struct {
	ID    string // ID of the session; empty for a new one
	Hash  string // hash of the request, equal for a repeated one
	Retry bool   // the client sends it again, without an ID
	Team  Team
	Input sessionflow.Input
}

// SessionOf returns the ID of the session that a caller names by a key. Different
// callers never share a session.
func SessionOf(by access.Caller, key string) string {
	const length = 24
	return "key-" + Hash([]byte(by.Name), []byte(key))[:length]
}

// Hash returns the SHA-256 hash of all parts, in hex.
func Hash(parts ...[]byte) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func joinNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Ticket is a question whose session has started. Close reports whether its caller
// received the reply.
type Ticket struct {
	ID    string // ID of the session
	Close func(received bool)
}

// Start starts the session of a question, or finds the one that an equal request started.
// The session continues when ctx ends.
func (d *Desk) Start(ctx context.Context, by access.Caller, q Question) (Ticket, error) {
	t := Ticket{ID: q.ID, Close: func(bool) {}}
	named := q.ID != ""
	if !named && q.Retry {
		t.ID = d.brokenOff(ctx, by, q.Hash)
		named = t.ID != ""
	}
	if !named {
		t.ID = cli.NewRunID(time.Now())
	}
	if q.ID == "" && q.Hash != "" {
		t.Close = d.recordPending(ctx, by, q.Hash, t.ID)
	}
	q.ID = t.ID
	err := throughOutage(context.WithoutCancel(ctx), startPatience, func(ctx context.Context) error {
		err := d.startOrJoin(ctx, by, q, named)
		named = true // it may have started although Temporal did not say so
		return err
	})
	if err != nil {
		t.Close(true) // the refusal is the reply
	}
	return t, err
}

func (d *Desk) startOrJoin(ctx context.Context, by access.Caller, q Question, named bool) error {
	if named && by.USDPerDay > 0 { // joining one costs nothing
		if joined, err := d.joinSession(ctx, by, q); joined || err != nil {
			return err
		}
	}
	if err := d.chargeSession(ctx, by, q.ID, ""); err != nil {
		return err
	}
	err := d.startSession(ctx, by, q)
	if runs.IsTaken(err) {
		_, err = d.joinSession(ctx, by, q)
		return err
	}
	if err != nil {
		return unavailableRefusal("start the session", err)
	}
	return nil
}

func (d *Desk) startSession(ctx context.Context, by access.Caller, q Question) error {
	q.Input.Team, q.Input.Config = q.Team.registered, q.Team.config
	if err := d.storeConversation(ctx, &q); err != nil {
		return err
	}
	return runs.Execute(ctx, d.conn, runs.Order{
		Kind: kind, ID: q.ID, Query: q.Input.Query, Continues: q.Input.Continues, Input: q.Input, Offline: q.Team.Offline, Team: q.Team.Name,
		Memo: map[string]any{workflows.MemoCaller: by.Name, workflows.MemoRequest: q.Hash},
	})
}

// storeConversation stores the texts of a long question, so that the workflow's history does not grow by
// them.
func (d *Desk) storeConversation(ctx context.Context, q *Question) error {
	const shown = 4 << 10 // bytes of the query that the workflow has
	in := &q.Input
	c := artifact.Conversation{Query: in.Query, History: in.History, Instructions: in.Instructions, ClientTools: in.ClientTools}
	if c.Size() <= workflows.MaxInput {
		return nil
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	in.Conversation = artifact.SumOf(data)
	in.Query, in.History, in.Instructions, in.ClientTools = text.Truncate(c.Query, shown), nil, "", nil
	return d.conn.Store.Put(ctx, artifact.InBucket(q.ID).Conversation(in.Conversation), bytes.NewReader(data))
}

// joinSession reports whether the session of a question exists. It fails if that session
// belongs to another caller or another request.
func (d *Desk) joinSession(ctx context.Context, by access.Caller, q Question) (bool, error) {
	run, err := d.describeSession(ctx, q.ID)
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return false, nil
	}
	conflict := func(why string) error {
		return &Refusal{Status: http.StatusConflict, Code: "idempotency_conflict", Message: fmt.Sprintf("session %s %s; choose another key or session_id", q.ID, why)}
	}
	switch {
	case isForeign(err), err == nil && runs.Memo(run.Memo, workflows.MemoCaller, "") != by.Name:
		return false, conflict("belongs to somebody else")
	case err != nil:
		return false, unavailableRefusal("look up the session "+q.ID, err)
	case runs.Memo(run.Memo, workflows.MemoRequest, "") != q.Hash:
		return false, conflict("was started by a request with another body")
	}
	return true, nil
}

func (d *Desk) describeSession(ctx context.Context, id string) (runs.Run, error) {
	return runs.Describe(ctx, d.conn, runs.Order{Kind: kind, ID: id}.Run())
}

func isForeign(err error) bool {
	_, foreign := errors.AsType[*cli.ExitError](err)
	return foreign
}

// Find returns an error if a session does not exist or belongs to another caller.
func (d *Desk) Find(ctx context.Context, by access.Caller, id string) (runs.Run, error) {
	unknown := &Refusal{
		Status: http.StatusNotFound, Code: "session_not_found",
		Message: fmt.Sprintf("there is no session %.80q of yours; use the session_id of an earlier reply", id),
	}
	if cli.CheckRunID(id) != nil {
		return runs.Run{}, unknown
	}
	run, err := d.describeSession(ctx, id)
	_, missing := errors.AsType[*serviceerror.NotFound](err)
	switch {
	case missing, isForeign(err), err == nil && by.Name != "" && runs.Memo(run.Memo, workflows.MemoCaller, "") != by.Name:
		return runs.Run{}, unknown
	case err != nil:
		return runs.Run{}, unavailableRefusal("look up the session "+id, err)
	}
	return run, nil
}

// unavailableRefusal returns the refusal of a request that failed because Temporal or the store is
// unavailable.
func unavailableRefusal(action string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &Refusal{Status: http.StatusServiceUnavailable, Code: "unavailable", Message: fmt.Sprintf("%s: %v; send the request again", action, err), cause: err}
}

// Team is a team that callers can ask.
type Team struct {
	Name    string
	Offline bool // the built-in model plays an agent of it
	Aside   bool // it is for what clients ask beside a conversation, such as titles

	registered string          // the name that workers resolve; empty for their default
	config     json.RawMessage // the team itself, for the workers of a cluster
}

// NewTeam returns a team that callers can ask by name. The workers of a local stack find its
// definition in the data directory. On a cluster each session carries it.
func NewTeam(conn *cli.Connection, name string, of config.Team) (t Team, err error) {
	t.Name = name
	t.Offline = of.OfflineKind() != ""
	if conn.Cluster {
		t.config, err = of.Canonical()
	} else {
		t.registered, err = teams.Registry(conn.Target).Register(of)
	}
	if err != nil {
		return t, fmt.Errorf("offer the team %s: %w", name, err)
	}
	return t, nil
}

// WorkersTeam returns a team that the workers of a cluster have under its name.
func WorkersTeam(name string) Team {
	if name == activities.DefaultTeam {
		return Team{Name: name}
	}
	return Team{Name: name, registered: name}
}

// Desk starts, joins and follows the sessions of callers. It is safe for concurrent use.
type Desk struct {
	conn   *cli.Connection
	teams  []Team
	server server
	bills  bills

	watches watches
}

// server identifies a process among those that serve the same address.
type server struct {
	Address string `json:"address"` // host name and address
	Process string `json:"process"` // unique ID of this process
}

// New returns a desk for a server that listens on an address. The first team is the default.
func New(conn *cli.Connection, teams []Team, listen string) *Desk {
	host, _ := os.Hostname() // without a name the address suffices
	return &Desk{conn: conn, teams: teams, server: server{Address: host + " " + listen, Process: cli.NewRunID(time.Now())}, bills: bills{&sync.Mutex{}, map[string]llm.Usage{}}, watches: watches{of: map[string]*watch{}}}
}

// Single is the name of the first agent of the default team alone. Who may ask that team may ask
// its agent.
const Single = "single"

// Teams returns the teams that a caller may ask.
func (d *Desk) Teams(by access.Caller) []Team {
	return slices.DeleteFunc(slices.Clone(d.teams), func(t Team) bool {
		return !by.MayAsk(t.Name) && !(t.Name == Single && by.MayAsk(activities.DefaultTeam))
	})
}

// Team returns the team with a name that a caller may ask.
func (d *Desk) Team(by access.Caller, name string) (Team, error) {
	var names []string
	for _, t := range d.Teams(by) {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return Team{}, &Refusal{Status: http.StatusNotFound, Code: "model_not_found", Message: fmt.Sprintf("there is no team %.80q for you; you may ask: %s", name, joinNames(names))}
}

// Refusal is the reason why a request has no answer.
type Refusal struct {
	Status  int    // HTTP status
	Code    string // code for programs, which stays the same
	Param   string // the part of the request that is wrong; may be empty
	Message string

	cause error // error of a service that is away; may be nil
}

func (r *Refusal) Error() string { return r.Message }

func (r *Refusal) Unwrap() error { return r.cause }

// kind describes sessions to package runs.
var kind = &runs.Kind{Kind: record.Sessions, List: "list", MemoID: sessionflow.MemoSession}

// patience is the time limit of updates and queries that a caller waits for.
const patience = 2 * cli.ReachTimeout

// State returns the state of a caller's session, from its worker or else from the record.
func (d *Desk) State(ctx context.Context, by access.Caller, id string) (state acts.State, err error) {
	run, err := d.Find(ctx, by, id)
	if err != nil {
		return state, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if runs.Query(ctx, d.conn, id, workflows.StateQuery, &state) != nil {
		if state, err = artifact.ReadJSON[acts.State](ctx, d.conn.Store, artifact.InBucket(id).File("status.json")); err != nil {
			return state, unavailableRefusal("read the state of session "+id, err)
		}
	}
	if !run.Running() {
		state.Status = run.Status
	}
	return state, nil
}

// Steer sends an update to a caller's session.
func (d *Desk) Steer(ctx context.Context, by access.Caller, id, verb string, payload any) error {
	run, err := d.Find(ctx, by, id)
	if err != nil {
		return err
	}
	over := &Refusal{Status: http.StatusConflict, Code: "session_over", Message: "session " + id + " has ended (" + run.Status + ")"}
	if !run.Running() {
		return over
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = runs.Send(ctx, d.conn, id, verb, payload, nil)
	if err == nil {
		return nil
	}
	if _, ended := errors.AsType[*serviceerror.NotFound](err); ended {
		return over
	}
	if refused, ok := errors.AsType[*temporal.ApplicationError](err); ok && refused.Type() != workflows.TooEarly {
		return &Refusal{Status: http.StatusConflict, Code: "refused", Message: verb + ": " + refused.Message()}
	}
	return unavailableRefusal(verb+" in session "+id, err)
}

// Answer returns an answer of a caller's session, or the decision for an empty label.
func (d *Desk) Answer(ctx context.Context, by access.Caller, id, label string) (*outputs.Answer, error) {
	if _, err := d.Find(ctx, by, id); err != nil {
		return nil, err
	}
	a, err := outputs.Open(ctx, d.conn, id, label)
	if unknown, ok := errors.AsType[*outputs.UnknownError](err); ok {
		return a, &Refusal{Status: http.StatusNotFound, Code: "answer_not_found", Param: "label", Message: unknown.Error()}
	}
	return a, err
}
