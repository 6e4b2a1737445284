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
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
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
	return c.execute(ctx, p, execution{
		kind: sessionflow.Type, id: id, query: s.input.Query, offline: s.offline, input: s.input, flag: "--session-id",
	})
}

// execution is a workflow to start.
type execution struct {
	kind, id string
	query    string // what it is about, for people
	offline  bool
	input    any
	flag     string // that gives it another ID
}

// execute starts a workflow on p.
func (c *cli) execute(ctx context.Context, p *place, e execution) error {
	starting, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	memo := map[string]any{
		memoID(e.kind):   e.id,
		drive.MemoQuery:  firstRunes(e.query, maxMemoQuery),
		drive.MemoStatus: drive.Running,
	}
	if e.offline {
		memo[memoOffline] = true
	}
	_, err := p.client.ExecuteWorkflow(starting, client.StartWorkflowOptions{
		ID:                                       e.id,
		TaskQueue:                                p.queue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            progress.Cut(progress.Line(e.query), maxSummary),
		Memo:                                     memo,
	}, e.kind, e.input)
	noun := known{kind: e.kind}.noun()
	var taken *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case errors.As(err, &taken):
		return end(exitUsage, "start %s %s: there is one with this ID %s already; choose another %s, or follow it with `%s`",
			noun, e.id, p.where(), e.flag, c.again("watch", e.id))
	case err != nil && ctx.Err() != nil:
		return end(exitInterrupted, "interrupted while starting %s %s; `%s` says whether it runs", noun, e.id, c.again("status", e.id))
	case err != nil:
		return fmt.Errorf("start %s %s %s: %w", noun, e.id, p.where(), err)
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
