package attempt

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// The class of an error does not depend on its wrapping.
func TestClassify(t *testing.T) {
	t.Parallel()
	model := func(kind llm.Kind, after time.Duration) error {
		return &llm.Error{Kind: kind, RetryAfter: after, Message: "said the server"}
	}
	lack := func(kind string) error { return &activities.LackError{Type: kind, Err: errors.New(kind)} }
	for _, tt := range []struct {
		err  error
		want step.Class
	}{
		{model(llm.AuthFailed, 0), step.Class{Type: "AuthFailed", Final: true}},
		{model(llm.BadRequest, 0), step.Class{Type: "BadRequest", Final: true}},
		{model(llm.ContextTooLong, 0), step.Class{Type: "ContextTooLong", Final: true}},
		{model(llm.ContentPolicy, 0), step.Class{Type: "ContentPolicy", Final: true}},
		{model(llm.RateLimited, time.Minute), step.Class{Type: "RateLimited", Free: true, After: time.Minute}},
		{model(llm.Overloaded, 0), step.Class{Type: "Overloaded"}},
		{model(llm.Network, 0), step.Class{Type: "Network"}},
		{model(llm.BadReply, 0), step.Class{Type: "BadReply"}},
		{&loop.NoActionError{Attempts: 3}, step.Class{Type: "NoAction", Final: true}},
		{&loop.TimeOverError{Denials: 10}, step.Class{Type: step.TimeOver, Final: true}},
		{&loop.NoActionError{Calls: 200}, step.Class{Type: "NoAction", Final: true}},
		{&artifact.LimitError{What: "files"}, step.Class{Type: "WorkspaceInvalid", Final: true}},
		{&artifact.NameError{What: "path"}, step.Class{Type: "WorkspaceInvalid", Final: true}},
		{lack(activities.MissingKey), step.Class{Type: "MissingKey", Free: true, After: activities.LackDelay}},
		{lack(activities.NoProvider), step.Class{Type: "NoProvider", Free: true, After: activities.LackDelay}},
		{lack(activities.NoServer), step.Class{Type: "NoServer", Free: true, After: activities.LackDelay}},
		{lack(activities.NoSandbox), step.Class{Type: "NoSandbox", Free: true, After: activities.LackDelay}},
		{lack(activities.ToolsUnavailable), step.Class{Type: "ToolsUnavailable"}},
		{errStopped, step.Class{Type: "WorkerStopped", Free: true, After: stopDelay}},
		{errFenced, step.Class{Type: step.Fenced, Free: true, After: fenceDelay}},
		{activities.Invalid(errors.New("no such agent")), step.Class{Type: activities.ConfigInvalid, Final: true}},
		{&noProgressError{attempts: 3}, step.Class{Type: "NoProgress", Final: true}},
		{artifact.StoreFault("get k", errors.New("connection refused")), step.Class{Type: step.Storage, Free: true}},
		{&step.UnwrittenError{Number: 3}, step.Class{Type: step.Storage, Free: true}},
		{artifact.StoreFault("get k", artifact.ErrNotFound), step.Class{Type: activities.Internal}},
		{errors.New("a bug of ours"), step.Class{Type: activities.Internal}},
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, classOf(tt.err))
			require.Equal(t, tt.want, classOf(fmt.Errorf("running the step: %w", tt.err)))

			var carried *temporal.ApplicationError
			require.ErrorAs(t, applicationError(tt.err, tt.want, Failure{Step: 7}), &carried)
			require.Equal(t, tt.want.Type, carried.Type())
			require.Equal(t, tt.want.Final, carried.NonRetryable())
			require.GreaterOrEqual(t, carried.NextRetryDelay(), tt.want.After)
			require.LessOrEqual(t, carried.NextRetryDelay(), tt.want.After+min(tt.want.After, maxSpread), "spread")
			var detail Failure
			require.NoError(t, carried.Details(&detail))
			require.Equal(t, 7, detail.Step)
		})
	}
}
