package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// clientPrefix is the prefix with which the names of the caller's tools are offered to agents.
const clientPrefix = "client__"

// maxInline bounds the arguments of a call in the session's state, in bytes. Longer arguments are
// in the store.
const maxInline = 4 << 10

// callerTools returns the tools of the session's caller that are offered to the step.
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
			return readResult(ctx, store, layout, id, in.Launch.Answered && !strings.Contains(id, own))
		},
	}
	for _, t := range tools {
		out.Tools = append(out.Tools, llm.Tool{Name: clientPrefix + t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return out, nil
}

// Limits of the wait for a result that is being recorded.
const (
	resultPatience = 10 * time.Second
	resultPoll     = 100 * time.Millisecond
)

// readResult reads the result of a call. If the result was announced, readResult waits for it.
func readResult(ctx context.Context, store artifact.Store, layout artifact.Layout, id string, announced bool) (content string, ok bool, err error) {
	for deadline := time.Now().Add(resultPatience); ; {
		r, err := artifact.ReadJSON[artifact.CallResult](ctx, store, layout.CallResult(id))
		switch {
		case err == nil:
			return r.Content, true, nil
		case !errors.Is(err, artifact.ErrNotFound):
			return "", false, err
		case !announced:
			return "", false, nil
		case time.Now().After(deadline):
			return "", false, &step.UnwrittenError{Call: id}
		}
		select {
		case <-ctx.Done():
			return "", false, context.Cause(ctx)
		case <-time.After(resultPoll):
		}
	}
}

// callsOf converts calls for the session's state, and stores long arguments.
func callsOf(ctx context.Context, store artifact.Store, session string, awaited []loop.AwaitedCall) ([]coordination.Call, error) {
	layout := artifact.InBucket(session)
	var calls []coordination.Call
	for _, a := range awaited {
		c := coordination.Call{ID: a.ID, Name: strings.TrimPrefix(a.Name, clientPrefix), Arguments: a.Arguments, Digest: callDigest(a)}
		if len(a.Arguments) > maxInline {
			key := layout.CallArguments(a.ID)
			if err := activities.CreateOnce(ctx, store, key, artifact.CallArguments{Arguments: a.Arguments}); err != nil {
				return nil, err
			}
			c.Arguments, c.ArgumentsPath = "", store.URL(key)
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// callDigest returns a digest of a call's tool and arguments, which does not depend on the order of
// their keys.
func callDigest(c loop.AwaitedCall) string {
	canonical := []byte(c.Arguments)
	var value any
	if json.Unmarshal(canonical, &value) == nil {
		if data, err := json.Marshal(value); err == nil {
			canonical = data
		}
	}
	return artifact.SessionHash(c.Name + "\x00" + string(canonical))
}

// writeResults stores the caller's results that are not yet stored.
func (a *Activities) writeResults(ctx context.Context, layout artifact.Layout, results []coordination.ToolResult) error {
	for _, r := range results {
		if err := activities.CreateOnce(ctx, a.Store, layout.CallResult(r.ID), artifact.CallResult{Content: r.Content}); err != nil {
			return err
		}
	}
	return nil
}
