package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/text"
)

// Grace is how long a base that no session names is kept after its last use.
const Grace = 24 * time.Hour

// ErrBusy reports that an upload, a start or another sweep is under way.
var ErrBusy = errors.New("a base is being uploaded or used, or another prune is running")

// Swept is the result of a sweep.
type Swept struct {
	Objects int
	Bytes   int64
	Rest    bool // there was no time for all: sweep again
}

// Sweep removes the bases that named does not return and that were not used within Grace,
// with all packs and blobs that no other base needs. It first excludes uploads, or fails with
// ErrBusy, and then calls named. With dry it removes nothing.
func Sweep(ctx context.Context, store artifact.Store, now func() time.Time, named func() (map[string]bool, error), dry bool) (swept Swept, err error) {
	if dry {
		goes, err := listDeletable(ctx, store, now(), named)
		return swept.withObjects(slices.Concat(goes...)), err
	}
	if none, err := isEmpty(ctx, store); none || err != nil {
		return swept, err
	}
	end, err := beginSweep(ctx, store, now())
	if err != nil {
		return swept, err
	}
	defer func() { err = errors.Join(err, end()) }()
	deadline := now().Add(sweepTime / 2)
	goes, err := listDeletable(ctx, store, now(), named)
	if err != nil {
		return swept, err
	}
	for _, kind := range goes {
		for batch := range slices.Chunk(kind, 500) {
			if now().After(deadline) {
				swept.Rest = true
				return swept, nil
			}
			keys := text.Each(batch, func(o artifact.Object) string { return o.Key })
			if err := store.DeleteAll(ctx, keys); err != nil {
				return swept, fmt.Errorf("remove unused bases: %w", err)
			}
			swept = swept.withObjects(batch)
		}
	}
	return swept, nil
}

func isEmpty(ctx context.Context, store artifact.Store) (bool, error) {
	for _, err := range store.List(ctx, Root) {
		if err != nil {
			return false, fmt.Errorf("list the bases: %w", err)
		}
		return false, nil
	}
	return true, nil
}

func (s Swept) withObjects(objects []artifact.Object) Swept {
	for _, o := range objects {
		s.Objects, s.Bytes = s.Objects+1, s.Bytes+o.Size
	}
	return s
}

// beginSweep excludes uploads until end is called, or fails with ErrBusy.
func beginSweep(ctx context.Context, store artifact.Store, now time.Time) (end func() error, err error) {
	own, err := writeNotice(ctx, store, sweeps, now.Add(sweepTime))
	if err != nil {
		return nil, err
	}
	end = func() error { return store.Delete(context.WithoutCancel(ctx), own) }
	for prefix, except := range map[string]string{holds: "", sweeps: own} {
		busy, err := isAnnounced(ctx, store, prefix, except, now)
		if err == nil && busy {
			err = ErrBusy
		}
		if err != nil {
			return nil, errors.Join(err, end())
		}
	}
	return end, nil
}

// listDeletable lists the objects to remove by kind: manifests first and contents last, so that
// no manifest is left without its contents.
func listDeletable(ctx context.Context, store artifact.Store, now time.Time, named func() (map[string]bool, error)) (goes [][]artifact.Object, err error) {
	var all []artifact.Object
	for o, err := range store.Objects(ctx, Root) {
		if err != nil {
			return nil, fmt.Errorf("list the bases: %w", err)
		}
		all = append(all, o)
	}
	kept, err := named()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	young := func(o artifact.Object) bool { return now.Sub(o.Modified) < Grace }
	for _, o := range all {
		if hash, ok := hashIn(o.Key, manifests, uses); ok && young(o) {
			kept[hash] = true
		}
	}
	needed := map[string]bool{}
	for _, o := range all {
		if hash, ok := hashIn(o.Key, manifests); ok && kept[hash] {
			if err := addNeeded(ctx, store, hash, needed); err != nil {
				return nil, err
			}
		}
	}
	for _, prefix := range []string{manifests, uses, indexes, packs, blobs} {
		var kind []artifact.Object
		for _, o := range all {
			hash, ok := hashIn(o.Key, prefix)
			if ok && !young(o) && !kept[hash] && !needed[o.Key] {
				kind = append(kind, o)
			}
		}
		goes = append(goes, kind)
	}
	return goes, nil
}

func addNeeded(ctx context.Context, store artifact.Store, hash string, needed map[string]bool) error {
	ix, err := readIndex(ctx, store, hash)
	if _, missing := errors.AsType[*MissingError](err); missing {
		return nil
	}
	if err != nil {
		return err
	}
	for _, p := range ix.Packs {
		needed[packs+p.Pack] = true
	}
	m, err := loadManifest(ctx, store, hash)
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		if f.SHA256 != "" {
			needed[blobs+f.SHA256] = true
		}
	}
	return nil
}

func hashIn(key string, prefixes ...string) (hash string, ok bool) {
	for _, prefix := range prefixes {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			return strings.TrimSuffix(path.Base(name), ".json"), true
		}
	}
	return "", false
}

// Sweeps exclude uploads and starts of sessions. Each side writes a notice before it looks
// for notices of the other side, so at least one of two sees the other.
const (
	holds  = Root + "holds/"  // notices of uploads and starts
	sweeps = Root + "sweeps/" // prefix of the notices of sweeps

	holdTime  = 12 * time.Hour         // time after which the notice of a killed upload no longer counts
	sweepTime = time.Minute            // time after which the notice of a killed sweep no longer counts; a running one stops earlier
	sweepWait = 100 * time.Millisecond // pause between looks at a running sweep
)

// notice is the content of an object below holds or sweeps.
type notice struct {
	Expires time.Time `json:"expires"`
}

func writeNotice(ctx context.Context, store artifact.Store, prefix string, expires time.Time) (key string, err error) {
	key = prefix + rand.Text() + ".json"
	if err := artifact.CreateJSON(ctx, store, key, notice{Expires: expires.UTC()}); err != nil {
		return "", fmt.Errorf("announce the use of bases: %w", err)
	}
	return key, nil
}

// isAnnounced reports whether there is an unexpired notice other than own. It removes expired ones.
func isAnnounced(ctx context.Context, store artifact.Store, prefix, own string, now time.Time) (bool, error) {
	for key, err := range store.List(ctx, prefix) {
		if err != nil {
			return false, fmt.Errorf("look for users of bases: %w", err)
		}
		if key == own {
			continue
		}
		n, err := artifact.ReadJSON[notice](ctx, store, key)
		switch {
		case errors.Is(err, artifact.ErrNotFound):
		case err != nil:
			return false, fmt.Errorf("look for users of bases: %w", err)
		case n.Expires.After(now):
			return true, nil
		default:
			if err := store.Delete(ctx, key); err != nil {
				return false, fmt.Errorf("remove an expired notice: %w", err)
			}
		}
	}
	return false, nil
}

// holdSweeps waits until no sweep runs and keeps sweeps away until release is called.
func holdSweeps(ctx context.Context, store artifact.Store, now func() time.Time) (release func(), err error) {
	own, err := writeNotice(ctx, store, holds, now().Add(holdTime))
	if err != nil {
		return nil, err
	}
	release = func() { _ = store.Delete(context.WithoutCancel(ctx), own) } // otherwise the notice expires
	for {
		running, err := isAnnounced(ctx, store, sweeps, "", now())
		if err == nil && !running {
			return release, nil
		}
		if err == nil {
			select {
			case <-ctx.Done():
				err = context.Cause(ctx)
			case <-time.After(sweepWait):
				continue
			}
		}
		release()
		return nil, err
	}
}
