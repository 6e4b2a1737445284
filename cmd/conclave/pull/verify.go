package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"conclave/engine/artifact"
	"conclave/engine/team"
	"conclave/workflows/drive"
)

// verification is the result of a verification.
type verification struct {
	Manifests int `json:"manifests"` // compared with the files that they list
	Steps     int `json:"steps"`     // number of steps with a commit, compared with the documents derived from it

	// Uncounted are the directories of committed steps that no entry of the ledger counts: a decision, a
	// cancellation or a reset came first, or the action was refused. Their documents may be missing.
	Uncounted []string `json:"uncounted,omitempty"`

	Problems []problem `json:"problems"`
}

// problems returns the problems found, or nil if nothing was verified.
func (v *verification) problems() []problem {
	if v == nil {
		return nil
	}
	return v.Problems
}

// problem is a path that fails verification.
type problem struct {
	Path    string `json:"path"` // relative to the directory
	Problem string `json:"problem"`
}

func (p problem) String() string {
	name := p.Path
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		name = quoted
	}
	return name + " " + p.Problem
}

// verifyDir verifies the files of a session's directory: workspaces against their manifests,
// derived documents against the commits, and the ledger against its steps. Steps written by
// other programs have no commits, so only their manifests are verified.
func verifyDir(ctx context.Context, dir string) (verification, error) {
	v := &verifier{
		found: verification{Problems: []problem{}}, commits: map[numbered]artifact.Commit{}, counted: map[numbered]bool{}, replaced: map[string]bool{},
	}
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

// verifier verifies one directory. If ctx ends, its methods stop early and run returns the error.
type verifier struct {
	store *artifact.Dir // store for documents
	root  *os.Root      // root for workspaces
	found verification

	base     *artifact.Base // base of the session; nil without one
	agents   []string       // agents of the team
	running  bool           // status.json says that the session runs
	entries  []team.Entry   // all of the ledger
	counted  map[numbered]bool
	answers  []answer // answers of all steps
	commits  map[numbered]artifact.Commit
	replaced map[string]bool // documents that follow from commits and that later commits replace
}

func (v *verifier) run(ctx context.Context) error {
	v.readBase(ctx)
	v.agents = v.team(ctx)
	v.readLedger(ctx)
	for _, agent := range v.dirs("agents") {
		for _, number := range v.dirs("agents/" + agent) {
			if _, err := strconv.Atoi(number); err == nil {
				v.step(ctx, agent, "agents/"+agent+"/"+number+"/")
			}
		}
	}
	for _, name := range v.dirs("steps") {
		v.pipelineStep(ctx, "steps/"+name+"/")
	}
	v.ledger(ctx)
	v.final(ctx)
	return ctx.Err()
}

// team returns the IDs of the agents in status.json, or else of the agents that have
// steps.
func (v *verifier) team(ctx context.Context) []string {
	var s struct {
		Status string
		Agents []struct{ ID string }
	}
	var ids []string
	if data, err := v.store.Get(ctx, "status.json"); err == nil && json.Unmarshal(data, &s) == nil {
		v.running = s.Status == drive.Running
		for _, a := range s.Agents {
			ids = append(ids, a.ID)
		}
	}
	if ids == nil {
		ids = v.dirs("agents")
	}
	return ids
}

// report adds a problem unless it has been reported already.
func (v *verifier) report(name, format string, args ...any) {
	if p := (problem{Path: name, Problem: fmt.Sprintf(format, args...)}); !slices.Contains(v.found.Problems, p) {
		v.found.Problems = append(v.found.Problems, p)
	}
}

// dirs returns the names of the directories in dir.
func (v *verifier) dirs(dir string) []string {
	entries, err := fs.ReadDir(v.root.FS(), dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.report(dir, "cannot be read: %v", cause(err))
	}
	var names []string
	for _, e := range entries {
		switch {
		case e.IsDir():
			names = append(names, e.Name())
		case !e.Type().IsRegular():
			v.report(dir+"/"+e.Name(), "is neither a file nor a directory")
		}
	}
	return names
}

// read returns a document, or nil if it is missing or unreadable. It reports an unreadable one.
func (v *verifier) read(ctx context.Context, name string) []byte {
	data, err := v.store.Get(ctx, name)
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		v.report(name, "cannot be read: %v", cause(err))
	}
	return data
}

// decode decodes a document. If it is malformed, decode reports that and returns false.
func (v *verifier) decode(name string, data []byte, doc any) bool {
	if err := json.Unmarshal(data, doc); err != nil {
		v.report(name, "is malformed: %v", err)
		return false
	}
	return true
}

// cause removes file names from an error, because the problem already has the path.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
