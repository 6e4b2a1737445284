package desk

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/material"
	"conclave/engine/artifact"
	"conclave/engine/base"
)

// Upload stores a directory of this machine and returns its reference.
func (d *Desk) Upload(ctx context.Context, dir string) (reference string, err error) {
	if err := material.CheckDirectory(dir); err != nil {
		return "", badMaterial("%v", err)
	}
	done, err := material.Upload(ctx, d.conn.CLI, d.conn.Store, dir, false)
	if err != nil {
		if hall.ExitCode(err) == hall.ExitUsage {
			return "", badMaterial("%v", err)
		}
		return "", unavailable("upload "+dir, err)
	}
	return base.Reference(done.Hash), nil
}

// Remember records the directory of a session's base, the default target of `apply`.
func (d *Desk) Remember(session, dir string) { material.Remember(d.conn, session, dir) }

// CheckMaterial refuses references to directories that are not stored, and names of contexts
// that cannot be shown.
func (d *Desk) CheckMaterial(ctx context.Context, m artifact.Material) error {
	names := map[string]bool{}
	for _, c := range m.Context {
		if err := artifact.CheckContextName(c.Name); err != nil {
			return badMaterial("%v", err)
		}
		if names[c.Name] {
			return badMaterial("two contexts have the name %s; give each its own", c.Name)
		}
		names[c.Name] = true
		if err := d.checkReference(ctx, "the context "+c.Name, c.Manifest); err != nil {
			return err
		}
	}
	if m.Base == "" {
		return nil
	}
	return d.checkReference(ctx, "the base", m.Base)
}

func (d *Desk) checkReference(ctx context.Context, part, reference string) error {
	hash, err := base.Parse(reference)
	if err != nil {
		return badMaterial("%s is %.80q, not the reference sha256:… that `conclave upload DIR` prints", part, reference)
	}
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	_, err = base.Open(ctx, d.conn.Store, hash)
	if _, missing := errors.AsType[*base.MissingError](err); missing {
		return badMaterial("%s is %s, which is not stored here; `conclave upload DIR` stores a directory", part, reference)
	}
	if err != nil {
		return unavailable("look up "+part, err)
	}
	return nil
}

func badMaterial(format string, args ...any) error {
	return &Refusal{Status: http.StatusBadRequest, Code: "invalid_value", Message: fmt.Sprintf(format, args...)}
}
