package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/engine/nearest"
)

// flagError adds the nearest flag to an unknown one, as cobra does for commands.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if near := nearestFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			return fmt.Errorf("%w; did you mean --%s? See `%s --help`", err, near, cmd.CommandPath())
		}
	}
	return fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())
}

func nearestFlag(cmd *cobra.Command, name string) string {
	best, distance := "", max(2, len(name)/3)+1
	consider := func(f *pflag.Flag) {
		if d := nearest.Distance(name, f.Name); d < distance && !f.Hidden {
			best, distance = f.Name, d
		}
	}
	cmd.Flags().VisitAll(consider)
	cmd.InheritedFlags().VisitAll(consider)
	return best
}
