package base

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"conclave/engine/artifact"
)

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

// announce writes a notice and returns its key.
func announce(ctx context.Context, store artifact.Store, prefix string, expires time.Time) (key string, err error) {
	key = prefix + rand.Text() + ".json"
	if err := artifact.CreateJSON(ctx, store, key, notice{Expires: expires.UTC()}); err != nil {
		return "", fmt.Errorf("announce the use of bases: %w", err)
	}
	return key, nil
}

// announced reports whether there is an unexpired notice other than own. It removes expired
// ones.
func announced(ctx context.Context, store artifact.Store, prefix, own string, now time.Time) (bool, error) {
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

// hold waits until no sweep runs and keeps sweeps away until release is called.
func hold(ctx context.Context, store artifact.Store, now func() time.Time) (release func(), err error) {
	own, err := announce(ctx, store, holds, now().Add(holdTime))
	if err != nil {
		return nil, err
	}
	release = func() { _ = store.Delete(context.WithoutCancel(ctx), own) } // otherwise the notice expires
	for {
		running, err := announced(ctx, store, sweeps, "", now())
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
