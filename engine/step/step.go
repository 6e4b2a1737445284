package step

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Run runs the step, or returns the result of its commit if it has one. The error is a
// *loop.EndedError if the step ended itself without an action; a *loop.NoActionError,
// *loop.TimeOverError or *llm.Error if it failed; the cause of ctx if ctx ended; and
// otherwise a fault of the store or the machine.
func Run(ctx context.Context, p Ports, s Spec) (Result, error) {
	a := newAttempt(p, s)
	err := a.run(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return a.result, err
}

// attempt is one execution of a step.
type attempt struct {
	ports  Ports
	spec   Spec
	result Result
	fresh  bool // this attempt made the claim, so there is no journal yet

	committed   bool      // this attempt made the commit, so it knows the whole journal
	committing  time.Time // when it began to store its commit
	transcribed bool      // it has created transcript.jsonl with the text of its commit

	ws      *workspace
	journal *journal
	cut     *loop.Entry // of a batch that an error has cut short; nil for none
}

func newAttempt(p Ports, s Spec) *attempt {
	return &attempt{ports: p, spec: s, result: Result{Usage: s.Attempt.Spent}}
}

func (a *attempt) dir() string { return a.spec.Dir(a.result.Step) }

func (a *attempt) run(ctx context.Context) error {
	if adopted, err := a.adopt(ctx); adopted || err != nil {
		return err
	}
	if err := a.claim(ctx); err != nil {
		return err
	}
	c, err := artifact.Commit{}, artifact.ErrNotFound
	if !a.fresh {
		c, err = readCommit(ctx, a.ports.Store, a.dir())
	}
	if errors.Is(err, artifact.ErrNotFound) {
		c, err = a.work(ctx)
	}
	if err != nil {
		return err
	}
	return a.finishCommit(ctx, c)
}

// maxBehind bounds the restarts that an earlier attempt causes by writing until it is fenced.
const maxBehind = 10

// work runs a claimed step until it has a commit. It starts over when an earlier attempt has
// journaled more.
func (a *attempt) work(ctx context.Context) (artifact.Commit, error) {
	for n := 1; ; n++ {
		c, err := a.workOnce(ctx)
		if !errors.Is(err, errBehind) || n == maxBehind {
			return c, err
		}
		a.fresh = false
		if c, err = readCommit(ctx, a.ports.Store, a.dir()); !errors.Is(err, artifact.ErrNotFound) {
			return c, err
		}
	}
}

func (a *attempt) workOnce(ctx context.Context) (artifact.Commit, error) {
	ws, err := openWorkspace(ctx, a.ports, a.spec)
	if err != nil {
		return artifact.Commit{}, err
	}
	defer ws.close(ctx)
	a.ws, a.journal, a.cut = ws, newJournal(a), nil
	var c artifact.Commit
	action, err := a.converse(ctx)
	if err == nil {
		c, err = a.commit(ctx, action)
	}
	if err != nil {
		_ = a.journal.settle() // the attempt fails anyway
		a.keepCut(ctx)
		a.result.Transcript, a.result.Partial = a.journal.transcript.Bytes(), a.journal.files
		a.result.Seen, _ = a.witnessed()
	}
	return c, err
}

// converse runs the loop in the workspace, starting with the opening or with the journal of
// earlier attempts.
func (a *attempt) converse(ctx context.Context) (loop.Action, error) {
	opened, opening, err := a.spec.Open(Access{Tools: slices.Concat(a.ws.tools.Tools(), a.ports.Caller.Tools), Mount: a.ws.mount, Manifest: a.ws.manifest, Read: a.ws.read})
	if err != nil {
		return loop.Action{}, fmt.Errorf("opening the step: %w", err)
	}
	var entries []loop.Entry
	if !a.fresh || a.spec.Attempt.ResumeFrom != "" || a.spec.Attempt.FilesFrom != "" || a.spec.Shown.Files != "" {
		if entries, err = a.restore(ctx); err != nil {
			return loop.Action{}, err
		}
	}
	lost := lossesOf(entries, a.ws.tools.Tools())
	if a.spec.BeginAgain && lost.String() != "" && lost.begun < maxBegun {
		if entries, err = a.beginAgain(ctx, entries, opening, lost); err != nil {
			return loop.Action{}, err
		}
		lost = losses{}
	}
	rules := &storable{Rules: &informed{Rules: opened, lost: lost.String()}, ws: a.ws, seal: a.spec.Seal}
	pending := interrupted(entries)
	if len(entries) == 0 {
		if entries, err = begin(ctx, a, opening); err != nil {
			return loop.Action{}, err
		}
	}
	conv := &loop.Conversation{}
	for _, e := range entries {
		conv.Add(e)
		if err := rules.Learn(ctx, e); err != nil {
			return loop.Action{}, fmt.Errorf("learning the %s: %w", e.Kind, err)
		}
	}
	action, err := loopOf(a, pending).Run(ctx, conv, rules)
	return action, a.ports.explained(err)
}

// begin journals the opening of a new step.
func begin(ctx context.Context, a *attempt, opening []llm.Message) ([]loop.Entry, error) {
	if len(a.journal.left.Changed) > 0 {
		opening = append(opening, llm.Message{Role: llm.User, Content: a.givenBack()})
	}
	entry := loop.Entry{Kind: loop.Opening, Messages: opening}
	return []loop.Entry{entry}, a.journal.append(ctx, entry)
}

// loopOf returns the fenced loop of an attempt. pending are the interrupted calls.
func loopOf(a *attempt, pending map[string]bool) loop.Loop {
	shell := "" // the last recorded state of the shell
	return loop.Loop{
		Model: fencedModel{Model: a.ports.Model, alive: a.ports.alive, interrupted: pending},
		Tools: fencedTools{ws: a.ws, ports: a.ports, journal: a.journal, interrupted: pending},
		Journal: func(ctx context.Context, e loop.Entry) error {
			return a.journal.append(ctx, withStates(e, a.ws.tools.Tools(), &shell))
		},
		Now:    a.ports.Now,
		Window: a.ports.Window,

		MaxModelCalls: a.spec.MaxModelCalls, Caller: a.ports.Caller,
		Cut: func(e loop.Entry) { a.cut = &e },
	}
}

// explained replaces the error of a model that never called a tool by one with a remedy.
func (p Ports) explained(err error) error {
	if none, ok := errors.AsType[*loop.NoActionError](err); ok && none.Silent && p.NoCalls != "" {
		explanation := p.NoCalls
		if none.Tried {
			explanation = cmp.Or(p.UnreadCalls, explanation)
		}
		return &silentError{explanation: explanation, err: err}
	}
	return err
}

// silentError replaces a loop.NoActionError if the model never called a tool.
type silentError struct {
	explanation string
	err         error
}

func (e *silentError) Error() string { return e.explanation }
func (e *silentError) Unwrap() error { return e.err }

// commit stores the files and the transcript, and makes the action effective by creating
// action.json. If another attempt committed first, it returns that commit.
func (a *attempt) commit(ctx context.Context, action loop.Action) (artifact.Commit, error) {
	sealed, err := a.spec.Seal(action)
	if err != nil {
		return artifact.Commit{}, fmt.Errorf("sealing the %s of the step: %w", action.Kind, err)
	}
	if sealed.Payload, err = a.ports.redactJSON(sealed.Payload); err != nil {
		return artifact.Commit{}, err
	}
	c := artifact.Commit{
		Token: a.spec.Token, Kind: action.Kind, Payload: sealed.Payload,
		Usage: a.result.Usage, StartedAt: a.result.StartedAt,
	}
	c.SeenSteps, c.Heard = a.witnessed()
	a.committing = a.ports.Now().Round(0) // without the clock that stops when the machine sleeps
	if err := a.store(ctx, &c, sealed); err != nil {
		return artifact.Commit{}, err
	}
	c.Timestamp = artifact.Timestamp(a.ports.Now())
	// The fence: an attempt that has lost its lease must not commit.
	if err := a.ports.alive(ctx); err != nil {
		return artifact.Commit{}, err
	}
	err = artifact.CreateJSON(ctx, a.ports.Store, a.dir()+"action.json", c)
	if errors.Is(err, artifact.ErrExists) {
		return readCommit(ctx, a.ports.Store, a.dir())
	}
	if err != nil {
		return artifact.Commit{}, fmt.Errorf("committing %s: %w", a.dir(), err)
	}
	a.committed = true
	return c, nil
}

// store stores the files and the transcript of a commit while the journal is written.
func (a *attempt) store(ctx context.Context, c *artifact.Commit, sealed Sealed) error {
	group, together := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if sealed.Workspace {
			c.Manifest, err = a.storeWorkspace(together, sealed.Otherwise)
		}
		return err
	})
	group.Go(func() (err error) {
		if c.Transcript, err = a.storeTranscript(together); err != nil {
			return fmt.Errorf("storing the transcript: %w", err)
		}
		return nil
	})
	return errors.Join(a.journal.settle(), group.Wait())
}

// witnessed returns the material that the step has been shown.
func (a *attempt) witnessed() (seen map[string]int, heard int) {
	if a.spec.Witnessed == nil {
		return a.spec.Shown.Seen, 0
	}
	return a.spec.Witnessed()
}

// storeWorkspace stores the changed files and returns the hash of the change. It returns the hash
// otherwise if the workspace is unchanged.
func (a *attempt) storeWorkspace(ctx context.Context, otherwise string) (string, error) {
	c, hash, err := a.ws.seal(ctx)
	if err != nil {
		return "", fmt.Errorf("storing the workspace: %w", err)
	}
	for _, warning := range a.ws.copy.Warnings() {
		a.result.Warnings = append(a.result.Warnings, warning.String())
	}
	if hash == "" {
		return otherwise, nil
	}
	a.result.Files = len(c.Files)
	return hash, nil
}

// readCommit reads the commit of the step in dir, or fails with artifact.ErrNotFound.
func readCommit(ctx context.Context, store artifact.Store, dir string) (artifact.Commit, error) {
	c, err := artifact.ReadJSON[artifact.Commit](ctx, store, dir+"action.json")
	if err != nil {
		return artifact.Commit{}, fmt.Errorf("looking for the commit of %s: %w", dir, err)
	}
	// The document is indented; the payload is returned as it was committed.
	var payload bytes.Buffer
	if err := json.Compact(&payload, c.Payload); err != nil {
		return artifact.Commit{}, fmt.Errorf("reading the commit of %s: %w", dir, err)
	}
	c.Payload = payload.Bytes()
	return c, nil
}

// finishTime bounds finishCommit after the step has been ended from outside. A later attempt
// repeats it.
const finishTime = 2 * time.Minute

// finishCommit writes the documents derived from a commit and deletes the journal. It
// continues after the end of ctx, because the action has taken effect.
func (a *attempt) finishCommit(ctx context.Context, c artifact.Commit) error {
	a.result.Commit, a.result.Usage = c, c.Usage
	finishing, stop := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer stop()
	// While ctx has not ended, a step claimed by this attempt is its agent's newest, unless
	// other programs write steps.
	return a.writeDocuments(finishing, a.fresh && ctx.Err() == nil && a.spec.Reserve == nil)
}
