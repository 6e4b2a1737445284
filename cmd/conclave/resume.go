package main

import (
	"github.com/spf13/cobra"

	"conclave/workflows/drive"
)

func (c *cli) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resume ID",
		Short: "Go on with a paused session",
		Long: `Go on with a paused session. Steps that were held go on with the conversations
and files they had.

Without an address, resume joins the local stack; it runs no steps itself.`,
		Example: `  conclave resume 20261121-153012-k3f9
  conclave resume 20261121-153012-k3f9 && conclave watch 20261121-153012-k3f9`,
		Args: arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.update(cmd.Context(), args[0], update{
				name: drive.ResumeSignal, what: "resume", next: "watch", steps: true,
				done: "goes on; %s follows it",
			})
		},
	}
}
