package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
	"conclave/engine/llm"
)

// Stored is a session or a pipeline's run in a store.
type Stored struct {
	ID       string
	Pipeline bool
	Query    string
	Status   string // empty if it is unknown
	Created  time.Time
	Usage    *llm.Usage // nil if it is unknown

	changed time.Time // status.json
}

// Took is the time from the beginning to the last change.
func (s Stored) Took() time.Duration {
	if s.Created.IsZero() || s.changed.Before(s.Created) {
		return 0
	}
	return s.changed.Sub(s.Created)
}

// List lists the sessions and the runs of pipelines in a store, the newest first. A run whose
// documents cannot be read is listed with its ID alone.
func List(ctx context.Context, store artifact.Store) ([]Stored, error) {
	found := map[string]*Stored{} // by the root of the run's files
	for _, kind := range []struct{ prefix, claim string }{{"sessions/", "session.json"}, {"pipelines/", "pipeline.json"}} {
		for o, err := range store.Objects(ctx, kind.prefix) {
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", store.URL(kind.prefix), err)
			}
			id, name, _ := strings.Cut(strings.TrimPrefix(o.Key, kind.prefix), "/")
			if name != kind.claim && name != "status.json" {
				continue
			}
			root := kind.prefix + id + "/"
			if found[root] == nil {
				found[root] = &Stored{ID: unescape(id), Pipeline: kind.claim == "pipeline.json"}
			}
			if name == "status.json" {
				found[root].changed = o.Modified
			}
		}
	}
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	var all []*Stored
	for root, s := range found {
		all = append(all, s)
		group.Go(func() error { return s.read(together, store, root) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *Stored) int { return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID)) })
	list := make([]Stored, len(all))
	for i, s := range all {
		list[i] = *s
	}
	return list, nil
}

func (s *Stored) read(ctx context.Context, store artifact.Store, root string) error {
	name := "session.json"
	if s.Pipeline {
		name = "pipeline.json"
	}
	var claim struct {
		Query     string    `json:"query"`
		Request   string    `json:"request"`
		CreatedAt time.Time `json:"created_at"`
	}
	var status struct {
		Status string     `json:"status"`
		Cost   *llm.Usage `json:"cost"`
		Usage  *llm.Usage `json:"usage"`
	}
	for key, into := range map[string]any{root + name: &claim, root + "status.json": &status} {
		data, err := store.Get(ctx, key)
		if errors.Is(err, artifact.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", store.URL(key), err)
		}
		_ = json.Unmarshal(data, into) // a damaged document says nothing
	}
	s.Query, s.Created, s.Status, s.Usage = cmp.Or(claim.Query, claim.Request), claim.CreatedAt, status.Status, cmp.Or(status.Cost, status.Usage)
	return nil
}
