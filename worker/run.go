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

// ErrEnded is the error of a worker that cannot continue.
var ErrEnded = errors.New("the worker cannot continue")

// Configure applies the operator's settings. MaxConcurrentSteps, Tools and a default
// team that are already set take precedence.
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

// CheckPrices returns the first error of Models.CheckPrices for a named team.
func (c Config) CheckPrices() error {
	for _, name := range slices.Sorted(maps.Keys(c.Teams.Named)) {
		if err := c.Models.CheckPrices(c.Teams.Named[name]); err != nil {
			return fmt.Errorf("use the team %s: %w", name, err)
		}
	}
	return nil
}

// MissingKeys returns a sentence for each unset key variable that a team needs.
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

// Lacking returns a sentence for each team whose tools this worker cannot provide.
func (c Config) Lacking(ctx context.Context) []string {
	var lacking []string
	for _, name := range slices.Sorted(maps.Keys(c.Teams.Named)) {
		if err := c.Tools.Check(ctx, c.Teams.Named[name]); err != nil {
			lacking = append(lacking, fmt.Sprintf("sessions of the team %s cannot work here: %s", name, strings.TrimSuffix(err.Error(), ".")))
		}
	}
	return lacking
}

// Run works until ctx ends, and then returns nil, or until the worker cannot continue.
// It calls started once it polls.
func Run(ctx context.Context, c Config, started func()) error {
	fatal := make(chan error, 1)
	c.onFatal = func(err error) {
		select {
		case fatal <- err:
		default: // the first one is reported
		}
	}
	stop, err := Start(c)
	if err != nil {
		return err
	}
	defer stop()
	started()
	select {
	case <-ctx.Done():
		return nil
	case err := <-fatal:
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
}
