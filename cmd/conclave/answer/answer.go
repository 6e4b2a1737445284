package answer

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/hall"
	"conclave/engine/artifact"
	"conclave/engine/base"
	"conclave/engine/coordination"
	"conclave/engine/patch"
	"conclave/engine/team"
	"conclave/engine/text"
)

// found is an answer of a session, or the files after a step of a pipeline's run.
type found struct {
	layout artifact.Layout // layout with the base of the session or run
	store  artifact.Store

	Run     string            // "session s1" or "pipeline run p1"
	Session string            // ID of the session or run
	Label   string            // label of the answer, or directory of the step
	Agent   string            // empty for a step of a pipeline
	Files   artifact.Manifest // all files of the answer
	Change  artifact.Change   // change of the base
}

// labelForm is the form of labels; agent<N>.final is a presented answer.
var labelForm = regexp.MustCompile(`^agent[1-9][0-9]*\.([1-9][0-9]*|final)$`)

// find returns the answer with the label, or the decision for an empty label. In a pipeline's
// run a label is the directory of a step, and an empty label means the last step.
func find(ctx context.Context, conn *hall.Connection, id, label string) (*found, error) {
	f := &found{layout: artifact.InBucket(id), store: conn.Store, Run: "session " + id, Session: id}
	session, err := artifact.ReadJSON[artifact.Session](ctx, conn.Store, f.layout.File("session.json"))
	if errors.Is(err, artifact.ErrNotFound) {
		return findStep(ctx, conn, id, label)
	}
	if err != nil {
		return nil, fmt.Errorf("look for session %s: %w", id, err)
	}
	if f.layout, err = onBase(ctx, conn.Store, f.layout, session.Base); err != nil {
		return nil, fmt.Errorf("read the base of session %s: %w", id, err)
	}
	entries, err := team.Ledger(ctx, conn.Store, f.layout)
	if err != nil {
		return nil, fmt.Errorf("look for the answers of session %s: %w", id, err)
	}
	decided, err := decision(ctx, conn, f.layout)
	if err != nil {
		return nil, err
	}
	if label == "" || label == coordination.FinalLabelOf(decided) {
		label = decided
	}
	var labels []string
	for _, e := range entries {
		if e.Action != coordination.NewAnswer {
			continue
		}
		labels = append(labels, e.Label)
		if e.Label == label {
			f.Label, f.Agent = label, e.Agent
			return f, f.load(ctx, f.layout.Step(e.Agent, e.Step, "action.json"))
		}
	}
	return nil, missing(conn, &UnknownError{id, label, labels})
}

// decision returns the label of the final answer, or "" before the decision.
func decision(ctx context.Context, conn *hall.Connection, layout artifact.Layout) (string, error) {
	status, err := artifact.ReadJSON[acts.State](ctx, conn.Store, layout.File("status.json"))
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return "", fmt.Errorf("look for the decision: %w", err)
	}
	if status.Final == nil {
		return "", nil
	}
	return status.Final.Label, nil
}

// onBase returns the layout together with its base, if it references one.
func onBase(ctx context.Context, store artifact.Store, layout artifact.Layout, reference string) (artifact.Layout, error) {
	if reference == "" {
		return layout, nil
	}
	hash, err := base.Parse(reference)
	if err != nil {
		return layout, err
	}
	b, err := base.Open(ctx, store, hash)
	return layout.On(b), err
}

// load reads the answer's changes to the base from the commit at key.
func (f *found) load(ctx context.Context, key string) error {
	commit, err := artifact.ReadJSON[artifact.Commit](ctx, f.store, key)
	if err == nil {
		f.Change, err = artifact.LoadChange(ctx, f.store, f.layout, commit.Manifest)
	}
	if err != nil {
		return fmt.Errorf("read the files of %s in %s: %w", f.Label, f.Run, err)
	}
	f.Files = f.Change.Tree(f.layout.Base())
	return nil
}

// UnknownError reports an answer that a session does not have.
type UnknownError struct {
	Session string
	Label   string   // empty for the decision
	Labels  []string // labels of its answers
}

func (e *UnknownError) Error() string {
	switch {
	case len(e.Labels) == 0:
		return fmt.Sprintf("session %s has no answers yet", e.Session)
	case e.Label == "":
		return fmt.Sprintf("session %s has no decision yet; name an answer: %s", e.Session, strings.Join(e.Labels, ", "))
	}
	return fmt.Sprintf("session %s has no answer %s; it has %s", e.Session, text.Truncate(e.Label, hall.MaxEcho), strings.Join(e.Labels, ", "))
}

// missing returns the error of a command for an unknown answer.
func missing(conn *hall.Connection, unknown *UnknownError) error {
	if len(unknown.Labels) == 0 {
		return hall.Exitf(hall.ExitUsage, "%w; `%s` shows its state", unknown, conn.CommandLine("status", unknown.Session))
	}
	return hall.Exitf(hall.ExitUsage, "%w", unknown)
}

// content reads the content of a file, or the target of a link.
func (f *found) content(ctx context.Context, file artifact.File) ([]byte, error) {
	if file.SHA256 == "" {
		return []byte(file.Link), nil
	}
	data, err := artifact.ReadFile(ctx, f.store, f.layout, file)
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, fmt.Errorf("the content of %s is missing in the store; `conclave pull --verify` shows all that is", file.Path)
	}
	return data, err
}

// changes returns the changes from the base to the answer's files.
func (f *found) changes(ctx context.Context) ([]patch.Change, error) {
	changes, err := base.Changes(ctx, f.store, f.layout, f.Change)
	if errors.Is(err, artifact.ErrNotFound) {
		err = fmt.Errorf("%w; `conclave pull --verify` shows what is missing in the store", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the files of %s in %s: %w", f.Label, f.Run, err)
	}
	return changes, nil
}

func mode(file artifact.File) patch.Mode {
	switch {
	case file.Dir:
		return patch.Dir
	case file.Link != "":
		return patch.Link
	case file.Mode&0o100 != 0:
		return patch.Executable
	default:
		return patch.Regular
	}
}
