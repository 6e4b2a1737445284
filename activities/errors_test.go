package activities

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/member"
	"conclave/engine/step"
)

// Every error of a step has one class, however deeply it is wrapped.
func TestClassify(t *testing.T) {
	t.Parallel()
	model := func(kind llm.Kind, after time.Duration) error {
		return &llm.Error{Kind: kind, RetryAfter: after, Message: "said the server"}
	}
	for _, tt := range []struct {
		err  error
		want class
	}{
		{model(llm.AuthFailed, 0), class{kind: "AuthFailed", final: true}},
		{model(llm.BadRequest, 0), class{kind: "BadRequest", final: true}},
		{model(llm.ContextTooLong, 0), class{kind: "ContextTooLong", final: true}},
		{model(llm.ContentPolicy, 0), class{kind: "ContentPolicy", final: true}},
		{model(llm.RateLimited, time.Minute), class{kind: "RateLimited", free: true, after: time.Minute}},
		{model(llm.Overloaded, 0), class{kind: "Overloaded"}},
		{model(llm.Network, 0), class{kind: "Network"}},
		{model(llm.BadReply, 0), class{kind: "BadReply"}},
		{&loop.RejectedError{Attempts: 3}, class{kind: NoAction, final: true}},
		{&loop.TimeOverError{Denials: 10}, class{kind: TimeOver, final: true}},
		{&loop.ModelCallsError{Calls: 200}, class{kind: NoAction, final: true}},
		{&artifact.LimitError{What: "files"}, class{kind: WorkspaceInvalid, final: true}},
		{&artifact.NameError{What: "path"}, class{kind: WorkspaceInvalid, final: true}},
		{&MissingKeyError{Agent: "agent_a", Variable: "X_KEY"}, class{kind: MissingKey, free: true, after: keyDelay}},
		{&NoProviderError{Provider: "house"}, class{kind: NoProvider, free: true, after: keyDelay}},
		{&NoServerError{Server: "browser"}, class{kind: NoServer, free: true, after: keyDelay}},
		{&NoSandboxError{Err: errors.New("no user namespaces")}, class{kind: NoSandbox, free: true, after: keyDelay}},
		{&ToolsUnavailableError{Err: errors.New("browser: exit status 1")}, class{kind: ToolsUnavailable}},
		{errStopped, class{kind: WorkerStopped, free: true, after: stopDelay}},
		{errFenced, class{kind: Fenced, free: true}},
		{step.ErrOvertaken, class{kind: Fenced, free: true}},
		{invalid(errors.New("no such agent")), class{kind: ConfigInvalid, final: true}},
		{&noProgressError{attempts: 3}, class{kind: NoProgress, final: true}},
		{fault(errors.New("connection refused")), class{kind: Storage, free: true}},
		{&member.UnwrittenError{Number: 3}, class{kind: Storage, free: true}},
		{fault(artifact.ErrNotFound), class{kind: Internal}},
		{errors.New("a bug of ours"), class{kind: Internal}},
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, classify(tt.err))
			require.Equal(t, tt.want, classify(fmt.Errorf("running the step: %w", tt.err)))

			var carried *temporal.ApplicationError
			require.ErrorAs(t, applicationError(tt.err, tt.want, StepFailure{Step: 7}), &carried)
			require.Equal(t, tt.want.kind, carried.Type())
			require.Equal(t, tt.want.final, carried.NonRetryable())
			require.Equal(t, tt.want.after, carried.NextRetryDelay())
			var detail StepFailure
			require.NoError(t, carried.Details(&detail))
			require.Equal(t, 7, detail.Step)
		})
	}
}
