package step

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Errors of a journal with two writers.
var (
	// errOvertaken reports that a later attempt is running, so this one must end.
	errOvertaken = errors.New("a later attempt of the step is at work")

	// errBehind reports that an earlier attempt wrote after this one had read the journal,
	// which must be read again.
	errBehind = errors.New("an earlier attempt of the step has gone on")
)

// journal makes entries durable: after every reply, and after every batch of tool results
// with the changed files. Entries that cost nothing to repeat, such as an opening or an
// elision, wait for the next of those. The commit replaces the entry of the action. A reply is
// written while the attempt goes on: tools, the next entry and the commit wait for it.
type journal struct {
	*attempt
	writer  string
	written int            // number of objects written
	waiting []Line         // lines for the next object
	left    artifact.Delta // files of an earlier step, for the first object
	files   artifact.Delta // all files so far
	spent   llm.Usage
	pending chan error     // outcome of the object that is being written; nil for none
	writing artifact.Delta // files in the object that is being written
	last    loop.EntryKind

	transcript bytes.Buffer
}

func (j *journal) appendEntry(ctx context.Context, e loop.Entry) error {
	// Usage counts even if the entry is lost.
	j.spent = j.spent.Add(e.Spent())
	j.result.Usage = j.spent
	if err := j.admitEntry(ctx, e); err != nil {
		return err
	}
	l := Line{Time: artifact.Timestamp(j.ports.Now()), Entry: e}
	j.waiting = append(j.waiting, l)
	if err := j.addLine(l); err != nil { // written before the entry: a write that is cut short may have succeeded
		return err
	}
	if mustJournal(e) {
		if err := j.flushLines(ctx, e); err != nil {
			return err
		}
	}
	j.last = e.Kind
	j.reportProgress()
	return nil
}

func (j *journal) reportProgress() {
	if j.ports.Progress != nil {
		j.ports.Progress(Progress{Step: j.result.Step, Last: j.last, Usage: j.result.Usage, Kept: j.written})
	}
}

// admitEntry returns the reason why an entry must not be written. A reply that was paid for is written even
// if another attempt may have replaced this one: if both write the same entry, create lets one succeed.
func (j *journal) admitEntry(ctx context.Context, e loop.Entry) error {
	if !calledModel(e) {
		return j.ports.checkAlive(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// mustJournal reports whether an entry must not be repeated, because it cost a model call or
// because tools have run.
func mustJournal(e loop.Entry) bool {
	switch e.Kind {
	case loop.Reply, loop.Wasted, loop.Compacted, loop.Rejection, loop.Awaited:
		return true
	case loop.Refused:
		return e.Usage != nil
	case loop.Results:
		return e.Action == nil
	case loop.Updated: // one that withdrew an action follows its tools
		return slices.ContainsFunc(e.Messages, func(m llm.Message) bool { return m.Role == llm.ToolRole })
	}
	return false
}

// calledModel reports whether an entry results from a model call, during which no tool runs.
func calledModel(e loop.Entry) bool {
	switch e.Kind {
	case loop.Reply, loop.Wasted, loop.Compacted, loop.Refused:
		return true
	}
	return false
}

func (j *journal) addLine(l Line) error {
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

// restoreJournal replays the journal of earlier attempts, or copies the journal of the step to
// resume. It restores the files, begins the transcript and returns the entries.
func (a *attempt) restoreJournal(ctx context.Context) ([]loop.Entry, error) {
	j := a.journal
	records, err := readJournal(ctx, a.ports.Store, a.spec.Layout, a.spec.Token)
	if err != nil {
		return nil, err
	}
	j.written = len(records)
	if len(records) == 0 && a.spec.Attempt.ResumeFrom != "" {
		if records, err = j.takeOver(ctx); err != nil {
			return nil, err
		}
	}
	a.origin = originOf(records, a.spec.Token)
	deltas, err := a.initialFiles(ctx)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		if j.left, err = a.leftFiles(ctx); err != nil {
			return nil, err
		}
		deltas = append(deltas, j.left)
	}
	var entries []loop.Entry
	for _, r := range records {
		deltas = append(deltas, r.Files)
		for _, l := range r.Lines {
			entries = append(entries, l.Entry)
			if err := j.addLine(l); err != nil {
				return nil, err
			}
		}
	}
	if err := a.ws.copy.Apply(ctx, deltas...); err != nil {
		return nil, fmt.Errorf("restore the files of the step: %w", err)
	}
	a.ws.touched.addFiles(nil)
	j.files = artifact.Delta{}.Join(deltas...)
	// The reported usage of earlier attempts may miss the last entries of the journal, or
	// include a call that was not journaled.
	if spent := usageOf(records); spent.ModelCalls > j.spent.ModelCalls {
		j.spent = spent
	}
	j.spent = j.spent.Add(a.discarded)
	a.result.Usage = j.spent
	j.reportProgress()
	return entries, nil
}

// initialFiles returns the files that the workspace starts with.
func (a *attempt) initialFiles(ctx context.Context) ([]artifact.Delta, error) {
	if a.spec.Shown.Files == "" {
		return nil, nil
	}
	c, err := artifact.LoadChange(ctx, a.ports.Store, a.spec.Layout, a.spec.Shown.Files)
	if err != nil {
		return nil, fmt.Errorf("read the initial files of the step: %w", err)
	}
	return []artifact.Delta{c.Delta()}, nil
}

// takeOver copies the journal of the step to resume and ends the original, so that an attempt
// that still writes to it fails. The original is kept until the session ends, because after a
// workflow reset it is taken over again.
func (j *journal) takeOver(ctx context.Context) ([]record, error) {
	from, uncounted, old, err := j.endResumed(ctx)
	if err != nil || len(old) == 0 {
		return nil, err
	}
	taken := record{Attempt: j.spec.Attempt.Number, Writer: j.writer, From: from, Origin: originOf(old, from)}
	if spent := usageOf(old); uncounted && spent.ModelCalls > 0 {
		taken.Uncounted = &spent
	}
	var deltas []artifact.Delta
	for _, r := range old {
		taken.Lines = append(taken.Lines, r.Lines...)
		deltas = append(deltas, r.Files)
	}
	taken.Files = taken.Files.Join(deltas...)
	resumed := Line{Time: artifact.Timestamp(j.ports.Now()), Entry: loop.Entry{Kind: loop.Resumed}}
	taken.Lines = append(taken.Lines, resumed)
	if err := j.createRecord(ctx, taken, 1); err != nil {
		return nil, err
	}
	j.written = 1
	return []record{taken}, nil
}

// endResumed ends the journal of the step to resume. If that step was suspended before it had
// a journal, endResumed ends the journal of the step that it had resumed itself.
func (j *journal) endResumed(ctx context.Context) (token string, uncounted bool, records []record, err error) {
	token, uncounted = j.spec.Attempt.ResumeFrom, j.spec.Attempt.Uncounted
	for below := j.result.Step; token != ""; {
		if records, err = j.closeJournal(ctx, token); err != nil || len(records) > 0 {
			break
		}
		var claim artifact.Claim
		if below, claim, err = j.claimOf(ctx, token, below); err != nil {
			break
		}
		token, uncounted = claim.ResumeFrom, claim.Uncounted
	}
	return token, uncounted, records, err
}

// closeJournal reads the journal of a token and closes it with a final record.
func (j *journal) closeJournal(ctx context.Context, token string) ([]record, error) {
	for {
		records, err := readJournal(ctx, j.ports.Store, j.spec.Layout, token)
		if err != nil || len(records) == 0 {
			return nil, err
		}
		key := j.spec.Layout.Journal(token, len(records)+1)
		err = artifact.CreateJSON(ctx, j.ports.Store, key, record{Attempt: math.MaxInt, Writer: j.writer})
		if errors.Is(err, artifact.ErrExists) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("end the journal of the step to resume: %w", err)
		}
		return records, nil
	}
}

func readJournal(ctx context.Context, store artifact.Store, layout artifact.Layout, token string) ([]record, error) {
	var records []record
	for seq := 1; ; seq++ {
		r, err := artifact.ReadJSON[record](ctx, store, layout.Journal(token, seq))
		if errors.Is(err, artifact.ErrNotFound) {
			return records, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the journal of the step: %w", err)
		}
		records = append(records, r)
	}
}

// originOf returns the token of the step that wrote the last reply of a journal, whose own token is given.
func originOf(records []record, own string) string {
	for _, r := range slices.Backward(records) {
		if slices.ContainsFunc(r.Lines, func(l Line) bool { return l.Kind == loop.Reply }) && r.From != "" {
			return r.Origin
		}
		if slices.ContainsFunc(r.Lines, func(l Line) bool { return l.Kind == loop.Reply }) {
			return own
		}
	}
	return own
}

// record is one object of a journal: the lines and file changes since the previous one.
type record struct {
	Attempt int            `json:"attempt"`
	Writer  string         `json:"writer"` // unique to the attempt
	Lines   []Line         `json:"lines"`
	Files   artifact.Delta `json:"files,omitzero"`

	// From is the token of the step from which the lines were copied. Their usage is
	// counted there, except for Uncounted. Origin is the token of the step that wrote the last reply among them.
	From      string     `json:"from,omitempty"`
	Origin    string     `json:"origin,omitempty"`
	Uncounted *llm.Usage `json:"uncounted,omitempty"`
}

func usageOf(records []record) llm.Usage {
	var sum llm.Usage
	for _, r := range records {
		if r.Uncounted != nil {
			sum = sum.Add(*r.Uncounted)
		}
		for _, l := range r.Lines {
			if r.From == "" {
				sum = sum.Add(l.Spent())
			}
		}
	}
	return sum
}

// flushLines writes the waiting lines, of which e is the last, and, if tools have run, the workspace's
// changes. It does not wait for the write of a reply.
func (j *journal) flushLines(ctx context.Context, e loop.Entry) error {
	if err := j.awaitWrite(); err != nil {
		return err
	}
	r := record{Attempt: j.spec.Attempt.Number, Writer: j.writer, Lines: j.waiting}
	if !calledModel(e) {
		delta, err := j.ws.takeChanges(ctx)
		if err != nil {
			return err
		}
		r.Files = delta
	}
	r.Files = j.left.Join(r.Files)
	j.waiting, j.left, j.writing, j.last = nil, artifact.Delta{}, r.Files, e.Kind
	j.pending = make(chan error, 1)
	go func(pending chan<- error, seq int) { pending <- j.createRecord(ctx, r, seq) }(j.pending, j.written+1)
	if e.Kind == loop.Reply {
		return nil
	}
	return j.awaitWrite()
}

// awaitWrite waits for the object that is being written, and returns the error of its write.
func (j *journal) awaitWrite() error {
	if j.pending == nil {
		return nil
	}
	err := <-j.pending
	j.pending = nil
	if err != nil {
		return err
	}
	j.written, j.files = j.written+1, j.files.Join(j.writing)
	j.reportProgress()
	return nil
}

// createRecord writes a redacted object. If two attempts write the same one, the later attempt continues.
func (j *journal) createRecord(ctx context.Context, r record, seq int) error {
	key := j.spec.Layout.Journal(j.spec.Token, seq)
	var err error
	if r.Lines, err = j.ports.redactLines(r.Lines); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	err = artifact.CreateJSON(ctx, j.ports.Store, key, r)
	if errors.Is(err, artifact.ErrExists) {
		existing, readErr := artifact.ReadJSON[record](ctx, j.ports.Store, key)
		switch {
		case errors.Is(readErr, artifact.ErrNotFound):
			return errBehind // removed, as after a commit
		case readErr != nil:
			err = readErr
		case existing.Writer == j.writer: // written, and its response was lost
			err = nil
		case existing.Attempt < j.spec.Attempt.Number:
			if r.From == "" {
				j.discarded = j.discarded.Add(usageOf([]record{r}))
			}
			return errBehind
		default:
			return errOvertaken
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}
