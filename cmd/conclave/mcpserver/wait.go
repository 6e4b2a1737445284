package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

// How long a call waits for an answer, in seconds. Clients give up after 60 s.
const (
	defaultWait = 45
	maxWait     = 3600
)

// outcome is the result of a session so far.
type outcome struct {
	SessionID string   `json:"session_id"`
	Status    string   `json:"status"`          // running, or how it ended
	Phase     string   `json:"phase,omitempty"` // phase of a session that is not over
	Answer    string   `json:"answer,omitempty"`
	Winner    string   `json:"winner,omitempty"` // label of an answer
	Votes     int      `json:"votes,omitempty"`  // number of votes for the answer
	Tokens    int64    `json:"tokens,omitempty"`
	TotalUSD  *float64 `json:"total_usd,omitempty"`
}

// waitOf returns the end of the wait of a call that starts now.
func waitOf(seconds *int) (time.Time, error) {
	wait := defaultWait
	if seconds != nil {
		wait = *seconds
	}
	if wait < 0 || wait > maxWait {
		return time.Time{}, fmt.Errorf("wait_seconds is %d; give 0 to %d", wait, maxWait)
	}
	return time.Now().Add(time.Duration(wait) * time.Second), nil
}

// await waits for the answer of a session. It reports progress unless report is nil.
// If the answer is late, the result has only the session's ID.
func (s server) await(ctx context.Context, id string, until time.Time, report func(string)) (*mcp.CallToolResult, outcome, error) {
	// A call without a wait also returns an answer that already exists.
	const least = 500 * time.Millisecond
	waiting, stop := context.WithTimeout(ctx, max(time.Until(until), least))
	defer stop()
	reply, err := s.desk.Follow(waiting, id, false, report)
	switch {
	case ctx.Err() != nil:
		return nil, outcome{}, ctx.Err()
	case waiting.Err() != nil:
		result, out := s.late(ctx, id)
		return result, out, nil
	case err != nil:
		return nil, outcome{}, err
	}
	r := reply.Result
	out := outcome{
		SessionID: id, Status: r.Status, Answer: reply.Answer, Winner: r.WinnerLabel, Votes: r.Votes[r.Winner],
		Tokens: reply.Usage.InputTokens + reply.Usage.OutputTokens, TotalUSD: reply.Usage.TotalUSD,
	}
	result := text(reply.Answer)
	result.Content = append(result.Content, &mcp.ResourceLink{
		URI: answerURI(id), Name: "answer", Title: fmt.Sprintf("Answer of session %s (%s)", id, r.Status), MIMEType: "text/markdown",
	})
	return result, out, nil
}

// late returns the result of a call that has waited long enough. It gives the reason if the
// session is not at work.
func (s server) late(ctx context.Context, id string) (*mcp.CallToolResult, outcome) {
	const patience = 2 * time.Second // clients allow little more than the wait
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	why, out := "The team is still at work in session "+id, outcome{SessionID: id, Status: drive.Running}
	if state, err := s.desk.State(ctx, s.by, id); err == nil {
		out.Phase = string(state.Phase)
		switch {
		case state.Phase == coordination.PhaseWaitingForTools:
			why = fmt.Sprintf("Session %s waits for the results of tools (%s) from the program that started it", id, strings.Join(called(state), ", "))
		case state.Parked != nil:
			why = fmt.Sprintf("Session %s is parked: %s", id, *state.Parked)
		}
	}
	return text(why + ". Call session_result with this session_id to wait for the answer; nothing is lost or paid twice."), out
}

// called returns the names of the caller's tools whose results the session waits for.
func called(state acts.State) []string {
	var names []string
	for _, c := range state.Calls {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// progress returns the function that reports a session's events, or nil if the client did
// not ask for progress.
func progress(ctx context.Context, req *mcp.CallToolRequest) func(string) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	reported := 0
	return func(line string) {
		reported++
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // the result does not depend on it
			ProgressToken: token, Progress: float64(reported), Message: line,
		})
	}
}
