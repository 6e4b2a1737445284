package pull

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"conclave/engine/artifact"
)

// Verified is what a verification has found.
type Verified struct {
	Manifests int `json:"manifests"` // compared with the files that they list
	Steps     int `json:"steps"`     // with a commit, compared with what is made of it

	Problems []Problem `json:"problems"`
}

// Problem is something that is not as it should be.
type Problem struct {
	Path    string `json:"path"` // relative to the directory
	Problem string `json:"problem"`
}

func (p Problem) String() string {
	name := p.Path
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		name = quoted
	}
	return name + " " + p.Problem
}

// Verify compares a session's directory with itself: the files of workspaces
// with their manifests, what is made of commits with the commits, and the ledger
// with what it counts. Steps of
// other programs have no commits, and may have no manifests; of them only the
// manifests there are can be verified. The error says what prevented it; what
// is wrong with the session is in the result.
func Verify(ctx context.Context, dir string) (Verified, error) {
	v := &verifier{found: Verified{Problems: []Problem{}}}
	if _, err := os.Stat(dir); err != nil {
		return v.found, fmt.Errorf("verify %s: %w", dir, err)
	}
	store, err := artifact.NewDir(dir)
	if err != nil {
		return v.found, fmt.Errorf("verify: %w", err)
	}
	defer func() { _ = store.Close() }()
	if v.root, err = os.OpenRoot(dir); err != nil {
		return v.found, fmt.Errorf("verify: %w", err)
	}
	defer func() { _ = v.root.Close() }()
	v.store = store
	if err := v.run(ctx); err != nil {
		return v.found, fmt.Errorf("verify %s: %w", dir, err)
	}
	return v.found, nil
}

// verifier verifies one directory.
type verifier struct {
	store *artifact.Dir // its documents
	root  *os.Root      // its workspaces
	found Verified

	answers []answer // of all steps
}

func (v *verifier) run(ctx context.Context) error {
	for _, agent := range v.dirs("agents") {
		for _, number := range v.dirs("agents/" + agent) {
			if _, err := strconv.Atoi(number); err != nil {
				continue
			}
			if err := v.step(ctx, agent, number); err != nil {
				return err
			}
		}
	}
	for _, name := range v.dirs("steps") {
		if err := v.segment(ctx, name); err != nil {
			return err
		}
	}
	if err := v.ledger(ctx); err != nil {
		return err
	}
	return v.final(ctx)
}

// wrong adds a problem.
func (v *verifier) wrong(name, format string, args ...any) {
	v.found.Problems = append(v.found.Problems, Problem{Path: name, Problem: fmt.Sprintf(format, args...)})
}

// dirs lists the directories in dir, in order of their names.
func (v *verifier) dirs(dir string) []string {
	entries, err := fs.ReadDir(v.root.FS(), dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.wrong(dir, "cannot be read: %v", cause(err))
	}
	var names []string
	for _, e := range entries {
		switch {
		case e.IsDir():
			names = append(names, e.Name())
		case !e.Type().IsRegular():
			v.wrong(dir+"/"+e.Name(), "is neither a file nor a directory")
		}
	}
	return names
}

// read returns a document, nil if it is not there.
func (v *verifier) read(ctx context.Context, name string) ([]byte, error) {
	data, err := v.store.Get(ctx, name)
	switch {
	case err == nil:
		return data, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !errors.Is(err, artifact.ErrNotFound):
		v.wrong(name, "cannot be read: %v", cause(err))
	}
	return nil, nil
}

// cause is an error of the file system without the names that it repeats.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
