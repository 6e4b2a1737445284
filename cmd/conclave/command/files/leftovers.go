package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/inputs"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
)

// leftover is an unused file in the data directory.
type leftover struct {
	Name  string `json:"name"` // name below the data directory
	Bytes int64  `json:"bytes"`
	Error string `json:"error,omitempty"` // why it could not be removed
}

// freshAge is the age below which a registered team is kept, because the command that
// registered it may be about to start its session.
const freshAge = time.Hour

// hashForm matches the hashes that name registered teams and pipelines, anywhere in a text.
var hashForm = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// findLeftovers finds unused registered teams and pipelines, old logs, and the file
// hashes of directories that were not uploaded recently.
func (inv *inventory) findLeftovers(ctx context.Context, going []*endedRun, olderThan time.Duration) ([]leftover, error) {
	dir := inv.conn.Target.DataDir
	if inv.conn.Cluster {
		return nil, nil
	}
	used, err := inv.usedHashes(ctx, going)
	if err != nil {
		return nil, err
	}
	teams := registeredHashes(filepath.Join(dir, "teams"), used)
	var found []leftover
	for _, name := range []string{"teams", "logs", inputs.KnownDir} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() {
				continue
			}
			age, hash := time.Since(info.ModTime()), hashForm.FindString(e.Name())
			unused := name == "teams" && hash != "" && !teams[hash] && age > freshAge
			old := age >= olderThan && (name == "logs" && filepath.Ext(e.Name()) == ".1" || name == inputs.KnownDir && age > freshAge)
			if unused || old {
				found = append(found, leftover{Name: filepath.Join(name, e.Name()), Bytes: info.Size()})
			}
		}
	}
	return found, nil
}

// usedHashes returns the hashes that the remaining runs refer to in claims, in
// configurations of pipelines, and in the inputs of open workflows.
func (inv *inventory) usedHashes(ctx context.Context, going []*endedRun) (map[string]bool, error) {
	gone, used := map[*endedRun]bool{}, map[string]bool{}
	for _, r := range going {
		gone[r] = true
	}
	for _, r := range inv.runs {
		if gone[r] {
			continue
		}
		used[r.claim.ConfigHash] = true
		var text []byte
		var err error
		switch {
		case r.Kind == record.Pipelines && r.objects > 0:
			text, err = r.config, r.unread
		case r.open && r.claimKey == "":
			text, err = inputOf(ctx, inv.conn, r.workflow)
		}
		if err != nil && !errors.Is(err, artifact.ErrNotFound) {
			return nil, err
		}
		for _, hash := range hashForm.FindAll(text, -1) {
			used[string(hash)] = true
		}
	}
	return used, nil
}

// inputOf returns the input of an open workflow that has not claimed its files yet.
func inputOf(ctx context.Context, conn *cli.Connection, workflow string) ([]byte, error) {
	history := conn.Client.GetWorkflowHistory(ctx, workflow, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	if !history.HasNext() {
		return nil, nil
	}
	event, err := history.Next()
	if err != nil {
		return nil, err
	}
	var input []byte
	for _, p := range event.GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads() {
		input = append(input, p.GetData()...)
	}
	return input, nil
}

// registeredHashes adds to the used hashes the default team and all definitions that
// used definitions refer to.
func registeredHashes(dir string, used map[string]bool) map[string]bool {
	all := map[string]bool{}
	var add func(text []byte)
	add = func(text []byte) {
		for _, found := range hashForm.FindAll(text, -1) {
			if hash := string(found); !all[hash] {
				all[hash] = true
				definition, _ := os.ReadFile(filepath.Join(dir, hash+".json")) // used, whether it can be read or not
				add(definition)
			}
		}
	}
	for hash := range used {
		add([]byte(hash))
	}
	standard, _ := os.ReadFile(filepath.Join(dir, "default"))
	add(standard)
	return all
}

// reportedBases are the stored directories that no remaining run uses.
type reportedBases struct {
	Objects int    `json:"objects"`
	Bytes   int64  `json:"bytes"`
	Error   string `json:"error,omitempty"` // why they could not be removed
}

// sweepBases removes bases and contexts that no run refers to and that have not been used for a day. If dry
// is set, it only counts them, as if the runs in going were already removed.
func (inv *inventory) sweepBases(ctx context.Context, going []*endedRun, dry bool) (reportedBases, error) {
	var all reportedBases
	named := func() (map[string]bool, error) { return inv.namedBases(ctx, going) }
	for {
		swept, err := snapshot.Sweep(ctx, inv.conn.Store, time.Now, named, dry)
		all.Objects, all.Bytes = all.Objects+swept.Objects, all.Bytes+swept.Bytes
		if err != nil || !swept.Rest {
			return all, err
		}
	}
}

// namedBases returns the hashes in the claims of the remaining runs and in the inputs of
// workflows that have not claimed their files yet.
func (inv *inventory) namedBases(ctx context.Context, going []*endedRun) (map[string]bool, error) {
	gone := map[string]bool{}
	for _, r := range going {
		gone[r.Layout.Root()] = true
	}
	named, err := inv.usedHashes(ctx, going)
	if err != nil {
		return nil, err
	}
	for _, kind := range []*record.Kind{record.Sessions, record.Pipelines} {
		for key, err := range inv.conn.Store.List(ctx, kind.Folder+"/") {
			if err != nil {
				return nil, fmt.Errorf("find the claims of runs: %w", err)
			}
			r, name, _ := record.RunOf(inv.conn.Store, key)
			if name != kind.Claim || gone[r.Layout.Root()] {
				continue
			}
			m, err := artifact.ReadJSON[artifact.Material](ctx, r.Store, key)
			if _, damaged := errors.AsType[*artifact.MalformedError](err); damaged || errors.Is(err, artifact.ErrNotFound) {
				continue // a damaged claim does not keep its base
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", key, err)
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
func (r *pruneReport) finishBases(ctx context.Context, inv *inventory, removed []*endedRun) int {
	for _, gone := range removed {
		inputs.Forget(inv.conn, gone.ID)
	}
	r.Bytes -= r.Bases.Bytes
	swept, err := inv.sweepBases(ctx, nil, false)
	r.Bases = swept
	r.Bytes += swept.Bytes
	switch {
	case errors.Is(err, snapshot.ErrBusy):
		inv.conn.Infof("unused bases stay until the next prune: %v", err)
	case err != nil:
		r.Bases.Error = err.Error()
		inv.conn.Warnf("remove unused bases: %v", err)
		return 1
	}
	return 0
}
