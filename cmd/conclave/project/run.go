package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"conclave/engine/filelock"
	"conclave/engine/scenario"
)

const resultFile = "result.json"

// Begin writes a result for a run before its start, so that a crash does not lose it,
// and returns it.
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

// Note writes a result without its evidence: the bucket of a cluster may be unknown.
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

// UnknownRunError reports a run that the directory does not have.
type UnknownRunError struct{ Slug, ID, Folder string }

func (e *UnknownRunError) Error() string {
	return fmt.Sprintf("there is no run %s of scenario %s in %s; `conclave scenario status` shows those there are", e.ID, e.Slug, e.Folder)
}

// Run reads the result of one run.
func (p *Project) Run(slug, id string) (scenario.Run, error) {
	if err := errors.Join(scenario.CheckSlug(slug), scenario.CheckRunID(id)); err != nil {
		return scenario.Run{}, err
	}
	data, err := p.read(name(slug, "runs", id, resultFile))
	if errors.Is(err, fs.ErrNotExist) {
		return scenario.Run{}, &UnknownRunError{Slug: slug, ID: id, Folder: p.Path(slug, "runs")}
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
		switch {
		case err == nil:
			runs = append(runs, r)
		case !errors.As(err, new(*UnknownRunError)):
			problems = append(problems, err.Error())
		}
	}
	slices.SortFunc(runs, scenario.Newer)
	slices.Sort(problems)
	return runs, problems, nil
}

// lockWait bounds the wait for another process that folds.
const lockWait = 10 * time.Second

// Fold computes a scenario's statistics from the results in its folder and writes
// them to meta.yaml. Processes take turns, so the last one sees all results.
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
