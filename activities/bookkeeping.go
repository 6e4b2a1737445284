package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/engine/files/artifact"
	"conclave/engine/step"
)

// Beat sends a heartbeat without details every three seconds until stop is called.
func Beat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(3 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// fencedStore is a Store that replaces and deletes objects only while no other attempt of the activity can be
// running.
type fencedStore struct {
	artifact.Store
	server Server

	mu    sync.Mutex
	acked time.Time // when the last acknowledged heartbeat was sent
}

// FenceStore returns the store for the activity of ctx, which has just begun. A worker that was cut off from
// the server, or suspended, would otherwise replace the documents of a later attempt by older ones.
func FenceStore(ctx context.Context, store artifact.Store, server Server) artifact.Store {
	if activity.GetInfo(ctx).HeartbeatTimeout == 0 {
		return store
	}
	return &fencedStore{Store: store, server: server, acked: time.Now()}
}

// Put implements artifact.Store.
func (f *fencedStore) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := f.checkFence(ctx); err != nil {
		return err
	}
	return f.Store.Put(ctx, key, body)
}

// Copy implements artifact.Store.
func (f *fencedStore) Copy(ctx context.Context, src, dst string) error {
	if err := f.checkFence(ctx); err != nil {
		return err
	}
	return f.Store.Copy(ctx, src, dst)
}

// Delete implements artifact.Store.
func (f *fencedStore) Delete(ctx context.Context, key string) error {
	if err := f.checkFence(ctx); err != nil {
		return err
	}
	return f.Store.Delete(ctx, key)
}

// freshAck is the age up to which an acknowledgement counts. The server starts no other attempt for longer, but a
// reset begins another run at any time.
const freshAck = time.Second

// checkFence asks the server whether the attempt still has its task, unless it has just acknowledged it.
func (f *fencedStore) checkFence(ctx context.Context) error {
	info, sent := activity.GetInfo(ctx), time.Now().Round(0)
	f.mu.Lock()
	acked := f.acked
	f.mu.Unlock()
	if sent.Sub(acked.Round(0)) < min(freshAck, info.HeartbeatTimeout*8/10) {
		return nil
	}
	if err := f.server.Heartbeat(ctx, info.TaskToken); err != nil {
		return fmt.Errorf("another attempt may be running: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acked = sent
	return nil
}

// Claim creates key with the claim, or returns the claim that the same workflow made earlier. If
// another workflow holds it, the error has the type SessionTaken and names the subject and the
// remedy.
func Claim[T interface{ OwnedBy() artifact.Owner }](ctx context.Context, store artifact.Store, key string, claim T, subject, remedy string) (made T, created bool, err error) {
	err = artifact.CreateJSON(ctx, store, key, claim)
	if err == nil {
		return claim, true, nil
	}
	if !errors.Is(err, artifact.ErrExists) {
		return claim, false, fmt.Errorf("claim %s: %w", subject, err)
	}
	if made, err = artifact.ReadJSON[T](ctx, store, key); err != nil {
		return made, false, fmt.Errorf("claim %s: %w", subject, err)
	}
	if theirs := made.OwnedBy(); theirs != claim.OwnedBy() {
		return made, false, Taken("%s belongs to workflow %s, first run %s: %s", subject, theirs.WorkflowID, theirs.FirstRunID, remedy)
	}
	return made, false, nil
}

// RefuseDeleted returns an error of type SessionTaken if a session or run is marked for deletion.
// It is called after the claim: either it sees the mark, or `conclave delete` sees the claim.
func RefuseDeleted(ctx context.Context, store artifact.Store, layout artifact.Layout, subject string) error {
	marked, err := store.Exists(ctx, layout.File(artifact.Deleted))
	if err != nil {
		return fmt.Errorf("claim %s: %w", subject, err)
	}
	if marked {
		return Taken("%s is being deleted: finish that with `conclave delete`, or choose another ID", subject)
	}
	return nil
}

// CreateOnce creates a file of a session or run. It does nothing if the file exists.
func CreateOnce(ctx context.Context, store artifact.Store, key string, document any) error {
	if err := artifact.CreateJSON(ctx, store, key, document); !errors.Is(err, artifact.ErrExists) {
		return err
	}
	return nil
}

// WriteMessage writes a human message to the file from which running steps read it.
func WriteMessage(ctx context.Context, store artifact.Store, layout artifact.Layout, m step.Message, now time.Time) error {
	m.SaidAt = artifact.Timestamp(now)
	return artifact.PutJSON(ctx, store, layout.Message(m.Number), m)
}

// AppendEvents appends events, whose sequence numbers are seq, to events.jsonl and returns the new
// content. Lines from the first number on are replaced; an incomplete record or a reset workflow
// may have left them. known is an earlier content of the file, which is read only if known lacks
// the preceding events.
func AppendEvents[E any](ctx context.Context, store artifact.Store, layout artifact.Layout, known []byte, events []E, seq func(E) int) ([]byte, error) {
	if len(events) == 0 {
		return known, nil
	}
	key, first := layout.File("events.jsonl"), seq(events[0])
	before, last := linesBefore(known, first)
	if last != first-1 {
		old, err := store.Get(ctx, key)
		if err != nil && !errors.Is(err, artifact.ErrNotFound) {
			return nil, err
		}
		before, _ = linesBefore(old, first)
	}
	lines := bytes.NewBuffer(before)
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		lines.Write(append(line, '\n'))
	}
	return lines.Bytes(), store.Put(ctx, key, bytes.NewReader(lines.Bytes()))
}

// linesBefore returns the leading lines of events numbered below seq. last is the number of the
// last of these events, or 0.
func linesBefore(lines []byte, seq int) (before []byte, last int) {
	kept := 0
	for line := range bytes.Lines(lines) {
		var e struct {
			Seq int `json:"seq"`
		}
		if err := json.Unmarshal(line, &e); err != nil || e.Seq >= seq {
			break
		}
		kept, last = kept+len(line), e.Seq
	}
	return lines[:kept:kept], last
}
