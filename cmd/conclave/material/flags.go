package material

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"conclave/cmd/conclave/hall"
	"conclave/engine/artifact"
	"conclave/engine/base"
)

// Flags are the flags --base, --context and --include-secrets.
type Flags struct {
	base    string
	context []string
	secrets bool
}

// Add adds the flags to a command.
func (f *Flags) Add(set *pflag.FlagSet) {
	set.StringVar(&f.base, "base", "", "start every step with the files of `DIR`, without ignored files and secrets")
	set.StringArrayVar(&f.context, "context", nil, "show the files of `DIR[=NAME]` read-only as context/NAME/ (default: the name of DIR); repeatable")
	set.BoolVar(&f.secrets, "include-secrets", false, "with --base and --context: include .env, private keys and other files with secrets")
}

// Directory returns the absolute path of --base, or "" without the flag.
func (f *Flags) Directory() string {
	if f.base == "" {
		return ""
	}
	dir, err := filepath.Abs(f.base)
	if err != nil {
		return f.base
	}
	return dir
}

// source is a directory to upload.
type source struct{ name, dir string }

// Check refuses directories that do not exist, and context names that cannot be shown.
func (f *Flags) Check() error {
	_, err := f.sources()
	return err
}

// sources returns the directories. The base has an empty name.
func (f *Flags) sources() ([]source, error) {
	var sources []source
	if f.base != "" {
		sources = append(sources, source{dir: f.base})
	}
	names := map[string]bool{}
	for _, value := range f.context {
		s := source{dir: value}
		if at := strings.LastIndexByte(value, '='); at > 0 {
			s.dir, s.name = value[:at], value[at+1:]
		} else if abs, err := filepath.Abs(value); err == nil {
			s.name = filepath.Base(abs)
		}
		if err := artifact.CheckContextName(s.name); err != nil {
			return nil, fmt.Errorf("--context %s: %w; give one as DIR=NAME", value, err)
		}
		if names[s.name] {
			return nil, fmt.Errorf("--context %s: there is another context %s; give this one a name as DIR=NAME", value, s.name)
		}
		names[s.name] = true
		sources = append(sources, s)
	}
	for _, s := range sources {
		if err := CheckDirectory(s.dir); err != nil {
			return nil, err
		}
	}
	return sources, nil
}

// CheckDirectory refuses a path that is not a directory.
func CheckDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("upload %s: %w; name a directory", dir, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("upload %s: it is a file; name a directory", dir)
	}
	return nil
}

// Upload stores the directories in the connected store and returns their references.
func (f *Flags) Upload(ctx context.Context, conn *hall.Connection) (artifact.Material, error) {
	if conn.Store == nil && (f.base != "" || len(f.context) > 0) {
		return artifact.Material{}, fmt.Errorf("--base and --context need the bucket of the cluster's sessions: name it with --bucket (and --prefix)")
	}
	return f.Store(ctx, conn.CLI, conn.Store)
}

// Store stores the directories and returns their references.
func (f *Flags) Store(ctx context.Context, c *hall.CLI, store artifact.Store) (m artifact.Material, err error) {
	sources, err := f.sources()
	if err != nil {
		return m, err
	}
	for _, s := range sources {
		done, err := Upload(ctx, c, store, s.dir, f.secrets)
		if err != nil {
			return m, err
		}
		if s.name == "" {
			m.Base = base.Reference(done.Hash)
		} else {
			m.Context = append(m.Context, artifact.Context{Name: s.name, Manifest: base.Reference(done.Hash)})
		}
	}
	return m, nil
}
