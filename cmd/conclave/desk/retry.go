package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"strings"
	"time"

	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/hall"
	"conclave/engine/artifact"
)

// pending is the record of a request without a key. It exists from the start of the
// session until the caller has received the reply.
type pending struct {
	Server server `json:"server"`
	Broken bool   `json:"broken,omitempty"` // the connection broke off
}

// brokenOff returns the newest session that an equal request of the caller started,
// whose reply nobody received, or "". The official clients of OpenAI's API mark a
// repeated request, which may arrive before the broken connection is recorded: on a busy machine,
// seconds before.
func (d *Desk) brokenOff(ctx context.Context, by access.Caller, hash string) string {
	const lag, interval = 5 * time.Second, 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
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

// pending records that a question without a key waits for its reply, and marks the record
// when the connection of ctx breaks. closed removes the record once the caller has the
// reply.
func (d *Desk) pending(ctx context.Context, by access.Caller, hash, session string) (closed func(received bool)) {
	key := pendingPrefix(by, hash) + session + ".json"
	lasting := context.WithoutCancel(ctx)
	d.record(lasting, key, pending{Server: d.server})
	recorded := make(chan struct{})
	broke := context.AfterFunc(ctx, func() {
		defer close(recorded)
		d.record(lasting, key, pending{Server: d.server, Broken: true})
	})
	return func(received bool) {
		if !broke() {
			<-recorded
			return
		}
		if !received {
			return
		}
		ctx, cancel := context.WithTimeout(lasting, hall.ReachTimeout)
		defer cancel()
		_ = d.conn.Store.Delete(ctx, key) // only a repeated request reads it
	}
}

// record replaces a small record. If it is lost, repeating a request without a key
// starts a second session.
func (d *Desk) record(ctx context.Context, key string, p pending) {
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	data, _ := json.Marshal(p) // encoding of strings and booleans cannot fail
	if err := d.conn.Store.Put(ctx, key, bytes.NewReader(data)); err != nil && ctx.Err() == nil {
		d.conn.Warnf("a repeated request will not find its session: %v", err)
	}
}
