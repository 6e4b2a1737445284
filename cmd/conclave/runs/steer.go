package runs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

// Request is a person's request to a run, made on its page.
type Request struct {
	Verb  string // the name of the command
	Agent string // the agent that it concerns; empty for all
	Text  string // text of say
}

// update returns the update that the corresponding command sends.
func (r Request) update() (Update, error) {
	switch r.Verb {
	case drive.PauseSignal:
		return Update{
			Name: drive.PauseSignal, Action: "pause", Next: "resume",
			Accepted: "paused, nothing is lost; %s resumes it",
		}, nil
	case drive.ResumeSignal:
		return Update{
			Name: drive.ResumeSignal, Action: "resume", Next: "watch", NeedsSteps: true,
			Accepted: "resumed; %s follows it",
		}, nil
	case drive.FinishSignal:
		return Update{
			Name: drive.FinishSignal, Action: "finish", Next: "result --wait",
			Accepted:   "deciding with the answers so far; %s prints the answer",
			Unanswered: "no agent has an answer yet, so it ends without one; %s prints the result",
		}, nil
	case drive.RetrySignal:
		return Update{
			Name: drive.RetrySignal, Agent: r.Agent, Payload: drive.Request{Agent: r.Agent},
			Action: "retry failed steps of", Next: "watch", NeedsSteps: true,
			Accepted: "retrying; %s follows it",
		}, nil
	case drive.SaySignal:
		return r.say()
	}
	return Update{}, fmt.Errorf("%q is not a request to a run; it is one of say, pause, resume, finish, retry", r.Verb)
}

func (r Request) say() (Update, error) {
	if strings.TrimSpace(r.Text) == "" {
		return Update{}, fmt.Errorf("the message is empty; write one")
	}
	if err := hall.CheckText("TEXT", r.Text, coordination.MaxText, "shorten it, or send several messages"); err != nil {
		return Update{}, err
	}
	who := "agents read it"
	if r.Agent != "" {
		who = r.Agent + " reads it"
	}
	return Update{
		Name: drive.SaySignal, Agent: r.Agent, Payload: drive.Request{Text: r.Text, Agent: r.Agent},
		Action: "say something to", Next: "watch", NeedsSteps: true,
		Accepted: "sent; " + who + " at the next safe point, %s follows it",
	}, nil
}

// Steer sends a request to the run with an ID, like the command of the same name, and returns
// the command's message.
func Steer(ctx context.Context, conn *hall.Connection, kinds []*Kind, id string, r Request) (string, error) {
	var said bytes.Buffer
	conn = printingTo(conn, &said)
	u, err := r.update()
	if err != nil {
		return "", err
	}
	run, err := find(ctx, conn, kinds, id)
	if err != nil {
		return "", err
	}
	err = deliver(ctx, conn, run, u)
	return strings.TrimSpace(said.String()), err
}

// IsOpen reports whether there is an open run of one of the kinds with an ID.
func IsOpen(ctx context.Context, conn *hall.Connection, kinds []*Kind, id string) bool {
	run, err := find(ctx, printingTo(conn, io.Discard), kinds, id)
	return err == nil && run.Running()
}

// printingTo returns a connection that prints to a writer as if to a person.
func printingTo(conn *hall.Connection, w io.Writer) *hall.Connection {
	cli, other := *conn.CLI, *conn
	cli.Stdout, cli.Stderr, cli.JSON, cli.Automation = w, w, false, false
	other.CLI = &cli
	return &other
}

// All returns the runs of a kind with their usage, the newest first.
func All(ctx context.Context, conn *hall.Connection, kind *Kind) ([]Listed, error) {
	found, err := list(ctx, conn, kind, 0)
	if err != nil {
		return nil, fmt.Errorf("list the %ss %s: %w", kind.Noun, conn.Target, err)
	}
	return addUsage(ctx, conn, found), nil
}
