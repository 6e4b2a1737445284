package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
)

var errKilled = errors.New("killed")

// killed is the store of a process that dies after a given number of writes.
type killed struct {
	artifact.Store
	mu   sync.Mutex
	left int
}

func (k *killed) alive() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left--; k.left < 0 {
		return errKilled
	}
	return nil
}

func (k *killed) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := k.alive(); err != nil {
		return err
	}
	return k.Store.Put(ctx, key, body)
}

func (k *killed) Create(ctx context.Context, key string, body []byte) error {
	if err := k.alive(); err != nil {
		return err
	}
	return k.Store.Create(ctx, key, body)
}

func (k *killed) Delete(ctx context.Context, key string) error {
	if err := k.alive(); err != nil {
		return err
	}
	return k.Store.Delete(ctx, key)
}

func (k *killed) DeleteAll(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := k.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// world is a store with sessions and a clock that can be advanced.
type world struct {
	store artifact.Store

	mu       sync.Mutex
	offset   time.Duration
	sessions map[string]string // bases by session; an unconfirmed start has the suffix "?"
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.offset)
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offset += d
}

func (w *world) named() (map[string]bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	named := map[string]bool{}
	for hash := range maps.Values(w.sessions) {
		named[strings.TrimSuffix(hash, "?")] = true
	}
	return named, nil
}

func (w *world) set(session, hash string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions[session] = hash
}

// start records a base in a session and confirms it, like the preparation of a session. A session
// that was deleted in between stays deleted: with the clock ahead of the objects' times, its base may
// be removed at once.
func (w *world) start(ctx context.Context, store artifact.Store, session, hash string) error {
	w.set(session, hash+"?")
	if err := snapshot.Use(ctx, store, hash, w.now); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, kept := w.sessions[session]; kept {
		w.sessions[session] = hash
	}
	return nil
}

// prune removes some sessions, then the bases that no session uses.
func (w *world) prune(ctx context.Context, store artifact.Store, chance float64) error {
	w.mu.Lock()
	for id := range w.sessions {
		if rand.Float64() < chance {
			delete(w.sessions, id)
		}
	}
	w.mu.Unlock()
	_, err := snapshot.Sweep(ctx, store, w.now, w.named, false)
	return err
}

// check requires that all manifests and the bases of confirmed sessions are complete.
func (w *world) check(t require.TestingT) {
	for key, err := range w.store.List(context.Background(), "base/manifests/") {
		require.NoError(t, err)
		requireWhole(t, w.store, strings.TrimSuffix(filepath.Base(key), ".json"))
	}
	for _, hash := range w.sessions {
		if !strings.HasSuffix(hash, "?") {
			requireWhole(t, w.store, hash)
		}
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	store, dir := openStore(t), project(t)
	w := &world{store: store, sessions: map[string]string{}}
	first := upload(t, snapshot.Upload{Store: store, Dir: dir, Known: filepath.Join(t.TempDir(), "known")})
	require.NoError(t, w.start(t.Context(), store, "s", first.Hash))
	write(t, dir, map[string]string{"another": "file"})
	second := upload(t, snapshot.Upload{Store: store, Dir: dir})

	sweep := func(dry bool) snapshot.Swept {
		swept, err := snapshot.Sweep(t.Context(), store, w.now, w.named, dry)
		require.NoError(t, err)
		return swept
	}
	require.Zero(t, sweep(false), "nothing is old enough")
	w.advance(snapshot.Grace + time.Minute)
	would := sweep(true)
	require.NotZero(t, would.Bytes)
	require.Equal(t, would, sweep(false))
	requireWhole(t, store, first.Hash)
	_, err := snapshot.Open(t.Context(), store, second.Hash)
	require.Error(t, err)

	clear(w.sessions)
	sweep(false)
	for key, err := range store.List(t.Context(), "base/") {
		require.NoError(t, err)
		require.Fail(t, "left: "+key)
	}
}

func TestSweep_busy(t *testing.T) {
	t.Parallel()
	store, dir := openStore(t), project(t)
	w := &world{store: store, sessions: map[string]string{}}
	reached, proceed := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	var once sync.Once
	go func() {
		_, err := snapshot.Upload{Store: store, Dir: dir, Now: time.Now, Progress: func(snapshot.Progress) {
			once.Do(func() { close(reached); <-proceed })
		}}.Run(context.Background())
		done <- err
	}()
	<-reached
	_, err := snapshot.Sweep(t.Context(), store, w.now, w.named, false)
	require.ErrorIs(t, err, snapshot.ErrBusy)
	close(proceed)
	require.NoError(t, <-done)

	_, err = snapshot.Upload{Store: &killed{Store: store, left: 2}, Dir: dir, Now: time.Now, Secrets: true}.Run(t.Context())
	require.ErrorIs(t, err, errKilled)
	_, err = snapshot.Sweep(t.Context(), store, w.now, w.named, false)
	require.ErrorIs(t, err, snapshot.ErrBusy, "the upload may still run")
	w.advance(13 * time.Hour)
	_, err = snapshot.Sweep(t.Context(), store, w.now, w.named, false)
	require.NoError(t, err)
}

// Concurrent uploads, starts and prunes, interrupted by kills and spread over days, neither leave
// an incomplete manifest nor delete the base of a session.
func TestSweep_interleavings(t *testing.T) {
	t.Parallel()
	rounds := errgroup.Group{}
	rounds.SetLimit(8)
	for round := range 200 {
		rounds.Go(func() error {
			t := &failure{}
			interleave(t, round)
			return t.err
		})
	}
	require.NoError(t, rounds.Wait())
}

// failure records the first failed assertion of a round.
type failure struct{ err error }

func (f *failure) Errorf(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}
func (f *failure) FailNow() {}

func interleave(t *failure, round int) {
	dir, err := os.MkdirTemp("", "conclave-interleave-")
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := artifact.NewDir(filepath.Join(dir, "store"))
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	w := &world{store: store, sessions: map[string]string{}}
	for phase := range 4 {
		var actors sync.WaitGroup
		for actor := range 3 {
			actors.Go(func() {
				mine := &killed{Store: store, left: 100}
				if rand.IntN(2) == 0 {
					mine.left = rand.IntN(12)
				}
				ctx := context.Background()
				if actor == 0 {
					if w.prune(ctx, mine, 0.5) != nil {
						w.advance(2 * time.Minute) // uploads wait for a killed sweep to expire
					}
					return
				}
				tree := filepath.Join(dir, fmt.Sprint("tree", actor))
				_ = os.MkdirAll(tree, 0o755)
				for _, name := range []string{"a", "b", "c"} {
					_ = os.WriteFile(filepath.Join(tree, name), []byte(name+fmt.Sprint(rand.IntN(3))), 0o644)
				}
				done, err := snapshot.Upload{Store: mine, Dir: tree, Known: tree + ".known", Now: w.now}.Run(ctx)
				if err == nil {
					_ = w.start(ctx, mine, fmt.Sprint(round, phase, actor), done.Hash)
				}
			})
		}
		actors.Wait()
		w.check(t)
		w.advance(time.Duration(rand.IntN(30)) * time.Hour)
	}
}
