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
	var keys []string
	for key, err := range p.Store.List(ctx, s.Layout.Journals(s.Token)) {
		if err != nil {
			return // what stays behind does no harm, so nothing depends on this
		}
		keys = append(keys, key)
	}
	remove(ctx, p.Store, keys)
}

// remove deletes objects whose absence nothing depends on.
func remove(ctx context.Context, store artifact.Store, keys []string) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(forgotten)
	for _, key := range keys {
		group.Go(func() error {
			_ = store.Delete(ctx, key)
			return nil
		})
	}
	_ = group.Wait()
}

// keys are the objects of a token's journal, n of them.
func keys(layout artifact.Layout, token string, n int) []string {
	all := make([]string, 0, n)
	for seq := 1; seq <= n; seq++ {
		all = append(all, layout.Journal(token, seq))
	}
	return all
}
