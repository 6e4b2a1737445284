package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/inputs"
	"conclave/engine/eval"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/session/check"
)

// materials stores the files of questions. Each directory is stored once. It is safe for concurrent use.
type materials struct {
	conn *cli.Connection
	dir  string // directory of the data set

	mu   sync.Mutex
	refs map[string]string // reference by directory or content
}

// checkMaterial refuses a question whose directories are missing or whose checks are malformed.
func checkMaterial(dir string, q eval.Question) error {
	m := &materials{dir: dir}
	checks, list := q.ChecksAt()
	for field, name := range map[string]string{"base": q.Base, "checks": checks} {
		if name == "" {
			continue
		}
		switch info, err := os.Stat(m.resolvePath(name)); {
		case err != nil:
			return fmt.Errorf("its %s: %w; name a directory, relative to the file of questions", field, err)
		case !info.IsDir():
			return fmt.Errorf("its %s %s is not a directory", field, name)
		}
	}
	if _, err := check.Parse(list); err != nil {
		return fmt.Errorf("its checks: %w", err)
	}
	return nil
}

// baseReference returns the reference to the files that a question starts from, or "" if it has none.
func (m *materials) baseReference(ctx context.Context, q eval.Question) (string, error) {
	switch {
	case q.Base != "":
		return m.storeDirectory(ctx, m.resolvePath(q.Base))
	case len(q.Files) > 0:
		return m.storeInline(ctx, q.Files)
	}
	return "", nil
}

func (m *materials) checksReference(ctx context.Context, q eval.Question) (string, error) {
	dir, list := q.ChecksAt()
	switch {
	case dir != "":
		return m.storeDirectory(ctx, m.resolvePath(dir))
	case list != nil:
		return m.storeInline(ctx, map[string]string{"checks.yaml": string(list)}) // JSON is valid YAML
	}
	return "", nil
}

func (m *materials) resolvePath(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(m.dir, name)
}

func (m *materials) storeInline(ctx context.Context, files map[string]string) (string, error) {
	key, _ := json.Marshal(files) // strings always have a JSON form
	return m.storeOnce(ctx, string(key), func() (string, error) {
		dir, err := os.MkdirTemp("", "conclave-eval-")
		if err != nil {
			return "", fmt.Errorf("make a directory for the files of a question: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		root, err := os.OpenRoot(dir)
		if err != nil {
			return "", fmt.Errorf("make a directory for the files of a question: %w", err)
		}
		defer root.Close()
		for name, content := range files {
			err := root.MkdirAll(filepath.Dir(name), 0o755)
			if err == nil {
				err = root.WriteFile(name, []byte(content), 0o644)
			}
			if err != nil {
				return "", fmt.Errorf("write the file %q of a question: %w", name, err)
			}
		}
		return m.uploadQuietly(ctx, dir)
	})
}

func (m *materials) storeDirectory(ctx context.Context, dir string) (string, error) {
	return m.storeOnce(ctx, "dir "+dir, func() (string, error) { return m.uploadQuietly(ctx, dir) })
}

func (m *materials) storeOnce(_ context.Context, key string, send func() (string, error)) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ref, known := m.refs[key]; known {
		return ref, nil
	}
	ref, err := send()
	if err == nil {
		m.refs[key] = ref
	}
	return ref, err
}

func (m *materials) uploadQuietly(ctx context.Context, dir string) (string, error) {
	quiet := *m.conn.CLI
	quiet.Automation, quiet.Stderr = true, io.Discard
	done, err := inputs.Upload(ctx, &quiet, m.conn.Store, dir, false)
	if err != nil {
		return "", err
	}
	return snapshot.Reference(done.Hash), nil
}

func (m *materials) layoutOn(ctx context.Context, layout artifact.Layout, reference string) (artifact.Layout, error) {
	stored, err := m.openReference(ctx, reference)
	if err != nil {
		return layout, err
	}
	return layout.On(stored), nil
}

func (m *materials) openReference(ctx context.Context, reference string) (*artifact.Base, error) {
	hash, err := snapshot.Parse(reference)
	if err != nil {
		return nil, err
	}
	return snapshot.Open(ctx, m.conn.Store, hash)
}

func (m *materials) checkDefinitions(ctx context.Context, q eval.Question, layout artifact.Layout) ([]check.Definition, error) {
	reference, err := m.checksReference(ctx, q)
	if err != nil {
		return nil, err
	}
	stored, err := m.openReference(ctx, reference)
	if err != nil {
		return nil, err
	}
	found, err := check.OfUser(ctx, stored.Manifest(), stored.ReadFile)
	if err != nil {
		return nil, fmt.Errorf("its checks: %w", err)
	}
	for _, f := range stored.Manifest().Files {
		if f.SHA256 == "" {
			continue
		}
		content, err := stored.ReadFile(ctx, f)
		if err != nil {
			return nil, err
		}
		if _, err := artifact.PutBlob(ctx, m.conn.Store, layout, content); err != nil {
			return nil, err
		}
	}
	return found, nil
}
