package main

import (
	"github.com/spf13/cobra"

	"conclave/workflows/drive"
)

func (c *cli) pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pause ID",
		Short: "Suspend a session until it is resumed",
		Long: `Suspend a session: running steps are held where they are, nothing new is begun,
and its time stands still. Nothing is lost; resume goes on where it was.

Without an address, pause joins the local stack; it runs no steps.`,
		Example: `  conclave pause 20261121-153012-k3f9
  conclave resume 20261121-153012-k3f9`,
		Args: arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.update(cmd.Context(), args[0], update{
				name: drive.PauseSignal, what: "pause", next: "resume",
				done: "paused, nothing is lost; %s goes on",
			})
		},
	}
}
