package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/workflows"
)

// memoOffline marks a session whose models are the built-in deterministic one,
// so that every later look at it can say so.
const memoOffline = "offline"

const (
	// maxSummary is Temporal's limit on a summary, in bytes.
	maxSummary = 400
	// maxMemoQuery is how many characters of the query the memo holds.
	maxMemoQuery = 200
)

// launch starts the session on p.
func (c *cli) launch(ctx context.Context, p *place, id string, s session) error {
	starting, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	memo := map[string]any{
		workflows.MemoSession: id,
		workflows.MemoQuery:   firstRunes(s.input.Query, maxMemoQuery),
		workflows.MemoStatus:  workflows.Running,
	}
	if s.offline {
		memo[memoOffline] = true
	}
	_, err := p.client.ExecuteWorkflow(starting, client.StartWorkflowOptions{
		ID:                                       id,
		TaskQueue:                                p.queue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            progress.Cut(progress.Line(s.input.Query), maxSummary),
		Memo:                                     memo,
	}, workflows.SessionType, s.input)
	var taken *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case errors.As(err, &taken):
		return end(exitUsage, "start session %s: there is one with this ID %s already; choose another --session-id, or follow it with `%s`",
			id, p.where(), c.again("watch", id))
	case err != nil && ctx.Err() != nil:
		return end(exitInterrupted, "interrupted while starting session %s; `%s` says whether it runs", id, c.again("status", id))
	case err != nil:
		return fmt.Errorf("start session %s %s: %w", id, p.where(), err)
	}
	return nil
}

// sessionID is the ID asked for, or a new one: short, sortable and readable.
func sessionID(asked string) (string, error) {
	if asked == "" {
		return newSessionID(time.Now()), nil
	}
	if err := checkSessionID(asked); err != nil {
		return "", fmt.Errorf("use --session-id: %w", err)
	}
	return asked, nil
}

// checkSessionID is artifact.CheckSessionID with a message that repeats little
// of a long ID.
func checkSessionID(id string) error {
	err := artifact.CheckSessionID(id)
	var wrong *artifact.NameError
	if errors.As(err, &wrong) {
		wrong.Name = progress.Cut(wrong.Name, maxEcho)
	}
	return err
}

// newSessionID is the time in UTC and four random characters, 20 bits of them,
// which is enough for sessions started in the same second.
func newSessionID(now time.Time) string {
	return now.UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:4])
}

func firstRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}
