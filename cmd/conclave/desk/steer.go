package desk

import (
	"context"
	"errors"
	"net/http"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/answer"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/workflows/drive"
)

// patience is the time limit of updates and queries that a caller waits for.
const patience = 2 * hall.ReachTimeout

// State returns the state of a caller's session, from its worker or else from the record.
func (d *Desk) State(ctx context.Context, by access.Caller, id string) (state acts.State, err error) {
	run, err := d.Find(ctx, by, id)
	if err != nil {
		return state, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if runs.Query(ctx, d.conn, id, drive.StateQuery, &state) != nil {
		if state, err = artifact.ReadJSON[acts.State](ctx, d.conn.Store, artifact.InBucket(id).File("status.json")); err != nil {
			return state, unavailable("read the state of session "+id, err)
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
	if refused, ok := errors.AsType[*temporal.ApplicationError](err); ok && refused.Type() != drive.TooEarly {
		return &Refusal{Status: http.StatusConflict, Code: "refused", Message: verb + ": " + refused.Message()}
	}
	return unavailable(verb+" in session "+id, err)
}

// Answer returns an answer of a caller's session, or the decision for an empty label.
func (d *Desk) Answer(ctx context.Context, by access.Caller, id, label string) (answer.Answer, error) {
	if _, err := d.Find(ctx, by, id); err != nil {
		return answer.Answer{}, err
	}
	a, err := answer.Open(ctx, d.conn, id, label)
	if unknown, ok := errors.AsType[*answer.UnknownError](err); ok {
		return a, &Refusal{Status: http.StatusNotFound, Code: "answer_not_found", Param: "label", Message: unknown.Error()}
	}
	return a, err
}
