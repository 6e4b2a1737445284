package step

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Ports are what a step needs of the world.
type Ports struct {
	Store artifact.Store
	Model loop.Model

	// Tools opens the ordinary tools on a workspace.
	Tools func(workspace string) (Tools, error)

	// Now is the clock of documents; nothing is decided by it.
	Now func() time.Time

	// Scratch is where the workspace lies while the step runs; the system's
	// temporary directory if empty.
	Scratch string

	// Journal keeps the step's entries where its next attempt finds them; nil
	// keeps them no longer than the attempt, and the next one begins anew.
	Journal Journal

	// Progress is told after every journal entry; nil for nobody.
	Progress func(Progress)

	// Alive is asked before every model call, tool run and journal entry, and
	// before the commit; its error ends the attempt. nil is always alive.
	Alive func() error
}

// Tools are ordinary tools that hold their workspace open.
type Tools interface {
	loop.Tools
	io.Closer
}

// Journal outlives an attempt.
type Journal interface {
	// Append makes an entry durable, also before the attempt goes on.
	loop.Journal
	// Entries are those of earlier attempts, in order.
	Entries(ctx context.Context) ([]loop.Entry, error)
}

// Progress is how far a running step has come.
type Progress struct {
	Step  int            `json:"step"`
	Last  loop.EntryKind `json:"last"` // what was journaled last
	Usage llm.Usage      `json:"usage"`
}

// Spec is one step.
type Spec struct {
	Layout artifact.Layout

	// Token is the execution token: unique to this launch, the same for all of
	// its attempts.
	Token string

	// Dir is the key prefix, ending in "/", of the step with the given number.
	Dir func(number int) string

	// After is the number above which the first free one is claimed.
	After int

	// Seen and Labels say what is shown to the step at its start.
	Seen   map[string]int
	Labels []string

	// Peers are the workspaces mounted read-only at peers/agent<N>/.
	Peers []Peer

	// Spent is what earlier attempts of this step used.
	Spent llm.Usage

	// Open makes the rules and the first messages. It is given the ordinary
	// tools that will be offered beside the rules' own.
	Open func(ordinary []llm.Tool) (loop.Rules, []llm.Message, error)

	// Seal makes of an accepted action what is committed.
	Seal func(loop.Action) (Sealed, error)

	// Project lists the documents to be made of a commit.
	Project func(number int, c artifact.Commit) ([]Document, error)

	// Abandoned lists the documents that tell of a step given up.
	Abandoned func(r Result, cause artifact.Error, at time.Time) []Document
}

// Peer is an answer's workspace.
type Peer struct {
	Number   int    // anonymous number
	Manifest string // hash
}

// Sealed is the committed form of an action.
type Sealed struct {
	Payload json.RawMessage

	// Workspace says that the step's files belong to the action.
	Workspace bool
}

// Document is a file to be written beside a step.
type Document struct {
	Key  string
	Body any

	// Replace marks the few files that are not written once.
	Replace bool

	// Newer reports of the file that Replace would replace whether it tells of
	// something later, and so stays; nil for never.
	Newer func(existing []byte) bool
}

// Result is how a step ended. With an error, it tells what is known: the
// number if one was claimed, the usage, the transcript.
type Result struct {
	Step   int
	Commit artifact.Commit
	Usage  llm.Usage

	// Files is how many files the committed workspace has.
	Files int

	// Warnings tell of files that were left out of the workspace.
	Warnings []string

	// Transcript is set when the step ended without a commit.
	Transcript []byte
}
