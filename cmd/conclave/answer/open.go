package answer

import (
	"context"
	"fmt"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/engine/artifact"
	"conclave/engine/patch"
)

// Answer is an answer of a session with its files.
type Answer struct {
	Session, Label, Agent string
	Paths                 []string // paths of its files

	found *found
}

// Open returns the answer of a session with a label, or the decision for an empty label. If there
// is no such answer, the error wraps an *UnknownError.
func Open(ctx context.Context, conn *hall.Connection, session, label string) (Answer, error) {
	prepared, err := conn.Store.Exists(ctx, artifact.InBucket(session).File("session.json"))
	if err != nil {
		return Answer{}, fmt.Errorf("look for session %s: %w", session, err)
	}
	if !prepared {
		return Answer{}, &UnknownError{Session: session, Label: label}
	}
	f, err := find(ctx, conn, session, label)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Session: f.Session, Label: f.Label, Agent: f.Agent, found: f}
	for _, file := range f.Files.Files {
		a.Paths = append(a.Paths, file.Path)
	}
	return a, nil
}

// Patch returns the answer's changes as a patch for git apply, and their statistics.
func (a Answer) Patch(ctx context.Context) (text, stat string, err error) {
	const columns = 80
	changes, err := a.found.changes(ctx)
	if err != nil {
		return "", "", err
	}
	var b strings.Builder
	if err := patch.Write(&b, changes, patch.Style{}); err != nil {
		return "", "", err
	}
	return b.String(), patch.FormatStats(patch.Stats(changes), columns), nil
}

// File returns the content of one of the answer's files.
func (a Answer) File(ctx context.Context, path string) ([]byte, error) {
	for _, file := range a.found.Files.Files {
		if file.Path == path {
			return a.found.content(ctx, file)
		}
	}
	return nil, fmt.Errorf("read %s of %s: %w", path, a.Label, artifact.ErrNotFound)
}
