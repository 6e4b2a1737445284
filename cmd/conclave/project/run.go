package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/filelock"
	"conclave/engine/scenario"
)

const resultFile = "result.json"

// Begin writes and returns the initial result of a run. It is called before the start, so that a
// crash does not lose the run.
func (p *Project) Begin(slug, id string, at time.Time) ([]byte, error) {
	if err := errors.Join(scenario.CheckSlug(slug), scenario.CheckRunID(id)); err != nil {
		return nil, err
	}
	data, err := json.Marshal(scenario.Run{
		RunID: id, Scenario: slug, Status: scenario.Running, StartedAt: at.UTC().Format(time.RFC3339), Steps: []scenario.Result{},
	})
	if err != nil {
		return nil, fmt.Errorf("write the result of run %s: %w", id, err)
	}
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
	return p.writeBytes(name(slug, "runs", id, resultFile), b.Bytes())
}

// Forget removes the result of a run that was not started.
func (p *Project) Forget(slug, id string) error {
	folder := name(slug, "runs", id)
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
	data, err := p.read(name(slug, "runs", id, resultFile))
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
	entries, err := p.entries(name(slug, "runs"))
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
	if err := p.root.MkdirAll(name(slug, "runs"), 0o755); err != nil {
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
	before, err := p.read(name(slug, metaFile))
	if err != nil {
		return s, err
	}
	after, err := edit(before, []field{{"statistics", s}})
	if err != nil {
		return s, fmt.Errorf("read %s: %w", p.Path(slug, metaFile), err)
	}
	if string(after) == string(before) {
		return s, nil
	}
	return s, p.writeBytes(name(slug, metaFile), after)
}

// ErrNoRun reports that the store does not have the run.
var ErrNoRun = errors.New("the store has no such run")

// Copy mirrors a run from the store while it is running.
type Copy struct {
	project *Project
	store   artifact.Store
	prefix  string // prefix of the run in the store; ends in "/"
	slug    string
	id      string

	last  string          // the newest copied result.json
	whole map[string]bool // steps with all files copied
}

// Copy returns a mirror of a scenario's run. Its method Update copies the files.
func (p *Project) Copy(store artifact.Store, slug, id string) (*Copy, error) {
	if err := errors.Join(scenario.CheckSlug(slug), scenario.CheckRunID(id)); err != nil {
		return nil, err
	}
	prefix := artifact.InScenario(slug, id).Root()
	return &Copy{project: p, store: store, prefix: prefix, slug: slug, id: id, whole: map[string]bool{}}, nil
}

// Update copies the files of the steps that ended since the last call, and then
// the result that refers to them. It returns the result, or ErrNoRun.
func (c *Copy) Update(ctx context.Context) ([]byte, error) {
	data, err := c.store.Get(ctx, c.prefix+resultFile)
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, ErrNoRun
	}
	if err != nil {
		return nil, fmt.Errorf("read the result of run %s: %w", c.id, err)
	}
	run, err := scenario.ParseRun(data, c.slug, c.id)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.store.URL(c.prefix+resultFile), err)
	}
	if string(data) == c.last {
		return data, nil
	}
	for _, s := range run.Steps {
		if s.Status == scenario.Running || s.Status == scenario.Skipped || c.whole[s.ID] {
			continue
		}
		if err := c.step(ctx, s.ID); err != nil {
			return data, err
		}
		// A resumed run repeats a step that did not pass.
		c.whole[s.ID] = s.Status == scenario.Pass
	}
	if err := c.project.writeBytes(name(c.slug, "runs", c.id, resultFile), data); err != nil {
		return data, err
	}
	c.last = string(data)
	return data, nil
}

// copied matches those files of a step that people read: evidence and transcripts.
var copied = regexp.MustCompile(`^((attempt-[0-9]+/)?evidence/[A-Za-z0-9][A-Za-z0-9._-]*|(launch-[0-9]+/)?transcript\.jsonl)$`)

// stepID matches the IDs of steps, which are also folder names.
var stepID = regexp.MustCompile(`^[0-9]{2}$`)

// step copies the files of a step.
func (c *Copy) step(ctx context.Context, id string) error {
	if !stepID.MatchString(id) {
		return fmt.Errorf("the result of run %s names the step %.40q, which is not an id", c.id, id)
	}
	folder := "step-" + id + "/"
	for key, err := range c.store.List(ctx, c.prefix+folder) {
		if err != nil {
			return fmt.Errorf("list %s: %w", c.store.URL(c.prefix+folder), err)
		}
		file := strings.TrimPrefix(key, c.prefix+folder)
		if !copied.MatchString(file) {
			continue
		}
		if err := c.file(ctx, key, name(c.slug, "runs", c.id, folder+file)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Copy) file(ctx context.Context, key, file string) error {
	body, err := c.store.Open(ctx, key)
	if errors.Is(err, artifact.ErrNotFound) {
		return nil // removed after it was listed
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", c.store.URL(key), err)
	}
	defer body.Close()
	return c.project.write(file, func(w io.Writer) error {
		_, err := io.Copy(w, body)
		return err
	})
}
