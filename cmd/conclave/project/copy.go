package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/scenario"
)

// ErrNoRun reports that the store does not have the run.
var ErrNoRun = errors.New("the store has no such run")

// Copy mirrors one run of the store while it goes on.
type Copy struct {
	project *Project
	store   artifact.Store
	prefix  string // of the run in the store; ends in "/"
	slug    string
	id      string

	last  string          // the newest copied result.json
	whole map[string]bool // steps with all files copied
}

// Copy returns a mirror of a scenario's run; Update copies.
func (p *Project) Copy(store artifact.Store, slug, id string) (*Copy, error) {
	if err := errors.Join(scenario.CheckSlug(slug), scenario.CheckRunID(id)); err != nil {
		return nil, err
	}
	prefix := artifact.InScenario(slug, id).Root()
	return &Copy{project: p, store: store, prefix: prefix, slug: slug, id: id, whole: map[string]bool{}}, nil
}

// Update copies the files of the steps that ended since the last call, then the
// result that names them. It returns the result, or ErrNoRun.
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

// copied matches the files of a step for people: evidence and transcripts.
var copied = regexp.MustCompile(`^(evidence/[A-Za-z0-9][A-Za-z0-9._-]*|(launch-[0-9]+/)?transcript\.jsonl)$`)

// stepID matches the ids of steps, which name folders.
var stepID = regexp.MustCompile(`^[0-9]{2}$`)

// step copies the files of a step, and removes evidence that the store no longer has:
// it belongs to an earlier verdict.
func (c *Copy) step(ctx context.Context, id string) error {
	if !stepID.MatchString(id) {
		return fmt.Errorf("the result of run %s names the step %.40q, which is not an id", c.id, id)
	}
	folder := "step-" + id + "/"
	stored := map[string]bool{}
	for key, err := range c.store.List(ctx, c.prefix+folder) {
		if err != nil {
			return fmt.Errorf("list %s: %w", c.store.URL(c.prefix+folder), err)
		}
		file := strings.TrimPrefix(key, c.prefix+folder)
		if !copied.MatchString(file) {
			continue
		}
		stored[file] = true
		if err := c.file(ctx, key, name(c.slug, "runs", c.id, folder+file)); err != nil {
			return err
		}
	}
	return c.remove(folder, stored)
}

// remove removes the evidence of a step that is not stored.
func (c *Copy) remove(folder string, stored map[string]bool) error {
	entries, err := c.project.entries(name(c.slug, "runs", c.id, folder+"evidence"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		file := "evidence/" + e.Name()
		if !e.Type().IsRegular() || !copied.MatchString(file) || stored[file] {
			continue
		}
		if err := c.project.root.Remove(name(c.slug, "runs", c.id, folder+file)); err != nil {
			return fmt.Errorf("remove %s, which is no longer evidence: %w", c.project.Path(c.slug, "runs", c.id, folder+file), unpathed(err))
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
