package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/config"
	"conclave/engine/files/artifact"
)

// DefaultTeam is the team of a session whose input neither names nor defines a team.
const DefaultTeam = "default"

// Teams holds the teams and pipelines that a worker offers by name. An input may name them, but
// cannot define the addresses and programs that they use.
type Teams struct {
	// Named has the operator's teams by name.
	Named map[string]config.Team

	// Dir contains the teams and pipelines registered by commands on this machine, one file each,
	// named by hash. It is empty on a cluster.
	Dir string
}

// registeredName matches the name of a registered team or pipeline.
var registeredName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// definition is a config.Team or a config.Pipeline.
type definition interface {
	Canonical() ([]byte, error)
	Hash() string
}

// Register writes a team or a pipeline to Dir and returns its name, which all workers with that
// directory can resolve. Only the owner can read the file.
func (t Teams) Register(d definition) (string, error) {
	data, err := d.Canonical()
	if err != nil {
		return "", err
	}
	if err := t.replaceFile(t.definitionFile(d.Hash()), data); err != nil {
		return "", fmt.Errorf("register a configuration in %s: %w", t.Dir, err)
	}
	return d.Hash(), nil
}

// SetDefault writes the name of a registered team to the file DefaultTeam in Dir.
func (t Teams) SetDefault(name string) error {
	if err := t.replaceFile(filepath.Join(t.Dir, DefaultTeam), []byte(name+"\n")); err != nil {
		return fmt.Errorf("write the default team in %s: %w", t.Dir, err)
	}
	return nil
}

// replaceFile writes a file of Dir, which only its owner can read, as a whole.
func (t Teams) replaceFile(file string, content []byte) error {
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(t.Dir, ".team-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

func (t Teams) definitionFile(name string) string { return filepath.Join(t.Dir, name+".json") }

// Resolve returns the team that an input names or defines, or DefaultTeam. If Dir is set, a named
// team is registered, so that a session keeps it if the definition of the name changes.
func (t Teams) Resolve(name string, definition json.RawMessage) (config.Team, error) {
	if Given(definition) {
		if name != "" {
			return config.Team{}, errors.New("the input has both a team and a config: give one")
		}
		return config.Parse("input config", definition, config.Cluster)
	}
	team, err := t.ByName(name)
	if err == nil && t.Dir != "" {
		_, err = t.Register(team)
	}
	return team, err
}

// Given reports whether an optional JSON value is present.
func Given(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// ByName returns the operator's team or the registered team with a name; "" means DefaultTeam.
func (t Teams) ByName(name string) (config.Team, error) {
	if name == "" {
		name = DefaultTeam
	}
	if team, ok := t.Named[name]; ok {
		return team, nil
	}
	if t.Dir != "" && registeredName.MatchString(name) {
		return teamKind.loadRegistered(t, name)
	}
	names := slices.Sorted(maps.Keys(t.Named))
	return config.Team{}, fmt.Errorf("this worker has no team %q; it has: %s", name, strings.Join(names, ", "))
}

// Pipeline returns a registered pipeline.
func (t Teams) Pipeline(name string) (config.Pipeline, error) {
	if t.Dir == "" || !registeredName.MatchString(name) {
		return config.Pipeline{}, fmt.Errorf("this worker has no pipeline %.80q; send it as config", name)
	}
	return pipelineKind.loadRegistered(t, name)
}

// ByHash returns the team of a running session: the worker's own or, if the worker lacks it, the
// copy in the session's directory.
func (t Teams) ByHash(ctx context.Context, store artifact.Store, layout artifact.Layout, hash string) (config.Team, error) {
	for _, name := range slices.Sorted(maps.Keys(t.Named)) {
		if team := t.Named[name]; team.Hash() == hash {
			return team, nil
		}
	}
	return teamKind.findDefinition(ctx, t, store, layout, hash)
}

// PipelineByHash returns the pipeline of a run: the registered one, or else the copy in the run's directory.
func (t Teams) PipelineByHash(ctx context.Context, store artifact.Store, layout artifact.Layout, hash string) (config.Pipeline, error) {
	return pipelineKind.findDefinition(ctx, t, store, layout, hash)
}

// kind is a kind of definition: its name, and the function that reads one.
type kind[D definition] struct {
	name  string
	parse func(name string, data []byte, reach config.Reach) (D, error)
}

var (
	teamKind     = kind[config.Team]{"team", config.Parse}
	pipelineKind = kind[config.Pipeline]{"pipeline", parsePipeline}
)

func (k kind[D]) loadRegistered(t Teams, name string) (D, error) {
	var none D
	data, err := os.ReadFile(t.definitionFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return none, fmt.Errorf("%s %.12s… is not registered in %s", k.name, name, t.Dir)
	}
	if err != nil {
		return none, fmt.Errorf("read a registered %s: %w", k.name, err)
	}
	return k.parse("registered "+k.name, data, config.Local)
}

// findDefinition returns the registered definition with a hash, or else the stored config.json. The latter is
// validated like an input: it must match the hash and may only name providers.
func (k kind[D]) findDefinition(ctx context.Context, t Teams, store artifact.Store, layout artifact.Layout, hash string) (D, error) {
	if t.Dir != "" && registeredName.MatchString(hash) {
		if d, err := k.loadRegistered(t, hash); err == nil {
			return d, nil
		}
	}
	var none D
	data, err := store.Get(ctx, layout.File("config.json"))
	if err != nil {
		return none, fmt.Errorf("read the stored configuration: %w", err)
	}
	d, err := k.parse("config.json", data, config.Cluster)
	if err != nil {
		return none, Invalid(err)
	}
	if d.Hash() != hash {
		return none, Invalid(fmt.Errorf("the stored config.json has hash %.12s…, but the session or run began with %.12s…", d.Hash(), hash))
	}
	return d, nil
}

// parsePipeline is config.ParsePipeline without its warnings.
func parsePipeline(name string, data []byte, reach config.Reach) (config.Pipeline, error) {
	p, _, err := config.ParsePipeline(name, data, reach)
	return p, err
}
