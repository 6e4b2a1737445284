package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/run"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/workflows"
)

// callForm is the form of the call IDs of callers' tools; the group is the session's hash.
var callForm = regexp.MustCompile(`^c([0-9a-f]{16})_l[0-9]+_[0-9]+$`)

// Return passes the results of a caller's tools to the session named by the call IDs. Results
// returned twice have no effect.
func (d *Desk) Return(ctx context.Context, by access.Caller, results []coordination.ToolResult) (session string, err error) {
	err = throughOutage(ctx, startPatience, func(ctx context.Context) error {
		session, err = d.returnOnce(ctx, by, results)
		return err
	})
	return session, err
}

func (d *Desk) returnOnce(ctx context.Context, by access.Caller, results []coordination.ToolResult) (session string, err error) {
	id, err := d.calledSession(ctx, results)
	if err != nil {
		return "", err
	}
	run, err := d.Find(ctx, by, id)
	if err != nil || !run.Running() {
		return id, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var state acts.State
	if err := runs.Query(ctx, d.conn, id, workflows.StateQuery, &state); err != nil {
		return id, unavailableRefusal("read the state of session "+id, err)
	}
	if missing := missingCalls(state.Calls, results); len(missing) > 0 {
		return id, badResults("the results of %s are missing; send the results of all calls together", joinNames(missing))
	}
	err = d.Steer(ctx, by, id, workflows.ToolResultsSignal, workflows.Request{Results: results})
	if refused, ok := errors.AsType[*Refusal](err); ok && refused.Code == "refused" {
		return id, badResults("%s", refused.Message)
	}
	return id, err
}

func badResults(format string, args ...any) error {
	return &Refusal{Status: http.StatusBadRequest, Code: "invalid_tool_results", Param: "messages", Message: fmt.Sprintf(format, args...)}
}

func (d *Desk) calledSession(ctx context.Context, results []coordination.ToolResult) (string, error) {
	hash := ""
	for _, r := range results {
		found := callForm.FindStringSubmatch(r.ID)
		switch {
		case found == nil:
			return "", badResults("the tool_call_id %.80q is not a call of this server; send the id of a tool call in its reply", r.ID)
		case hash != "" && found[1] != hash:
			return "", badResults("the results are of calls of two sessions; send each session its own")
		}
		hash = found[1]
	}
	called, err := artifact.ReadJSON[artifact.CalledSession](ctx, d.conn.Store, artifact.CallPointer(hash))
	if errors.Is(err, artifact.ErrNotFound) {
		return "", badResults("no session has made the call %s", results[0].ID)
	}
	if err != nil {
		return "", unavailableRefusal("look up the session of call "+results[0].ID, err)
	}
	return called.SessionID, nil
}

// missingCalls returns the open calls without a result. If no result belongs to an open
// call, the request is a repeated one and nothing is missing.
func missingCalls(open []coordination.Call, results []coordination.ToolResult) []string {
	var missing []string
	for _, c := range open {
		if !slices.ContainsFunc(results, func(r coordination.ToolResult) bool { return r.ID == c.ID }) {
			missing = append(missing, c.ID)
		}
	}
	if len(missing) == len(open) {
		return nil
	}
	return missing
}

// wholeCalls returns the calls with their full arguments, because the state omits long ones.
func (d *Desk) wholeCalls(ctx context.Context, session string, open []coordination.Call) ([]coordination.Call, error) {
	whole := slices.Clone(open)
	for i, c := range whole {
		if c.ArgumentsPath == "" {
			continue
		}
		a, err := artifact.ReadJSON[artifact.CallArguments](ctx, d.conn.Store, artifact.InBucket(session).CallArguments(c.ID))
		if err != nil {
			return nil, unavailableRefusal("read the arguments of call "+c.ID, err)
		}
		whole[i].Arguments = a.Arguments
	}
	return whole, nil
}

// CheckTools refuses tools that no session would accept, with the names of a request's parameters.
func CheckTools(c artifact.Caller) error {
	param := "tools"
	err := artifact.CheckClientTools(param, c.ClientTools, artifact.MaxConversation)
	if err == nil {
		param = "metadata.client_tools_for"
		err = artifact.CheckClientToolsFor(c.ClientToolsFor)
	}
	if err != nil {
		return &Refusal{Status: http.StatusBadRequest, Code: "invalid_value", Param: param, Message: err.Error()}
	}
	return nil
}
