package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/engine/text"
)

// flagError adds the nearest flag to an unknown one, as cobra does for commands.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if near, ok := nearestFlag(cmd, unknown.GetSpecifiedName()); ok {
			return fmt.Errorf("%w; did you mean --%s? See `%s --help`", err, near, cmd.CommandPath())
		}
	}
	return fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())
}

func nearestFlag(cmd *cobra.Command, name string) (string, bool) {
	var flags []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return text.Nearest(name, flags)
}
