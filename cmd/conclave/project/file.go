package project

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
)

// maxDocument bounds a file of a project that is read whole, in bytes.
const maxDocument = 1 << 20

// read reads a regular file. Links are not followed: a definition is what is in
// its folder.
func (p *Project) read(file string) ([]byte, error) {
	info, err := p.root.Lstat(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(p.dir, file), unpathed(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: it is no regular file", filepath.Join(p.dir, file))
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

// write makes a file appear whole under its name, replacing what was there.
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
	defer func() { _ = p.root.Remove(temp) }() // after the rename it is gone already
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

// unpathed is the cause of an error that names a path of its own, which is
// relative.
func unpathed(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
