package project

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
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
	dir  string // absolute path
}

// Open opens an existing directory.
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

// Make opens a directory and creates it if it is missing.
func Make(dir string) (*Project, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the project %s: %w", dir, err)
	}
	return Open(dir)
}

// Close releases the directory.
func (p *Project) Close() { _ = p.root.Close() } // all writes are complete

// Dir returns the absolute path of the directory.
func (p *Project) Dir() string { return p.dir }

// Path returns the absolute path of a file in a scenario's folder.
func (p *Project) Path(slug string, names ...string) string {
	return filepath.Join(append([]string{p.dir, scenariosDir, slug}, names...)...)
}

// name returns a path in a scenario's folder, relative to the project.
func name(slug string, names ...string) string {
	return filepath.ToSlash(filepath.Join(append([]string{scenariosDir, slug}, names...)...))
}

// Slugs returns the scenarios, in byte order: the folders that are named like a slug and contain a
// meta.yaml.
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

// entries lists a folder. A missing folder has no entries.
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

// maxDocument is the maximum size of a file that is read, in bytes.
const maxDocument = 1 << 20

// read reads a regular file. It does not follow links.
func (p *Project) read(file string) ([]byte, error) {
	info, err := p.root.Lstat(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(p.dir, file), unpathed(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: not a regular file", filepath.Join(p.dir, file))
	}
	f, err := p.root.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(p.dir, file), unpathed(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", filepath.Join(p.dir, file), err)
	case len(data) > maxDocument:
		return nil, fmt.Errorf("read %s: it has more than %d bytes", filepath.Join(p.dir, file), maxDocument)
	}
	return data, nil
}

// write replaces a file atomically.
func (p *Project) write(file string, fill func(io.Writer) error) error {
	err := p.root.MkdirAll(path.Dir(file), 0o755)
	if err == nil {
		err = p.replace(file, fill)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(p.dir, file), unpathed(err))
	}
	return nil
}

func (p *Project) replace(file string, fill func(io.Writer) error) error {
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
	return p.write(file, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// unpathed returns the cause of an error that names a relative path.
func unpathed(err error) error {
	if at, ok := errors.AsType[*os.PathError](err); ok {
		return at.Err
	}
	return err
}
