package scenario

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"conclave/cmd/conclave/command/files"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/scenario"
)

const resultFile = "result.json"

// Begin writes and returns the initial result of a run. It is called before the start, so that a
// crash does not lose the run.
func (p *Project) Begin(slug, id string, at time.Time) ([]byte, error) {
	if err := errors.Join(scenario.CheckSlug(slug), scenario.CheckRunID(id)); err != nil {
		return nil, err
	}
	data, _ := json.Marshal(scenario.Run{
		RunID: id, Scenario: slug, Status: scenario.Running, StartedAt: at.UTC().Format(time.RFC3339), Steps: []scenario.Result{},
	}) // a result always has a JSON form
	return data, p.Note(slug, id, data)
}

// Note writes a result without its evidence, which may be in a cluster's unknown bucket.
func (p *Project) Note(slug, id string, document []byte) error {
	if _, err := scenario.ParseRun(document, slug, id); err != nil {
		return fmt.Errorf("write the result of run %s: %w", id, err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, document, "", "  "); err != nil {
		return fmt.Errorf("write the result of run %s: %w", id, err)
	}
	b.WriteByte('\n')
	return p.writeBytes(scenarioPath(slug, "runs", id, resultFile), b.Bytes())
}

// Forget removes the result of a run that was not started.
func (p *Project) Forget(slug, id string) error {
	folder := scenarioPath(slug, "runs", id)
	err := errors.Join(p.root.Remove(folder+"/"+resultFile), p.root.Remove(folder))
	if err != nil {
		return fmt.Errorf("remove %s, whose run was not started: %w", p.Path(slug, "runs", id), err)
	}
	return nil
}

// unknownRunError reports a run that the directory does not have.
type unknownRunError struct{ Slug, ID, Folder string }

func (e *unknownRunError) Error() string {
	return fmt.Sprintf("there is no run %s of scenario %s in %s; `conclave scenario status` lists the runs", e.ID, e.Slug, e.Folder)
}

// Run reads the result of a run.
func (p *Project) Run(slug, id string) (scenario.Run, error) {
	if err := errors.Join(scenario.CheckSlug(slug), scenario.CheckRunID(id)); err != nil {
		return scenario.Run{}, err
	}
	data, err := p.readDocument(scenarioPath(slug, "runs", id, resultFile))
	if errors.Is(err, fs.ErrNotExist) {
		return scenario.Run{}, &unknownRunError{Slug: slug, ID: id, Folder: p.Path(slug, "runs")}
	}
	if err != nil {
		return scenario.Run{}, err
	}
	r, err := scenario.ParseRun(data, slug, id)
	if err != nil {
		return r, fmt.Errorf("read %s: %w", p.Path(slug, "runs", id, resultFile), err)
	}
	return r, nil
}

// Runs reads the runs of a scenario, the newest first, and reports invalid results.
func (p *Project) Runs(slug string) (runs []scenario.Run, problems []string, err error) {
	entries, err := p.listFolder(scenarioPath(slug, "runs"))
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || scenario.CheckRunID(e.Name()) != nil {
			continue
		}
		r, err := p.Run(slug, e.Name())
		if _, unknown := errors.AsType[*unknownRunError](err); unknown {
			continue
		}
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		runs = append(runs, r)
	}
	slices.SortFunc(runs, scenario.Run.Compare)
	slices.Sort(problems)
	return runs, problems, nil
}

// lockWait is the maximum wait for another process that updates the statistics.
const lockWait = 10 * time.Second

// Fold computes the statistics of a scenario from its results and writes them to meta.yaml. Only
// one process at a time does this.
func (p *Project) Fold(ctx context.Context, slug string) (scenario.Statistics, error) {
	if err := p.root.MkdirAll(scenarioPath(slug, "runs"), 0o755); err != nil {
		return scenario.Statistics{}, fmt.Errorf("fold the statistics of scenario %s: %w", slug, err)
	}
	waiting, stop := context.WithTimeout(ctx, lockWait)
	defer stop()
	lock, err := filelock.Wait(waiting, filepath.Join(p.Path(slug, "runs"), ".lock"), filelock.Exclusive)
	if err != nil {
		return scenario.Statistics{}, fmt.Errorf("fold the statistics of scenario %s: %w", slug, err)
	}
	defer func() { _ = lock.Close() }()
	runs, _, err := p.Runs(slug)
	if err != nil {
		return scenario.Statistics{}, err
	}
	s := scenario.Fold(runs)
	before, err := p.readDocument(scenarioPath(slug, metaFile))
	if err != nil {
		return s, err
	}
	after, err := editFields(before, []field{{"statistics", s}})
	if err != nil {
		return s, fmt.Errorf("read %s: %w", p.Path(slug, metaFile), err)
	}
	if string(after) == string(before) {
		return s, nil
	}
	return s, p.writeBytes(scenarioPath(slug, metaFile), after)
}

// ErrNoRun reports that the store does not have the run.
var ErrNoRun = errors.New("the store has no such run")

// RunCopy mirrors a run from the store while it is running.
type RunCopy struct {
	project *Project
	run     record.Run
	slug    string
	id      string

	last string // the newest copied result.json
}

// Copy returns a mirror of a scenario's run. Its method Update copies the files.
func (p *Project) Copy(store artifact.Store, slug, id string) (*RunCopy, error) {
	if err := errors.Join(scenario.CheckSlug(slug), scenario.CheckRunID(id)); err != nil {
		return nil, err
	}
	return &RunCopy{project: p, run: record.Scenarios.At(store, slug+"/"+id), slug: slug, id: id}, nil
}

// Update copies the files of the steps that ended since the last call, and then
// the result that refers to them. It returns the result, or ErrNoRun.
func (c *RunCopy) Update(ctx context.Context) ([]byte, error) {
	key := c.run.Layout.File(resultFile)
	data, err := c.run.Store.Get(ctx, key)
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, ErrNoRun
	}
	if err != nil {
		return nil, fmt.Errorf("read the result of run %s: %w", c.id, err)
	}
	run, err := scenario.ParseRun(data, c.slug, c.id)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.run.Store.URL(key), err)
	}
	if string(data) == c.last {
		return data, nil
	}
	ended := map[string]bool{} // by the folder of the step
	for _, s := range run.Steps {
		ended["step-"+s.ID] = s.Status != scenario.Running && s.Status != scenario.Skipped
	}
	folder := scenarioPath(c.slug, "runs", c.id)
	if err := c.project.root.MkdirAll(folder, 0o755); err != nil { // fails if a link leads out of the project
		return data, fmt.Errorf("make %s: %w", c.project.Path(c.slug, "runs", c.id), withoutPath(err))
	}
	err = files.CopyFiles(ctx, c.run, c.project.Path(c.slug, "runs", c.id), func(file string) bool {
		step, rest, _ := strings.Cut(file, "/")
		return ended[step] && copied.MatchString(rest)
	})
	if err == nil {
		err = c.project.writeBytes(folder+"/"+resultFile, data)
	}
	if err == nil {
		c.last = string(data)
	}
	return data, err
}

// copied matches those files of a step that people read: evidence and transcripts.
var copied = regexp.MustCompile(`^((attempt-[0-9]+/)?evidence/[A-Za-z0-9][A-Za-z0-9._-]*|(launch-[0-9]+/)?transcript\.jsonl)$`)

const (
	scenariosDir = "scenarios"
	metaFile     = "meta.yaml"
	prdFile      = "prd.md"
)

// Project is an open directory.
type Project struct {
	root *os.Root
	dir  string // absolute path
}

// OpenProject opens an existing directory.
func OpenProject(dir string) (*Project, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the project %s: %w", dir, err)
	}
	root, err := os.OpenRoot(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no directory %s; `conclave scenario create` makes one with its first scenario", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open the project %s: %w", dir, err)
	}
	return &Project{root, abs}, nil
}

// MakeProject opens a directory and creates it if it is missing.
func MakeProject(dir string) (*Project, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the project %s: %w", dir, err)
	}
	return OpenProject(dir)
}

// Close releases the directory.
func (p *Project) Close() { _ = p.root.Close() } // all writes are complete

// Dir returns the absolute path of the directory.
func (p *Project) Dir() string { return p.dir }

// Path returns the absolute path of a file in a scenario's folder.
func (p *Project) Path(slug string, names ...string) string {
	return filepath.Join(append([]string{p.dir, scenariosDir, slug}, names...)...)
}

func scenarioPath(slug string, names ...string) string {
	return filepath.ToSlash(filepath.Join(append([]string{scenariosDir, slug}, names...)...))
}

// Slugs returns the scenarios, in byte order: the folders that are named like a slug and contain a meta.yaml.
func (p *Project) Slugs() ([]string, error) {
	entries, err := p.listFolder(scenariosDir)
	if err != nil {
		return nil, err
	}
	slugs := []string{}
	for _, e := range entries {
		if !e.IsDir() || scenario.CheckSlug(e.Name()) != nil {
			continue
		}
		if info, err := p.root.Lstat(scenarioPath(e.Name(), metaFile)); err == nil && info.Mode().IsRegular() {
			slugs = append(slugs, e.Name())
		}
	}
	return slugs, nil
}

// listFolder lists a folder in byte order. A missing folder has no entries.
func (p *Project) listFolder(folder string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(p.root.FS(), folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look into %s: %w", filepath.Join(p.dir, folder), withoutPath(err))
	}
	return entries, nil
}

// maxDocument is the maximum size of a file that is read, in bytes.
const maxDocument = 1 << 20

func (p *Project) readDocument(file string) ([]byte, error) { return p.readUpTo(file, maxDocument) }

// readUpTo reads a regular file of at most some bytes. It does not follow links.
func (p *Project) readUpTo(file string, most int64) ([]byte, error) {
	info, err := p.root.Lstat(file)
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("not a regular file")
	case info.Size() > most:
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	var data []byte
	if err == nil {
		data, err = p.root.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(p.dir, file), withoutPath(err))
	}
	return data, nil
}

// writeFile replaces a file atomically.
func (p *Project) writeFile(file string, fill func(io.Writer) error) error {
	err := p.root.MkdirAll(path.Dir(file), 0o755)
	if err == nil {
		err = p.replaceFile(file, fill)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(p.dir, file), withoutPath(err))
	}
	return nil
}

func (p *Project) replaceFile(file string, fill func(io.Writer) error) error {
	temp := path.Dir(file) + "/.tmp-" + rand.Text()
	f, err := p.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = p.root.Remove(temp) }() // after the rename there is nothing to remove
	if err := errors.Join(fill(f), f.Close()); err != nil {
		return err
	}
	return p.root.Rename(temp, file)
}

func (p *Project) writeBytes(file string, data []byte) error {
	return p.writeFile(file, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

func withoutPath(err error) error {
	if at, ok := errors.AsType[*os.PathError](err); ok {
		return at.Err
	}
	return err
}
