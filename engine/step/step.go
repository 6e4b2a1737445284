package step

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Run runs the step, or returns the result of its commit if it has one. The error is a *loop.EndedError if
// the step ended itself without an action; a *loop.NoActionError, *loop.TimeOverError or *llm.Error if it
// failed; the cause of ctx if ctx ended; and otherwise a fault of the store or the machine.
func Run(ctx context.Context, p Ports, s Spec) (Result, error) {
	a := newAttempt(p, s)
	err := a.runStep(ctx)
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
	origin  string      // the token of the launch that journaled the last reply

	discarded llm.Usage // of entries in whose place an earlier attempt had written others
}

func newAttempt(p Ports, s Spec) *attempt {
	return &attempt{ports: p, spec: s, result: Result{Usage: s.Attempt.Spent}}
}

func (a *attempt) dir() string { return a.spec.Dir(a.result.Step) }

func (a *attempt) runStep(ctx context.Context) error {
	if adopted, err := a.reuseCommit(ctx); adopted || err != nil {
		return err
	}
	if err := a.claimNumber(ctx); err != nil {
		return err
	}
	c, err := artifact.Commit{}, artifact.ErrNotFound
	if !a.fresh {
		c, err = readCommit(ctx, a.ports.Store, a.dir())
	}
	if errors.Is(err, artifact.ErrNotFound) {
		c, err = a.workUntilCommit(ctx)
	}
	if err != nil {
		return err
	}
	return a.finishCommit(ctx, c)
}

// maxBehind bounds the restarts that an earlier attempt causes by writing until it is fenced.
const maxBehind = 10

// workUntilCommit runs a claimed step until it has a commit. It starts over when an earlier attempt has
// journaled more.
func (a *attempt) workUntilCommit(ctx context.Context) (artifact.Commit, error) {
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

// saveTime bounds the time in which an attempt without a commit saves its work.
const saveTime = 5 * time.Second

func (a *attempt) workOnce(ctx context.Context) (artifact.Commit, error) {
	ws, err := openWorkspace(ctx, a.ports, a.spec)
	if err != nil {
		return artifact.Commit{}, err
	}
	defer ws.closeWorkspace(ctx)
	a.ws, a.journal, a.cut, a.origin = ws, &journal{attempt: a, writer: rand.Text(), spent: a.spec.Attempt.Spent}, nil, a.spec.Token
	var c artifact.Commit
	action, err := a.converseWithModel(ctx)
	if err == nil {
		c, err = a.commitAction(ctx, action)
	}
	if err != nil {
		saving, stop := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
		_ = a.journal.writeReply(saving) // the attempt fails anyway
		stop()
		a.keepCut(ctx)
		a.result.Transcript, a.result.Partial = a.journal.transcript.Bytes(), a.journal.files
		a.result.Seen, _ = a.witnessedMaterial()
	}
	return c, err
}

// converseWithModel runs the loop in the workspace, starting with the opening or with the journal of
// earlier attempts.
func (a *attempt) converseWithModel(ctx context.Context) (loop.Action, error) {
	opened, opening, err := a.spec.Open(Access{Tools: slices.Concat(a.ws.tools.Tools(), a.ports.Caller.Tools), Mount: a.ws.mountPeer, Manifest: a.ws.storeManifest, Read: a.ws.readFile})
	if err != nil {
		return loop.Action{}, fmt.Errorf("open the step: %w", err)
	}
	var entries []loop.Entry
	if !a.fresh || a.spec.Attempt.ResumeFrom != "" || a.spec.Attempt.FilesFrom != "" || a.spec.Shown.Files != "" {
		if entries, err = a.restoreJournal(ctx); err != nil {
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
	if len(entries) == 0 {
		if entries, err = beginJournal(ctx, a, opening); err != nil {
			return loop.Action{}, err
		}
	}
	conv := &loop.Conversation{}
	for _, e := range entries {
		conv.Add(e)
		if err := rules.Learn(ctx, e); err != nil {
			return loop.Action{}, fmt.Errorf("learn the %s: %w", e.Kind, err)
		}
	}
	action, err := loopOf(a).Run(ctx, conv, rules)
	return action, a.ports.explainNoCalls(err)
}

func beginJournal(ctx context.Context, a *attempt, opening []llm.Message) ([]loop.Entry, error) {
	if len(a.journal.left.Changed) > 0 {
		opening = append(opening, llm.Message{Role: llm.User, Content: a.givenBack()})
	}
	entry := loop.Entry{Kind: loop.Opening, Messages: opening}
	return []loop.Entry{entry}, a.journal.appendEntry(ctx, entry)
}

// loopOf returns the fenced loop of an attempt.
func loopOf(a *attempt) loop.Loop {
	shell := "" // the last recorded state of the shell
	tools := fencedTools{a}
	return loop.Loop{
		Model: fencedModel{Model: a.ports.Model, attempt: a},
		Tools: tools, RunAt: tools.runAt,
		Journal: func(ctx context.Context, e loop.Entry) error {
			return a.journal.appendEntry(ctx, withStates(e, a.ws.tools.Tools(), &shell))
		},
		Now:    a.ports.Now,
		Window: a.ports.Window,

		MaxModelCalls: a.spec.MaxModelCalls, Caller: a.ports.Caller,
		Cut: func(e loop.Entry) { a.cut = &e },
	}
}

// explainNoCalls replaces the error of a model that never called a tool by one with a remedy.
func (p Ports) explainNoCalls(err error) error {
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

// commitAction stores the files and the transcript, and makes the action effective by creating
// action.json. If another attempt committed first, it returns that commit.
func (a *attempt) commitAction(ctx context.Context, action loop.Action) (artifact.Commit, error) {
	sealed, err := a.spec.Seal(action)
	if err != nil {
		return artifact.Commit{}, fmt.Errorf("seal the %s of the step: %w", action.Kind, err)
	}
	if sealed.Payload, err = a.ports.redactJSON(sealed.Payload); err != nil {
		return artifact.Commit{}, err
	}
	c := artifact.Commit{
		Token: a.spec.Token, Kind: action.Kind, Payload: sealed.Payload,
		Usage: a.result.Usage, StartedAt: a.result.StartedAt,
	}
	c.SeenSteps, c.Heard = a.witnessedMaterial()
	a.committing = a.ports.Now().Round(0) // without the clock that stops when the machine sleeps
	if err := a.storeParts(ctx, &c, sealed); err != nil {
		return artifact.Commit{}, err
	}
	c.Timestamp = artifact.Timestamp(a.ports.Now())
	// The fence: an attempt that has lost its lease must not commit.
	if err := a.ports.checkAlive(ctx); err != nil {
		return artifact.Commit{}, err
	}
	err = artifact.CreateJSON(ctx, a.ports.Store, a.dir()+"action.json", c)
	if errors.Is(err, artifact.ErrExists) {
		return readCommit(ctx, a.ports.Store, a.dir())
	}
	if err != nil {
		return artifact.Commit{}, fmt.Errorf("commit %s: %w", a.dir(), err)
	}
	a.committed = true
	return c, nil
}

// storeParts stores the files and the transcript of a commit.
func (a *attempt) storeParts(ctx context.Context, c *artifact.Commit, sealed Sealed) error {
	group, together := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if sealed.Workspace {
			c.Manifest, err = a.storeWorkspace(together, sealed.Otherwise)
		}
		return err
	})
	group.Go(func() (err error) {
		if c.Transcript, err = a.storeTranscript(together); err != nil {
			return fmt.Errorf("store the transcript: %w", err)
		}
		return nil
	})
	return group.Wait()
}

func (a *attempt) witnessedMaterial() (seen map[string]int, heard int) {
	if a.spec.Witnessed == nil {
		return a.spec.Shown.Seen, 0
	}
	return a.spec.Witnessed()
}

// storeWorkspace stores the changed files and returns the hash of the change. It returns the hash
// otherwise if the workspace is unchanged.
func (a *attempt) storeWorkspace(ctx context.Context, otherwise string) (string, error) {
	c, hash, err := a.ws.sealChange(ctx)
	if err != nil {
		return "", fmt.Errorf("store the workspace: %w", err)
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
		return artifact.Commit{}, fmt.Errorf("look for the commit of %s: %w", dir, err)
	}
	// The document is indented; the payload is returned as it was committed.
	var payload bytes.Buffer
	if err := json.Compact(&payload, c.Payload); err != nil {
		return artifact.Commit{}, fmt.Errorf("read the commit of %s: %w", dir, err)
	}
	c.Payload = payload.Bytes()
	return c, nil
}

// finishTime bounds finishCommit after the step has been ended from outside. A later attempt repeats it.
const finishTime = 2 * time.Minute

// finishCommit writes the documents derived from a commit and deletes the journal. It
// continues after the end of ctx, because the action has taken effect.
func (a *attempt) finishCommit(ctx context.Context, c artifact.Commit) error {
	a.result.Commit, a.result.Usage = c, c.Usage
	finishing, stop := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer stop()
	return a.writeDocuments(finishing)
}

// maxUnstorable is the number of actions that are withdrawn because of their files before the step fails.
const maxUnstorable = 3

// Bounds of the list of files left out of an answer.
const (
	maxNamed     = 10
	maxNamedText = 200 // characters of a path and of a problem
)

const ignoreHint = "files that .conclaveignore lists, as in a .gitignore, are not part of the answer"

// fileNote is the note of an update about files of the workspace.
type fileNote struct {
	Files fileProblem `json:"workspace_files"`
}

// fileProblem is the reason for withdrawing an action.
type fileProblem string

const (
	unstorable fileProblem = "unstorable"
	leftOut    fileProblem = "left_out"
)

// storable wraps rules. It confirms an action only if its files can be stored and the agent
// has been told which files are left out, since the agent can correct both.
type storable struct {
	loop.Rules
	ws      *workspace
	seal    func(loop.Action) (Sealed, error)
	refused int  // actions withdrawn as unstorable
	warned  bool // the agent was told the files left out
}

// Learn implements loop.Rules. It does not pass its own notes to the wrapped rules.
func (s *storable) Learn(ctx context.Context, e loop.Entry) error {
	var n fileNote
	if e.Kind == loop.Updated && len(e.Note) > 0 && json.Unmarshal(e.Note, &n) == nil && n.Files != "" {
		e.Note = nil
		if n.Files == unstorable {
			s.refused++
		}
		s.warned = s.warned || n.Files == leftOut
	}
	return s.Rules.Learn(ctx, e)
}

func (s *storable) Confirm(ctx context.Context, a loop.Action) (loop.Update, error) {
	update, err := s.Rules.Confirm(ctx, a)
	if err != nil || len(update.Messages) > 0 || update.Note != nil || update.Ruling != nil {
		return update, err
	}
	sealed, err := s.seal(a)
	if err != nil || !sealed.Workspace {
		return loop.Update{}, err
	}
	problem, err := s.ws.checkFiles(ctx)
	switch {
	case err != nil:
		return loop.Update{}, err
	case problem != nil && s.refused < maxUnstorable:
		return withdrawAction(unstorable, "Nothing was submitted: the files of your workspace cannot be stored. "+problem.Error()+". Correct that ("+ignoreHint+"), then submit again.")
	case problem != nil:
		return loop.Update{}, nil // the commit fails with the problem
	}
	if left := s.ws.copy.Warnings(); len(left) > 0 && !s.warned {
		return withdrawAction(leftOut, "Nothing was submitted yet: these files are left out of your answer: "+listLeftOut(left)+". Submit again if that is as it should be, or correct it first.")
	}
	return loop.Update{}, nil
}

func withdrawAction(why fileProblem, text string) (loop.Update, error) {
	note, err := json.Marshal(fileNote{Files: why})
	return loop.Update{Messages: []llm.Message{{Role: llm.User, Content: text}}, Note: note}, err
}

// listLeftOut returns the names of the first files left out, with their problems.
func listLeftOut(left []artifact.Warning) string {
	var names []string
	for _, w := range left[:min(len(left), maxNamed)] {
		names = append(names, fmt.Sprintf("%.*q (%.*s)", maxNamedText, w.Path, maxNamedText, w.Problem))
	}
	text := strings.Join(names, ", ")
	if more := len(left) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
