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
	maps.Copy(named, s.Teams)
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

// Missing returns a sentence for each unset key variable that a team needs, then one for
// each team whose tools this worker cannot provide.
func (c Config) Missing(ctx context.Context) []string {
	var keys, tools []string
	for _, name := range slices.Sorted(maps.Keys(c.Teams.Named)) {
		team := c.Teams.Named[name]
		needed := c.Models.MissingKeys(team)
		for _, variable := range slices.Sorted(maps.Keys(needed)) {
			keys = append(keys, fmt.Sprintf("the environment variable %s is not set; in sessions of the team %s, %s will wait for a worker that has it",
				variable, name, strings.Join(needed[variable], ", ")))
		}
		if err := c.Tools.Check(ctx, team); err != nil {
			tools = append(tools, fmt.Sprintf("sessions of the team %s cannot work here: %s", name, strings.TrimSuffix(err.Error(), ".")))
		}
	}
	return append(keys, tools...)
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
