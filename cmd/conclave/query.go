package main

import (
	"context"
	"errors"
	"strings"

	"go.temporal.io/api/serviceerror"
)

// query asks the session's workflow; a worker answers, also for a closed one.
func query(ctx context.Context, p *place, id, name string, into any) error {
	// Longer than the server waits for the worker that had the workflow in its
	// cache, which may be gone.
	asking, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	value, err := p.client.QueryWorkflow(asking, id, "", name)
	for tries := 1; tries < queryTries && outrun(err); tries++ {
		value, err = p.client.QueryWorkflow(asking, id, "", name)
	}
	if err != nil {
		return err
	}
	return value.Get(into)
}

// queryTries is how often a worker is asked that was outrun.
const queryTries = 5

// outrun reports whether a query failed because the workflow went on while a worker
// that did not have it in its cache replayed it (temporalio/sdk-go issue 755). The
// workflow itself is well.
func outrun(err error) bool {
	var failed *serviceerror.QueryFailed
	return errors.As(err, &failed) && strings.Contains(failed.Message, "TMPRL1100")
}
