package runs

import (
	"context"
	"errors"
	"strings"

	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/hall"
)

// queryTries bounds how often a query is repeated that lost a race with its workflow.
const queryTries = 5

// Query queries a workflow, open or closed; a worker answers. It waits longer than
// the server waits for the worker that had the workflow in its cache.
func Query(ctx context.Context, conn *hall.Connection, workflow, name string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, UpdateTimeout)
	defer cancel()
	value, err := conn.Client.QueryWorkflow(ctx, workflow, "", name)
	for tries := 1; tries < queryTries && lostRace(err); tries++ {
		value, err = conn.Client.QueryWorkflow(ctx, workflow, "", name)
	}
	if err != nil {
		return err
	}
	return value.Get(into)
}

// lostRace reports whether a query failed because the workflow progressed while a
// worker replayed it (temporalio/sdk-go issue 755). The SDK has no error type for it,
// only this code in the text.
func lostRace(err error) bool {
	failed, ok := errors.AsType[*serviceerror.QueryFailed](err)
	return ok && strings.Contains(failed.Message, "TMPRL1100")
}
