package prune

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/material"
	"conclave/engine/artifact"
)

// leftover is an unused file in the data directory.
type leftover struct {
	name  string // name below the data directory
	bytes int64
}

// fresh is the age below which a registered team is kept, because the command that
// registered it may be about to start its session.
const fresh = time.Hour

// hashForm matches the hashes that name registered teams and pipelines, anywhere in a text.
var hashForm = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// leftovers finds unused registered teams and pipelines, old logs, and the file
// hashes of directories that were not uploaded recently.
func (inv *inventory) leftovers(ctx context.Context, going []*run, f filter) ([]leftover, error) {
	dir := inv.conn.Target.DataDir
	if inv.conn.Cluster {
		return nil, nil
	}
	used, err := inv.references(ctx, going)
	if err != nil {
		return nil, err
	}
	teams := registered(filepath.Join(dir, "teams"), used)
	var found []leftover
	for _, name := range []string{"teams", "logs", material.KnownDir} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() {
				continue
			}
			age, hash := f.now.Sub(info.ModTime()), hashForm.FindString(e.Name())
			unused := name == "teams" && hash != "" && !teams[hash] && age > fresh
			old := age >= f.olderThan && (name == "logs" && filepath.Ext(e.Name()) == ".1" || name == material.KnownDir && age > fresh)
			if unused || old {
				found = append(found, leftover{filepath.Join(name, e.Name()), info.Size()})
			}
		}
	}
	return found, nil
}

// references returns the hashes that the remaining runs refer to in claims, in
// configurations of pipelines, and in the inputs of open workflows.
func (inv *inventory) references(ctx context.Context, going []*run) (map[string]bool, error) {
	gone, used := map[*run]bool{}, map[string]bool{}
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
		case r.kind == pipelines && r.root != "":
			text, err = inv.conn.Store.Get(ctx, r.root+"config.json")
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
func inputOf(ctx context.Context, conn *hall.Connection, workflow string) ([]byte, error) {
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

// registered adds to the used hashes the default team and all definitions that
// used definitions refer to.
func registered(dir string, used map[string]bool) map[string]bool {
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
