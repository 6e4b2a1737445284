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

// Stored is a session or another run in a store.
type Stored struct {
	ID      string
	Kind    string // sessions, pipelines or scenarios, as in the keys of its files
	Query   string // query; the title of a scenario
	Status  string // empty if it is unknown
	Created time.Time
	Usage   *llm.Usage // nil if it is unknown

	changed time.Time // status.json; of a scenario's run the end
}

// Took returns the time from the start to the last change.
func (s Stored) Took() time.Duration {
	if s.Created.IsZero() || s.changed.Before(s.Created) {
		return 0
	}
	return s.changed.Sub(s.Created)
}

// scenarios is the kind whose runs are one level deeper, within their scenario.
const scenarios = "scenarios"

// claims are the names of the files that identify a run, by kind.
var claims = map[string]string{"sessions": "session.json", "pipelines": "pipeline.json", scenarios: "result.json"}

// List returns the sessions and the runs of pipelines and scenarios in a store, the newest first.
// A run with unreadable documents has only its ID.
func List(ctx context.Context, store artifact.Store) ([]Stored, error) {
	found := map[string]*Stored{} // found runs by the root of their files
	for kind, claim := range claims {
		for o, err := range store.Objects(ctx, kind+"/") {
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", store.URL(kind+"/"), err)
			}
			root, id, name := splitKey(kind, o.Key)
			if name != claim && name != "status.json" {
				continue
			}
			if found[root] == nil {
				found[root] = &Stored{ID: id, Kind: kind}
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

// splitKey splits a key into the root of a run, the ID of the run, and the name of the file. All
// are empty if the key does not belong to a run.
func splitKey(kind, key string) (root, id, name string) {
	depth := 2
	if kind == scenarios {
		depth = 4 // scenarios/<slug>/runs/<id>/
	}
	parts := strings.SplitN(key, "/", depth+1)
	if len(parts) <= depth || kind == scenarios && parts[2] != "runs" {
		return "", "", ""
	}
	return strings.Join(parts[:depth], "/") + "/", unescape(parts[depth-1]), parts[depth]
}

func (s *Stored) read(ctx context.Context, store artifact.Store, root string) error {
	var told struct {
		Query      string     `json:"query"`
		Request    string     `json:"request"`
		Title      string     `json:"title"`
		Scenario   string     `json:"scenario"`
		CreatedAt  time.Time  `json:"created_at"`
		StartedAt  time.Time  `json:"started_at"`
		Status     string     `json:"status"`
		DurationMS int64      `json:"duration_ms"`
		Cost       *llm.Usage `json:"cost"`
		Usage      *llm.Usage `json:"usage"`
	}
	for _, name := range []string{"status.json", claims[s.Kind]} {
		data, err := store.Get(ctx, root+name)
		if errors.Is(err, artifact.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", store.URL(root+name), err)
		}
		_ = json.Unmarshal(data, &told) // a damaged document is ignored
	}
	s.Query, s.Created, s.Status, s.Usage = cmp.Or(told.Query, told.Request), told.CreatedAt, told.Status, cmp.Or(told.Cost, told.Usage)
	if s.Kind == scenarios {
		s.Query, s.Created = cmp.Or(told.Title, told.Scenario), told.StartedAt
		s.changed = s.Created.Add(time.Duration(told.DurationMS) * time.Millisecond)
	}
	return nil
}
