package step

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"conclave/engine/approval"
	"conclave/engine/files/artifact"
	"conclave/engine/files/overlay"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Ports connect a step to its model, its tools and the store.
type Ports struct {
	Store artifact.Store
	Model loop.Model

	// Tools are the agent's ordinary tools.
	Tools Toolbox

	// Lease is the attempt's right to go on; nil for an attempt that nothing ends.
	Lease Lease

	// Caller has the tools that the session's caller runs, and asks people.
	Caller loop.Caller

	// Gate decides which calls run, wait for a person, or are refused. The zero Gate lets all run.
	Gate approval.Gate

	// Now is the clock of documents and measurements.
	Now func() time.Time

	// Window is the context window of Model in tokens, the reply included; 0 if unknown.
	Window int

	// NoCalls is the error, with a remedy, for a step in which no reply of Model called a
	// tool. If it is empty, the error of the loop is used.
	NoCalls string

	// UnreadCalls replaces NoCalls if a reply contained a call, as text, that could not be read.
	UnreadCalls string

	// Scratch is the directory of workspaces; if empty, the system's temporary directory is used.
	Scratch string

	// Trees copies the session's base and context into workspaces. Without it they are read
	// from Store for every step.
	Trees *snapshot.Trees

	// Redact removes secrets from tool results, the journal, the transcript, the committed
	// payload and the reason for abandoning a step; nil removes nothing. Its argument is
	// plain text rather than JSON. Workspace files are not redacted.
	Redact func([]byte) []byte

	// Progress is called after every journal entry, and once the journal is restored; may be nil.
	Progress func(Progress)
}

// Toolbox opens an agent's ordinary tools.
type Toolbox interface {
	// OpenTools opens the tools on a workspace. They are closed before the workspace is removed.
	OpenTools(ctx context.Context, workspace string) (Tools, error)

	// Repeatable reports whether an interrupted call of a tool can run again without harm in the workspace as
	// it was before the call. Other calls, except of tools that are read-only, happen at most once.
	Repeatable(tool string) bool

	// Overlays returns the mount namespace in which the tools can work, or nil if they need
	// copies. It is called only if the session has a base.
	Overlays(context.Context) *overlay.Mounts
}

// OpenFunc opens tools that need copies and change only the workspace, so all calls are repeatable.
type OpenFunc func(ctx context.Context, workspace string) (Tools, error)

// OpenTools implements Toolbox.
func (f OpenFunc) OpenTools(ctx context.Context, workspace string) (Tools, error) {
	return f(ctx, workspace)
}

// Repeatable implements Toolbox.
func (OpenFunc) Repeatable(string) bool { return true }

// Overlays implements Toolbox.
func (OpenFunc) Overlays(context.Context) *overlay.Mounts { return nil }

// Lease is the right of an attempt to go on with its step.
type Lease interface {
	// CheckAlive is called before every model call, tool run, commit and journal entry of tool
	// results. It may wait; an error ends the attempt.
	CheckAlive(context.Context) error

	// FenceTools returns a context for a tool run that ends as soon as another attempt may be running. Model
	// calls are not fenced, because the conditional creation of the journal entry decides which reply counts.
	FenceTools(context.Context) (context.Context, context.CancelFunc)
}

// Tools are ordinary tools that hold their workspace open.
type Tools interface {
	loop.Tools
	io.Closer
}

// Progress describes a running step.
type Progress struct {
	Step  int            `json:"step"`
	Last  loop.EntryKind `json:"last"` // the newest journal entry of this attempt; empty before the first
	Usage llm.Usage      `json:"usage"`
	Kept  int            `json:"kept"` // objects of the journal
}

// Spec is one step. Layout, Token, Agent, Dir, Open, Seal and Documents are required.
type Spec struct {
	Layout artifact.Layout
	Token  string                  // execution token: unique to the launch, equal for all of its attempts
	Agent  string                  // the agent in last_action.json
	Dir    func(number int) string // key prefix, ending in "/", of the step with a number

	// After is the number above which the step claims the first free one.
	After int

	// Query is recorded in the claim if the session has no document of its own for it.
	Query string

	// Reserve makes sure that a number is free before it is claimed; it returns false if the number is taken.
	// It is nil unless other programs write steps to the store without claiming their numbers.
	Reserve func(ctx context.Context, number int) (bool, error)

	Attempt Attempt
	Shown   Shown

	// Adopts offers AdoptFiles if the session has a base.
	Adopts bool

	MaxModelCalls int // 0 for the loop's default

	// KeepsJournal leaves the journal of a committed step to the caller, who deletes the
	// journals of many steps at once.
	KeepsJournal bool

	// BeginAgain makes the step begin again from its opening if its tools lost their state in
	// an interruption. Otherwise the agent is told about the loss.
	BeginAgain bool

	// Open builds the rules and the first messages.
	Open func(Access) (loop.Rules, []llm.Message, error)

	// Witnessed returns the material shown up to the commit: the answer step of every agent,
	// and the number of the last human message. nil means Shown.Seen and no message.
	Witnessed func() (seen map[string]int, heard int)

	// Updated reads the answer steps that an update showed, by the number of their agent,
	// from the note of its journal entry. nil means that updates show no answers.
	Updated func(note json.RawMessage) map[int]int

	// Seal builds the commit payload of an accepted action.
	Seal func(loop.Action) (Sealed, error)

	// Documents lists the derived documents of a commit.
	Documents func(number int, c artifact.Commit) ([]Document, error)

	// Abandoned returns the documents of a step that was given up. If it is nil,
	// last_action.json is written to the step's directory, provided the step has a number.
	Abandoned func(artifact.LastAction) []Document
}

// Access gives the rules of a running step access to its workspace.
type Access struct {
	Tools []llm.Tool // the ordinary tools at the opening

	// Mount replaces one peer's files and text under peers/.
	Mount func(context.Context, Peer) error

	// Manifest returns the hash of the manifest of the current files, or "" if there are none.
	Manifest func(context.Context) (string, error)

	// Read returns the beginning of a regular file of the workspace.
	Read func(path string) ([]byte, error)
}

// Attempt identifies one execution of a launch.
type Attempt struct {
	Number     int       // counts the executions; of two running ones the higher goes on
	Spent      llm.Usage // usage of earlier attempts
	ResumeFrom string    // token of the suspended or failed step to continue; empty for none
	FilesFrom  string    // token of an earlier step without an action whose files are given back; empty for none
	Uncounted  bool      // nobody has counted the usage of that step, so this one reports it
}

// Shown is the material with which the step begins.
type Shown struct {
	Seen   map[string]int // answer steps by agent
	Labels []string       // labels of the answers
	Agents []string       // IDs by the numbers in labels, from 1; nil without labels
	Peers  []Peer         // mounted read-only at peers/agent<N>/ and peers/agent<N>.md

	// Files is the hash of the manifest of the workspace's own initial files. If it is empty,
	// the workspace starts with those of the layout's base.
	Files string

	Context []Context // files that the agent may only read
	Papers  []Paper
}

// Paper is a text that the agent may only read: part of an evaluation, or the memory of other agents.
type Paper struct {
	Dir  string // EvaluatorDir or MemoryDir
	Name string // slash-separated path in the directory
	Text string
}

// Context is a directory of files that is shown read-only at context/<name>/.
type Context struct {
	Name  string
	Files *artifact.Base
}

// Peer is the workspace and, optionally, the text of an answer.
type Peer struct {
	Number   int    // anonymous number
	Manifest string // hash; empty for an answer without files
	Text     string // text of peers/agent<N>.md; empty for no such file
}

// Sealed is the committed form of an action.
type Sealed struct {
	Payload json.RawMessage

	// Workspace is set if the step's files belong to the action.
	Workspace bool

	// Otherwise is the hash of the stored manifest to commit if the step has no such files; it may be empty.
	Otherwise string
}

// Document is a file written beside a step.
type Document struct {
	Key  string
	Body any    // value that is written as JSON
	Text string // written as it is, in place of Body; not with Replace

	// Replace overwrites an existing file, which is otherwise kept.
	Replace bool

	// Newer reports whether the existing file is newer and must be kept; if Newer is nil, it
	// never is. It needs Replace.
	Newer func(existing []byte) bool
}

// Result is the end of a step. Even if there is an error, including a *loop.EndedError, the
// known fields are set: the number if one was claimed, the usage, the transcript.
type Result struct {
	Step       int
	Commit     artifact.Commit
	Usage      llm.Usage
	Files      int       // number of files in the committed workspace
	Warnings   []string  // about files left out of the workspace
	StartedAt  time.Time // time of the claim; zero if unknown
	Transcript []byte    // set without a commit

	// Seen are the answer steps, by agent, that a step without a commit was shown. For a
	// recovered step they are set only if an update showed an answer.
	Seen map[string]int

	// Partial are the files that a step without a commit has journaled.
	Partial artifact.Delta
}

// Leave stores the transcript and the files of a step that ended itself or was suspended.
// Its number stays taken.
func Leave(ctx context.Context, p Ports, s Spec, r Result) error {
	_, err := leaveRecords(ctx, p, s, r)
	return err
}

// leaveRecords implements Leave and returns the path of the stored files; it is nil without files. If
// another attempt has committed, the commit has its own transcript and files: leave only mends them.
func leaveRecords(ctx context.Context, p Ports, s Spec, r Result) (partial *string, err error) {
	if r.Step == 0 {
		return nil, nil
	}
	committed, err := mendCommitted(ctx, p.Store, s, r.Step)
	if err != nil || committed || len(r.Transcript) == 0 {
		return nil, err
	}
	if partial, err = leavePartial(ctx, p.Store, s, r); err != nil {
		return nil, err
	}
	if err := leaveTranscript(ctx, p.Store, s, r); err != nil {
		return nil, fmt.Errorf("write the transcript of %s: %w", s.Dir(r.Step), err)
	}
	// Another attempt may have committed meanwhile.
	if committed, err = mendCommitted(ctx, p.Store, s, r.Step); err != nil || !committed {
		return partial, err
	}
	Forget(ctx, p.Store, s.Dir(r.Step)+partialDir+"/")
	return nil, p.Store.Delete(ctx, s.Dir(r.Step)+partialFile)
}

// mendCommitted mends the transcript of a committed step, and reports whether the step is one.
func mendCommitted(ctx context.Context, store artifact.Store, s Spec, number int) (committed bool, err error) {
	c, err := readCommit(ctx, store, s.Dir(number))
	switch {
	case err == nil:
		return true, mendTranscript(ctx, store, s.Layout, s.Dir(number), c)
	case errors.Is(err, artifact.ErrNotFound):
		return false, nil
	case Wraps[*artifact.MalformedError](err):
		return true, nil
	}
	return false, err
}

// leaveTranscript writes transcript.jsonl. It keeps the content that it replaces as a blob, because
// another attempt may be about to commit it.
func leaveTranscript(ctx context.Context, store artifact.Store, s Spec, r Result) error {
	key := s.Dir(r.Step) + transcriptFile
	err := store.Create(ctx, key, r.Transcript)
	if !errors.Is(err, artifact.ErrExists) {
		return err
	}
	replaced, err := store.Get(ctx, key)
	if err != nil || bytes.Equal(replaced, r.Transcript) {
		return err
	}
	if _, err := artifact.PutBlob(ctx, store, s.Layout, replaced); err != nil {
		return err
	}
	return store.Put(ctx, key, bytes.NewReader(r.Transcript))
}

// Abandon stores the transcript, the files and the documents of a step that was given up
// because of cause. Secrets are redacted.
func Abandon(ctx context.Context, p Ports, s Spec, r Result, cause artifact.Error) error {
	partial, err := leaveRecords(ctx, p, s, r)
	if err != nil {
		return err
	}
	if r.Step > 0 && (r.StartedAt.IsZero() || s.Agent == "") {
		// The result of an attempt that never ran has only the number.
		if claim, err := artifact.ReadJSON[artifact.Claim](ctx, p.Store, s.Dir(r.Step)+"step.json"); err == nil && claim.Token == s.Token {
			r.StartedAt, s.Agent = claim.StartedAt, cmp.Or(s.Agent, claim.Agent)
		}
	}
	cause.Message = string(p.redactText([]byte(cause.Message)))
	last := r.LastAction(s.Agent, cause, artifact.Timestamp(p.Now()))
	last.PartialPath = partial
	switch {
	case s.Abandoned != nil:
		return writeAll(ctx, p.Store, s.Abandoned(last))
	case r.Step == 0:
		return nil
	}
	return WriteDocument(ctx, p.Store, Document{Key: s.Dir(r.Step) + "last_action.json", Body: last, Replace: true})
}

// Forget deletes the journals under a prefix, whose steps will not be resumed. It ignores
// failures: leftovers are harmless.
func Forget(ctx context.Context, store artifact.Store, prefix string) {
	var keys []string
	for key, err := range store.List(ctx, prefix) {
		if err != nil {
			break
		}
		keys = append(keys, key)
	}
	if len(keys) > 0 {
		_ = store.DeleteAll(ctx, keys)
	}
}

// LastAction returns the last_action.json of a step that was abandoned because of cause.
func (r Result) LastAction(agent string, cause artifact.Error, at time.Time) artifact.LastAction {
	last := artifact.LastAction{AgentID: agent, Action: "none", Timestamp: at, StepNumber: r.Step, Cost: r.Usage, Error: &cause}
	if !r.StartedAt.IsZero() {
		last.DurationSeconds = artifact.SecondsBetween(r.StartedAt, at)
	}
	return last
}
