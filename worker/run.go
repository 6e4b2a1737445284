package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/worker/settings"
)

// ErrEnded says that a worker could not go on.
var ErrEnded = errors.New("the worker cannot go on")

// Configure takes over what the operator's file says. MaxConcurrentSteps, Tools
// and a default team that are set already stay.
func (c *Config) Configure(s settings.Settings) {
	c.Models.Providers = NewProviders(s.Providers)
	if c.Tools == nil {
		c.Tools = NewTools(s)
	}
	if c.MaxConcurrentSteps == 0 {
		c.MaxConcurrentSteps = s.MaxConcurrentSteps
	}
	named := map[string]config.Team{}
	for name, team := range s.Teams {
		named[name] = team
	}
	if team, ok := c.Teams.Named[activities.DefaultTeam]; ok {
		named[activities.DefaultTeam] = team
	}
	c.Teams.Named = named
}

// CheckPrices returns the error of Models.CheckPrices for the first team that has
// one: a limit that cannot be kept is no limit.
func (c Config) CheckPrices() error {
	for _, name := range slices.Sorted(maps.Keys(c.Teams.Named)) {
		if err := c.Models.CheckPrices(c.Teams.Named[name]); err != nil {
			return fmt.Errorf("use the team %s: %w", name, err)
		}
	}
	return nil
}

// MissingKeys are sentences for people about keys that teams need and this worker
// does not have.
func (c Config) MissingKeys() []string {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(c.Teams.Named)) {
		needed := c.Models.MissingKeys(c.Teams.Named[name])
		for _, variable := range slices.Sorted(maps.Keys(needed)) {
			missing = append(missing, fmt.Sprintf("the environment variable %s is not set; in sessions of the team %s, %s will wait for a worker that has it",
				variable, name, strings.Join(needed[variable], ", ")))
		}
	}
	return missing
}

// Lacking are sentences for people about tools that teams ask for and this
// worker has not what they need for.
func (c Config) Lacking(ctx context.Context) []string {
	if c.Tools == nil {
		return nil
	}
	return c.Tools.lacking(ctx, c.Teams.Named)
}

// Run works until ctx ends, which is no error, or until the worker cannot go on.
// Started is called once it polls.
func Run(ctx context.Context, c Config, started func()) error {
	fatal := make(chan error, 1)
	c.OnFatal = func(err error) {
		select {
		case fatal <- err:
		default: // one is enough
		}
	}
	w, err := New(c)
	if err != nil {
		return err
	}
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	started()
	select {
	case <-ctx.Done():
		return nil
	case err := <-fatal:
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
}
