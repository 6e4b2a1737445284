package prune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"conclave/cmd/conclave/material"
	"conclave/engine/artifact"
	"conclave/engine/base"
)

// reportedBases are the stored directories that no remaining run uses.
type reportedBases struct {
	Objects int    `json:"objects"`
	Bytes   int64  `json:"bytes"`
	Error   string `json:"error,omitempty"` // why they could not be removed
}

// sweepBases removes bases and contexts that no run refers to and that have not been used
// for a day. If dry is set, it only counts them, as if the runs in going were already
// removed.
func (inv *inventory) sweepBases(ctx context.Context, going []*run, dry bool) (reportedBases, error) {
	var all reportedBases
	named := func() (map[string]bool, error) { return inv.namedBases(ctx, going) }
	for {
		swept, err := base.Sweep(ctx, inv.conn.Store, time.Now, named, dry)
		all.Objects, all.Bytes = all.Objects+swept.Objects, all.Bytes+swept.Bytes
		if err != nil || !swept.Rest {
			return all, err
		}
	}
}

// namedBases returns the hashes in the claims of the remaining runs and in the inputs of
// workflows that have not claimed their files yet.
func (inv *inventory) namedBases(ctx context.Context, going []*run) (map[string]bool, error) {
	gone := map[string]bool{}
	for _, r := range going {
		gone[r.root] = true
	}
	named, err := inv.references(ctx, going)
	if err != nil {
		return nil, err
	}
	for _, prefix := range []string{"sessions/", "pipelines/"} {
		for key, err := range inv.conn.Store.List(ctx, prefix) {
			if err != nil {
				return nil, fmt.Errorf("find the claims of runs: %w", err)
			}
			k, _, root, name := owner(key)
			if k == nil || name != k.claim || gone[root] {
				continue
			}
			data, err := inv.conn.Store.Get(ctx, key)
			if errors.Is(err, artifact.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", key, err)
			}
			var m artifact.Material
			if json.Unmarshal(data, &m) != nil {
				continue // a damaged claim does not keep its base
			}
			for _, reference := range append([]artifact.Context{{Manifest: m.Base}}, m.Context...) {
				named[strings.TrimPrefix(reference.Manifest, "sha256:")] = true
			}
		}
	}
	return named, nil
}

// finishBases sweeps the bases after runs were removed and adds the result to the report.
// It returns the number of problems.
func (r *report) finishBases(ctx context.Context, inv *inventory, removed []*run) int {
	for _, gone := range removed {
		material.Forget(inv.conn, gone.id)
	}
	r.Bytes -= r.Bases.Bytes
	swept, err := inv.sweepBases(ctx, nil, false)
	r.Bases = swept
	r.Bytes += swept.Bytes
	switch {
	case errors.Is(err, base.ErrBusy):
		inv.conn.Infof("unused bases stay until the next prune: %v", err)
	case err != nil:
		r.Bases.Error = err.Error()
		inv.conn.Warnf("remove unused bases: %v", err)
		return 1
	}
	return 0
}
