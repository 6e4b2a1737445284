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

	// Window is the context window of Model in tokens, the reply included; 0 if it
	// is not known.
	Window int

	// Tools opens the ordinary tools on a workspace. They are closed before the
	// workspace is removed.
	Tools func(ctx context.Context, workspace string) (Tools, error)

	// Now is the clock of documents and of the loop's measurements.
	Now func() time.Time

	// Scratch is where the workspace lies while the step runs; the system's
	// temporary directory if empty.
	Scratch string

	// Repeatable reports whether a call of a tool that may have run already can be
	// run again without harm, the workspace being what it was before. Of a call of
	// another tool the model is told that its outcome is not known. nil stands for
	// tools that touch nothing but the workspace: all of them are.
	Repeatable func(tool string) bool

	// Redact takes secrets out of text: of what tools say, of the journal and the
	// transcript, of the committed payload, and of why a step was given up; nil for
	// none. It gets texts as they are, not as JSON quotes them. The files of the workspace are left as they are: they are the
	// agent's work, and a file with something cut out would be another one.
	Redact func([]byte) []byte

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

// Progress is how far a running step has come.
type Progress struct {
	Step  int            `json:"step"`
	Last  loop.EntryKind `json:"last"` // what was journaled last
	Usage llm.Usage      `json:"usage"`
	Kept  int            `json:"kept"` // objects of the journal
}

// Spec is one step.
type Spec struct {
	Layout artifact.Layout

	// Token is the execution token: unique to this launch, the same for all of
	// its attempts.
	Token string

	// Dir is the key prefix, ending in "/", of the step with the given number.
	Dir func(number int) string

	// Attempt counts the executions of this launch: of two that are at work the
	// one with the higher number goes on.
	Attempt int

	// ResumeFrom is the token of a step that this one goes on with; empty for none.
	ResumeFrom string

	// After is the number above which the first free one is claimed.
	After int

	// Seen and Labels say what is shown to the step at its start.
	Seen   map[string]int
	Labels []string

	// Agents are those that the numbers in labels stand for, from 1; nil where
	// there are none.
	Agents []string

	// Take makes sure that a number is free before it is claimed; false if somebody
	// has it. It is for stores to which others write steps without a claim; nil where
	// nobody does.
	Take func(ctx context.Context, number int) (bool, error)

	// Peers are mounted read-only at the start: the workspaces at peers/agent<N>/,
	// the texts at peers/agent<N>.md.
	Peers []Peer

	// Files is the hash of the manifest of the files that the workspace begins
	// with. They are the step's own from then on. Empty for an empty workspace.
	Files string

	// Spent is what earlier attempts of this step used.
	Spent llm.Usage

	// Open makes the rules and the first messages. It is given the ordinary
	// tools that will be offered beside the rules' own, and mount, by which the
	// rules put one peer's workspace and text under peers/ while the step runs, in
	// place of older ones.
	Open func(ordinary []llm.Tool, mount func(context.Context, Peer) error) (loop.Rules, []llm.Message, error)

	// Witnessed is asked at the commit what was truly shown to the step by then:
	// the answer step of every agent, and the number of the last human message.
	// nil stands for Seen and no message.
	Witnessed func() (seen map[string]int, heard int)

	// Seal makes of an accepted action what is committed.
	Seal func(loop.Action) (Sealed, error)

	// Project lists the documents to be made of a commit.
	Project func(number int, c artifact.Commit) ([]Document, error)

	// Abandoned lists the documents that tell of a step given up.
	Abandoned func(r Result, cause artifact.Error, at time.Time) []Document
}

// Peer is an answer's workspace, and, where that is to be there, too, its text.
type Peer struct {
	Number   int    // anonymous number
	Manifest string // hash; empty for an answer without files
	Text     string // for peers/agent<N>.md; empty for no such file
}

// Sealed is the committed form of an action.
type Sealed struct {
	Payload json.RawMessage

	// Workspace says that the step's files belong to the action.
	Workspace bool

	// Otherwise is the hash of the manifest that is committed if there are no such
	// files. The session has what it lists. Empty for none.
	Otherwise string
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

// Result is how a step ended. With an error, a *loop.EndedError included, it
// tells what is known: the number if one was claimed, the usage, the transcript.
type Result struct {
	Step   int
	Commit artifact.Commit
	Usage  llm.Usage

	// Files is how many files the committed workspace has.
	Files int

	// Warnings tell of files that were left out of the workspace.
	Warnings []string

	// StartedAt is when the step was claimed; zero if that is not known.
	StartedAt time.Time

	// Transcript is set when the step ended without a commit.
	Transcript []byte
}
