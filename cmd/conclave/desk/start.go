package desk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"

	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/engine/text"
	"conclave/workflows/drive"
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

// maxMemoQuery is the maximum length of the query in the memo, in characters.
const maxMemoQuery = 200

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

func started() time.Time { return time.Now() }

func list(names []string) string {
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
		t.ID = hall.NewRunID(time.Now())
	}
	if q.ID == "" && q.Hash != "" {
		t.Close = d.pending(ctx, by, q.Hash, t.ID)
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
		if joined, err := d.join(ctx, by, q); joined || err != nil {
			return err
		}
	}
	if err := d.withinBudget(ctx, by, q.ID); err != nil {
		return err
	}
	err := d.start(ctx, by, q)
	if _, taken := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); taken {
		_, err = d.join(ctx, by, q)
		return err
	}
	if err != nil {
		return unavailable("start the session", err)
	}
	return nil
}

func (d *Desk) start(ctx context.Context, by access.Caller, q Question) error {
	starting, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	q.Input.Team, q.Input.Config = q.Team.registered, q.Team.config
	memo := map[string]any{
		kind.MemoID: q.ID, drive.MemoQuery: text.HeadRunes(q.Input.Query, maxMemoQuery),
		drive.MemoCaller: by.Name, drive.MemoRequest: q.Hash, drive.MemoTeam: q.Team.Name,
	}
	options := runs.Options(d.conn, q.ID, q.Input.Query, memo, q.Team.Offline)
	options.Priority = drive.Priority(q.Team.Name)
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	_, err := d.conn.Client.ExecuteWorkflow(starting, options, kind.Type, q.Input)
	return err
}

// join reports whether the session of a question exists. It fails if that session
// belongs to another caller or another request.
func (d *Desk) join(ctx context.Context, by access.Caller, q Question) (bool, error) {
	info, err := d.describe(ctx, q.ID)
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return false, nil
	}
	if err != nil {
		return false, unavailable("look up the session "+q.ID, err)
	}
	conflict := func(why string) error {
		return &Refusal{Status: http.StatusConflict, Code: "idempotency_conflict", Message: fmt.Sprintf("session %s %s; choose another key or session_id", q.ID, why)}
	}
	switch {
	case info.GetType().GetName() != kind.Type, runs.Memo(info.GetMemo(), drive.MemoCaller, "") != by.Name:
		return false, conflict("belongs to somebody else")
	case runs.Memo(info.GetMemo(), drive.MemoRequest, "") != q.Hash:
		return false, conflict("was started by a request with another body")
	}
	return true, nil
}

func (d *Desk) describe(ctx context.Context, id string) (*workflowpb.WorkflowExecutionInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	reply, err := d.conn.Client.DescribeWorkflowExecution(ctx, id, "")
	return reply.GetWorkflowExecutionInfo(), err
}

// Find returns an error if a session does not exist or belongs to another caller.
func (d *Desk) Find(ctx context.Context, by access.Caller, id string) (runs.Run, error) {
	unknown := &Refusal{
		Status: http.StatusNotFound, Code: "session_not_found",
		Message: fmt.Sprintf("there is no session %.80q of yours; use the session_id of an earlier reply", id),
	}
	if hall.CheckRunID(id) != nil {
		return runs.Run{}, unknown
	}
	info, err := d.describe(ctx, id)
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return runs.Run{}, unknown
	}
	if err != nil {
		return runs.Run{}, unavailable("look up the session "+id, err)
	}
	if info.GetType().GetName() != kind.Type || by.Name != "" && runs.Memo(info.GetMemo(), drive.MemoCaller, "") != by.Name {
		return runs.Run{}, unknown
	}
	return runOf(info), nil
}

// runOf converts a workflow execution to a run of package runs.
func runOf(info *workflowpb.WorkflowExecutionInfo) runs.Run {
	id := info.GetExecution().GetWorkflowId()
	run := runs.Run{Kind: kind, ID: id, Workflow: id, Status: runs.StatusOf(kind.Failed, info.GetStatus(), info.GetMemo())}
	if info.GetCloseTime() != nil {
		run.Closed = info.GetCloseTime().AsTime()
	}
	return run
}

// unavailable returns the refusal of a request that failed because Temporal or the store is
// unavailable.
func unavailable(action string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &Refusal{Status: http.StatusServiceUnavailable, Code: "unavailable", Message: fmt.Sprintf("%s: %v; send the request again", action, err), cause: err}
}
