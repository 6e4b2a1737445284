package step

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// The errors of a journal that another attempt of the step writes, too.
var (
	// ErrOvertaken says that a later attempt is at work: this one has to end.
	ErrOvertaken = errors.New("a later attempt of the step is at work")

	// errBehind says that an earlier attempt wrote once more after its journal was
	// read: what it came to is to be read again.
	errBehind = errors.New("an earlier attempt of the step has gone on")
)

// record is one object of a journal: what happened since the one before.
type record struct {
	Attempt int            `json:"attempt"`
	Writer  string         `json:"writer"` // one for each attempt
	Lines   []line         `json:"lines"`
	Files   artifact.Delta `json:"files,omitzero"`

	// From is the token of the step that these lines were taken over from: its
	// usage is counted there.
	From string `json:"from,omitempty"`
}

// line is one entry and when it was made: a line of transcript.jsonl, too.
type line struct {
	Time time.Time `json:"time"`
	loop.Entry
}

// journal makes a step's entries durable, so that the next attempt goes on from
// them on any worker: after every reply, and after every batch of tool results
// with the files that changed. What costs nothing to make again waits for what
// does: an opening, an update or an elision for the reply to it. The entry of the action
// itself is not kept; the commit is.
type journal struct {
	ports  Ports
	spec   Spec
	ws     *workspace
	result *Result

	writer  string
	written int    // objects there are
	waiting []line // for the next object
	spent   llm.Usage

	transcript bytes.Buffer
}

func newJournal(p Ports, s Spec, ws *workspace, r *Result) *journal {
	return &journal{ports: p, spec: s, ws: ws, result: r, writer: rand.Text(), spent: s.Spent}
}

// Append implements loop.Journal.
func (j *journal) Append(ctx context.Context, e loop.Entry) error {
	if e.Usage != nil {
		// Paid is paid, whether the entry counts or not.
		j.spent = j.spent.Add(*e.Usage)
		j.result.Usage = j.spent
	}
	if err := j.ports.alive(ctx); err != nil {
		return err
	}
	one := line{Time: artifact.Timestamp(j.ports.Now()), Entry: e}
	j.waiting = append(j.waiting, one)
	if dear(e) {
		if err := j.flush(ctx, !calledModel(e)); err != nil {
			return err
		}
	}
	if err := j.write(one); err != nil {
		return err
	}
	if j.ports.Progress != nil {
		j.ports.Progress(Progress{Step: j.result.Step, Last: e.Kind, Usage: j.result.Usage, Kept: j.written})
	}
	return nil
}

// dear reports whether an entry is not to be made twice: it cost a model call,
// or tools have run.
func dear(e loop.Entry) bool {
	switch e.Kind {
	case loop.Reply, loop.Wasted, loop.Compacted, loop.Rejection:
		return true
	case loop.Refused:
		return e.Usage != nil
	case loop.Results:
		return e.Action == nil
	case loop.Updated: // one that turned an action down comes after its tools
		return slices.ContainsFunc(e.Messages, func(m llm.Message) bool { return m.Role == llm.ToolRole })
	}
	return false
}

// calledModel reports whether an entry tells of a model call, during which no
// tool runs.
func calledModel(e loop.Entry) bool {
	switch e.Kind {
	case loop.Reply, loop.Wasted, loop.Compacted, loop.Refused:
		return true
	}
	return false
}

// flush writes the lines that wait, with what changed in the workspace if tools
// have run.
func (j *journal) flush(ctx context.Context, files bool) error {
	r := record{Attempt: j.spec.Attempt, Writer: j.writer, Lines: j.waiting}
	if files {
		delta, err := j.ws.changes(ctx)
		if err != nil {
			return err
		}
		r.Files = delta
	}
	if err := j.create(ctx, r); err != nil {
		return err
	}
	j.waiting = nil
	return nil
}

// create adds an object, without the secrets in its lines. Of two attempts that write the same one, the later
// goes on.
func (j *journal) create(ctx context.Context, r record) error {
	key := j.spec.Layout.Journal(j.spec.Token, j.written+1)
	var err error
	if r.Lines, err = j.ports.redactLines(r.Lines); err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	err = artifact.CreateJSON(ctx, j.ports.Store, key, r)
	if errors.Is(err, artifact.ErrExists) {
		there, readErr := artifact.ReadJSON[record](ctx, j.ports.Store, key)
		switch {
		case errors.Is(readErr, artifact.ErrNotFound):
			return errBehind // it was removed, as after a commit
		case readErr != nil:
			err = readErr
		case there.Writer == j.writer: // its answer was lost
			err = nil
		case there.Attempt < j.spec.Attempt:
			return errBehind
		default:
			return ErrOvertaken
		}
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	j.written++
	return nil
}

// write adds a line to the transcript, without the secrets in it.
func (j *journal) write(l line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if data, err = j.ports.redactJSON(data); err != nil {
		return err
	}
	j.transcript.Write(data)
	j.transcript.WriteByte('\n')
	return nil
}
