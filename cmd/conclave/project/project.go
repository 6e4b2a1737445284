package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"conclave/engine/scenario"
)

const (
	scenariosDir = "scenarios"
	metaFile     = "meta.yaml"
	prdFile      = "prd.md"
)

// Project is an open directory.
type Project struct {
	root *os.Root
	dir  string // absolute
}

// Open opens a directory that is there.
func Open(dir string) (*Project, error) {
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

// Make opens a directory, and makes it if it is not there.
func Make(dir string) (*Project, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the project %s: %w", dir, err)
	}
	return Open(dir)
}

// Close closes it.
func (p *Project) Close() { _ = p.root.Close() } // nothing is written through it any more

// Dir is the directory, absolute.
func (p *Project) Dir() string { return p.dir }

// Path is where something of a scenario is, for people and other programs.
func (p *Project) Path(slug string, names ...string) string {
	return filepath.Join(append([]string{p.dir, scenariosDir, slug}, names...)...)
}

// name is a path in a scenario's folder, relative to the directory.
func name(slug string, names ...string) string {
	return filepath.ToSlash(filepath.Join(append([]string{scenariosDir, slug}, names...)...))
}

// Slugs are the scenarios there are, in byte order: the folders whose names are
// slugs and that hold a meta.yaml.
func (p *Project) Slugs() ([]string, error) {
	entries, err := p.entries(scenariosDir)
	if err != nil {
		return nil, err
	}
	slugs := []string{}
	for _, e := range entries {
		if !e.IsDir() || scenario.CheckSlug(e.Name()) != nil {
			continue
		}
		if info, err := p.root.Lstat(name(e.Name(), metaFile)); err == nil && info.Mode().IsRegular() {
			slugs = append(slugs, e.Name())
		}
	}
	slices.Sort(slugs)
	return slugs, nil
}

// entries are those of a folder; none if there is no such folder.
func (p *Project) entries(folder string) ([]fs.DirEntry, error) {
	f, err := p.root.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", filepath.Join(p.dir, folder), err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", filepath.Join(p.dir, folder), err)
	}
	return entries, nil
}
