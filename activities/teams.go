package activities

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/config"
)

// DefaultTeam is the name used by a session that names no team and brings none.
const DefaultTeam = "default"

// Teams are the teams a worker knows. A session's input can name them, never
// define what they reach.
type Teams struct {
	// Named are the operator's teams.
	Named map[string]config.Team

	// Dir holds teams registered by commands on this machine, one file each,
	// named by hash; empty on a cluster.
	Dir string
}

// registered is the form of a registered team's name.
var registered = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Register keeps team in Dir and returns the name under which every worker on
// the same directory finds it. The file is readable by its owner only: it may
// say where models are and which variables hold their keys.
func (t Teams) Register(team config.Team) (string, error) {
	data, err := team.Canonical()
	if err != nil {
		return "", err
	}
	return t.register(team.Hash(), data)
}

// RegisterPipeline keeps a pipeline in Dir as Register keeps a team.
func (t Teams) RegisterPipeline(p config.Pipeline) (string, error) {
	data, err := p.Canonical()
	if err != nil {
		return "", err
	}
	return t.register(p.Hash(), data)
}

// register writes a file that is named by the hash of what it holds.
func (t Teams) register(name string, data []byte) (string, error) {
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return "", fmt.Errorf("making the directory of registered teams: %w", err)
	}
	tmp, err := os.CreateTemp(t.Dir, ".team-*") // mode 0600
	if err != nil {
		return "", fmt.Errorf("registering the team: %w", err)
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), t.file(name))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return "", fmt.Errorf("registering a configuration in %s: %w", t.Dir, err)
	}
	return name, nil
}

func (t Teams) file(name string) string { return filepath.Join(t.Dir, name+".json") }

// byName finds the team that a session's input names.
func (t Teams) byName(name string) (config.Team, error) {
	if team, ok := t.Named[name]; ok {
		return team, nil
	}
	if t.Dir != "" && registered.MatchString(name) {
		return t.load(name)
	}
	known := slices.Sorted(maps.Keys(t.Named))
	return config.Team{}, fmt.Errorf("this worker has no team %q; it has: %s", name, strings.Join(known, ", "))
}

func (t Teams) load(name string) (config.Team, error) {
	data, err := os.ReadFile(t.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return config.Team{}, fmt.Errorf("team %.12s… is not registered in %s", name, t.Dir)
	}
	if err != nil {
		return config.Team{}, fmt.Errorf("reading a registered team: %w", err)
	}
	return config.Parse("registered team", data, config.Local)
}

// pipeline finds a registered pipeline.
func (t Teams) pipeline(name string) (config.Pipeline, error) {
	if t.Dir == "" || !registered.MatchString(name) {
		return config.Pipeline{}, fmt.Errorf("this worker has no pipeline %.80q; send it as config", name)
	}
	data, err := os.ReadFile(t.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return config.Pipeline{}, fmt.Errorf("pipeline %.12s… is not registered in %s", name, t.Dir)
	}
	if err != nil {
		return config.Pipeline{}, fmt.Errorf("reading a registered pipeline: %w", err)
	}
	return config.ParsePipeline("registered pipeline", data, config.Local)
}

// byHash finds the team that a running session uses: among the worker's own,
// else as the session's directory keeps it. The stored copy is trusted as far
// as any input: it must have the hash that the workflow recorded, and can only
// name providers.
func (t Teams) byHash(ctx context.Context, store artifact.Store, layout artifact.Layout, hash string) (config.Team, error) {
	for _, name := range slices.Sorted(maps.Keys(t.Named)) {
		if team := t.Named[name]; team.Hash() == hash {
			return team, nil
		}
	}
	if t.Dir != "" {
		if team, err := t.load(hash); err == nil {
			return team, nil
		}
	}
	data, err := store.Get(ctx, layout.File("config.json"))
	if err != nil {
		return config.Team{}, fmt.Errorf("reading the session's configuration: %w", err)
	}
	team, err := config.Parse("config.json", data, config.Cluster)
	if err != nil {
		return config.Team{}, invalid(err)
	}
	if team.Hash() != hash {
		return config.Team{}, invalid(fmt.Errorf("config.json of the session has hash %.12s…, the session began with %.12s…", team.Hash(), hash))
	}
	return team, nil
}
