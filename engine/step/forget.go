package step

import (
	"context"

	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
)

// forgotten is how many objects of a journal are removed at a time.
const forgotten = 8

// Forget removes the journal of a step that nothing goes on from: it has
// committed, or ended itself and said so.
func Forget(ctx context.Context, p Ports, s Spec) {
	ForgetAll(ctx, p.Store, s.Layout.Journals(s.Token))
}

// ForgetAll removes the journals under a prefix. What stays behind does no harm,
// so nothing depends on it.
func ForgetAll(ctx context.Context, store artifact.Store, prefix string) {
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(forgotten)
	for key, err := range store.List(ctx, prefix) {
		if err != nil {
			break
		}
		group.Go(func() error {
			_ = store.Delete(together, key)
			return nil
		})
	}
	_ = group.Wait()
}
