package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/inputs"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
)

// pending is the record of a request without a key. It exists from the start of the
// session until the caller has received the reply.
type pending struct {
	Server server `json:"server"`
	Broken bool   `json:"broken,omitempty"` // the connection broke off
}

// brokenOff returns the newest session that an equal request of the caller started, whose reply nobody
// received, or "". The official clients of OpenAI's API mark a repeated request, which may arrive before the
// broken connection is recorded: on a busy machine, seconds before.
func (d *Desk) brokenOff(ctx context.Context, by access.Caller, hash string) string {
	const lag, interval = 5 * time.Second, 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	for deadline := time.Now().Add(lag); ; {
		session, out := d.newestBroken(ctx, pendingPrefix(by, hash))
		if session != "" || out == 0 || time.Now().After(deadline) {
			return session
		}
		select {
		case <-ctx.Done():
			return ""
		case <-time.After(interval):
		}
	}
}

// newestBroken returns the newest session under a prefix whose connection broke, and the
// number of sessions whose connection is still open.
func (d *Desk) newestBroken(ctx context.Context, prefix string) (newest string, attended int) {
	for key, err := range d.conn.Store.List(ctx, prefix) {
		if err != nil {
			return newest, attended
		}
		p, err := artifact.ReadJSON[pending](ctx, d.conn.Store, key)
		ended := p.Server.Address == d.server.Address && p.Server.Process != d.server.Process
		switch id := strings.TrimSuffix(path.Base(key), ".json"); {
		case err != nil:
		case !p.Broken && !ended:
			attended++
		case id > newest:
			newest = id
		}
	}
	return newest, attended
}

func pendingPrefix(by access.Caller, hash string) string {
	return "callers/requests/" + Hash([]byte(by.Name), []byte(hash)) + "/"
}

// recordPending records that a question without a key waits for its reply, and marks the record when the
// connection of ctx breaks. closed removes the record once the caller has the reply.
func (d *Desk) recordPending(ctx context.Context, by access.Caller, hash, session string) (closed func(received bool)) {
	key := pendingPrefix(by, hash) + session + ".json"
	lasting := context.WithoutCancel(ctx)
	d.putRecord(lasting, key, pending{Server: d.server})
	recorded := make(chan struct{})
	broke := context.AfterFunc(ctx, func() {
		defer close(recorded)
		d.putRecord(lasting, key, pending{Server: d.server, Broken: true})
	})
	return func(received bool) {
		if !broke() {
			<-recorded
			return
		}
		if !received {
			return
		}
		ctx, cancel := context.WithTimeout(lasting, cli.ReachTimeout)
		defer cancel()
		_ = d.conn.Store.Delete(ctx, key) // only a repeated request reads it
	}
}

// putRecord replaces a small record. If it is lost, repeating a request without a key
// starts a second session.
func (d *Desk) putRecord(ctx context.Context, key string, p pending) {
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	data, _ := json.Marshal(p) // encoding of strings and booleans cannot fail
	if err := d.conn.Store.Put(ctx, key, bytes.NewReader(data)); err != nil && ctx.Err() == nil {
		d.conn.Warnf("a repeated request will not find its session: %v", err)
	}
}

// Upload stores a directory of this machine and returns its reference.
func (d *Desk) Upload(ctx context.Context, dir string) (reference string, err error) {
	if err := inputs.CheckDirectory(dir); err != nil {
		return "", badMaterial("%v", err)
	}
	done, err := inputs.Upload(ctx, d.conn.CLI, d.conn.Store, dir, false)
	if err != nil {
		if cli.ExitCode(err) == cli.ExitUsage {
			return "", badMaterial("%v", err)
		}
		return "", unavailableRefusal("upload "+dir, err)
	}
	return snapshot.Reference(done.Hash), nil
}

// StorePictures stores the pictures of a question.
func (d *Desk) StorePictures(ctx context.Context, files []inputs.File) ([]artifact.Picture, error) {
	if err := inputs.CheckPictures(files); err != nil {
		return nil, badMaterial("%v", err)
	}
	shown, err := inputs.StorePictures(ctx, d.conn.Store, files)
	if err != nil {
		return nil, unavailableRefusal("store the pictures", err)
	}
	return shown, nil
}

// Remember records the directory of a session's base, the default target of `apply`.
func (d *Desk) Remember(session, dir string) { inputs.Remember(d.conn, session, dir) }

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
	hash, err := snapshot.Parse(reference)
	if err != nil {
		return badMaterial("%s is %.80q, not the reference sha256:… that `conclave upload DIR` prints", part, reference)
	}
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	_, err = snapshot.Open(ctx, d.conn.Store, hash)
	if _, missing := errors.AsType[*snapshot.MissingError](err); missing {
		return badMaterial("%s is %s, which is not stored here; `conclave upload DIR` stores a directory", part, reference)
	}
	if err != nil {
		return unavailableRefusal("look up "+part, err)
	}
	return nil
}

func badMaterial(format string, args ...any) error {
	return &Refusal{Status: http.StatusBadRequest, Code: "invalid_value", Message: fmt.Sprintf(format, args...)}
}
